"""Tries `deploy/Dockerfile` where there is no container runtime: its own commands, in a clean root.

    python deploy/try_in_clean_root.py            a Debian by debootstrap; builds the image there, starts it
    python deploy/try_in_clean_root.py --light    this machine's programs and tacita, read-only; starts it
    python deploy/try_in_clean_root.py --first-answer WHEEL    installs, fetches a model, serves it, asks it

Then it asks /healthz and /readyz from outside, runs the health check, makes a token, classifies a text as
another machine would, and ends the server by SIGTERM. Needs Linux, root, util-linux, and without --light
debootstrap and a network. Every line comes from the Dockerfile; in place of the image python:3.11-slim there
is Debian's own Python 3.11. Nothing stays behind but the folder of --base.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from clean_root.ask import TrialError, alone, loopback_up, tried
from clean_root.build import carry_out
from clean_root.dockerfile import Stage, stages
from clean_root.dockerfile import settings as settings_of
from clean_root.first_answer import LIMIT, first_answer
from clean_root.lent import bare_root, light_root
from clean_root.rooms import Room

ROOT = Path(__file__).resolve().parents[1]
DEBIAN = "bookworm"  # of the images that the Dockerfile begins with
PACKAGES = "python3,python3-venv,python-is-python3"
TOOLS = ("unshare", "mount", "chroot", "setpriv")
IN_ITS_OWN_NETWORK = "--in-its-own-network"


def main() -> int:
    """0: it keeps what it promises. 1: it does not. 2: it cannot be tried here."""
    options = _options()
    if missing := _missing(options.light or options.first_answer is not None):
        print(f"cannot be tried here: {missing}", file=sys.stderr)
        return 2
    if options.first_answer:
        return _first_answer(options.first_answer.resolve(), options.ca, options.work)
    if options.root is not None:
        return _try(options.root, options.light)
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        root = Path(folder)
        root.chmod(0o755)
        if not options.light:
            _build(root, options.base, options.ca)
        own = [sys.executable, __file__, IN_ITS_OWN_NETWORK, folder, *(["--light"] * options.light)]
        return subprocess.run(alone(own), check=False).returncode


def _build(work: Path, base: Path | None, ca: Path | None) -> None:
    """All stages but the last, each in a root `work/NAME`; the last is `work/last`."""
    base = base or work / "base"
    if not base.exists():
        made = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", DEBIAN, str(base)]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
    roots: dict[str, Path] = {}
    *_, last = every = stages((ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8"))
    for stage in every:
        if DEBIAN not in stage.base:
            raise ValueError(f"FROM {stage.base}: tried is {DEBIAN}")
        root = roots[stage.name] = work / ("last" if stage is last else stage.name)
        subprocess.run(["cp", "--archive", "--reflink=auto", str(base), str(root)], check=True)
        carry_out(stage, Room(root).prepared(), ROOT, roots, ca, _say)


def _try(work: Path, light: bool) -> int:
    loopback_up()
    last = stages((ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8"))[-1]
    root = work / "last"
    if light:
        root.mkdir()
        room = light_root(root).prepared()
        settings = carry_out(_without_packages(last), room, None, {}, None, _say)
    else:
        room = Room(root)
        settings = settings_of(last)
    try:
        tried(room, settings, work, _say)
    except (TrialError, subprocess.CalledProcessError) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    _say("kept: what deploy/Dockerfile promises")
    return 0


def _first_answer(wheel: Path, ca: Path | None, work: Path | None) -> int:
    """Times what the README shows first, in a root with this machine's programs and no tacita."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        try:
            seconds = first_answer(bare_root(Path(folder)).prepared(), wheel, ca, _say)
        except (TrialError, subprocess.CalledProcessError) as error:
            print(f"FAILED: {error}", file=sys.stderr)
            return 1
    _say(f"first private answer after {seconds:.0f} s, at most {LIMIT:.0f}")
    return int(seconds > LIMIT)


def _without_packages(stage: Stage) -> Stage:
    """What is lent is this machine's, and stays as it is."""
    kept = [each for each in stage.instructions if not each.rest.startswith("apt-get ")]
    return replace(stage, instructions=tuple(kept))


def _missing(light: bool) -> str:
    """What is needed and not there."""
    tools = [*TOOLS, *([] if light else ["debootstrap"])]
    lacking = [name for name in tools if shutil.which(name) is None]
    if sys.platform != "linux" or os.geteuid() != 0:
        return "it needs Linux and root"
    if lacking:
        return f"it needs {', '.join(lacking)}"
    own = alone(["unshare", "--mount", "--pid", "--fork", "true"])
    return (
        "" if subprocess.run(own, check=False, capture_output=True).returncode == 0 else "no new namespaces"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--light", action="store_true", help="lend this machine's programs and tacita")
    parser.add_argument(
        "--first-answer", type=Path, metavar="WHEEL", help="time it, with this wheel of tacita"
    )
    parser.add_argument("--base", type=Path, help="a clean Debian that is kept; made where it is not there")
    parser.add_argument("--ca", type=Path, help="certificates that this machine's proxy needs, to build")
    parser.add_argument("--work", type=Path, help="where roots are made and removed (default: /tmp)")
    parser.add_argument(IN_ITS_OWN_NETWORK, dest="root", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _say(line: str) -> None:
    if line:
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
