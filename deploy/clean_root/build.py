"""Carries out a stage of a Dockerfile in a root folder, as `docker build` would."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from clean_root.dockerfile import Instruction, Settings, Stage, changed, left_out
from clean_root.rooms import Room

Said = Callable[[str], None]
HOSTS = "127.0.0.1 localhost\n"  # a runtime writes it, too
OWN_CA = "/etc/own-ca.pem"
TRUSTING = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "PIP_CERT", "CARGO_HTTP_CAINFO")


def carry_out(
    stage: Stage, room: Room, source: Path | None, roots: dict[str, Path], ca: Path | None, said: Said
) -> Settings:
    """All instructions of a stage, in order; its settings at the end. source: what `COPY` takes. roots: of
    the stages before, by name; of one that is not there (it was lent) nothing is copied. ca: certificates
    that the machine's own proxy needs, for RUN alone. Raises CalledProcessError, ValueError."""
    settings = Settings()
    trust = dict.fromkeys(TRUSTING, OWN_CA) if ca else {}
    shutil.copyfile("/etc/resolv.conf", room.root / "etc" / "resolv.conf")
    (room.root / "etc" / "hosts").write_text(HOSTS)
    if ca:
        shutil.copyfile(ca, room.root / OWN_CA.lstrip("/"))
    for each in stage.instructions:
        said(f"{each.word} {each.rest:.90}")
        settings = changed(settings, each)
        if each.word == "WORKDIR":
            (room.root / settings.workdir.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif each.word == "RUN":
            said(room.run(("sh", "-c", each.rest), settings.env | trust, settings.user, settings.workdir))
        elif each.word == "COPY":
            _copy(each, room.root, settings, source, roots)
    if ca:
        (room.root / OWN_CA.lstrip("/")).unlink()
    return settings


def _copy(
    each: Instruction, root: Path, settings: Settings, source: Path | None, roots: dict[str, Path]
) -> None:
    found = re.fullmatch(r"(?:--from=(\w+) )?(\S+) (\S+)", each.rest)
    if not found:
        raise ValueError(f"COPY {each.rest:.60}: not a form that is tried here")
    stage, what, where = found.groups()
    target = root / str(PurePosixPath(settings.workdir) / where).lstrip("/")
    if stage is None and source is not None:
        ignored = (source / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8")
        _copy_tree(source / what, target, lambda path: left_out(ignored, path))
    elif stage in roots:
        _copy_tree(roots[stage] / what.lstrip("/"), target, lambda path: False)


def _copy_tree(source: Path, target: Path, skipped: Callable[[PurePosixPath], bool]) -> None:
    """skipped: asked with paths relative to the source."""

    def names(folder: str, inside: list[str]) -> set[str]:
        at = PurePosixPath(folder).relative_to(source)
        return {name for name in inside if skipped(at / name)}

    shutil.copytree(source, target, symlinks=True, ignore=names, dirs_exist_ok=True)
