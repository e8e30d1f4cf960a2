"""Reads a Dockerfile: its stages, their instructions, and what these say about the container.

Of the language it knows what `deploy/Dockerfile` uses; anything else is refused, so that a trial never leaves
a line out in silence.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import PurePosixPath

SETTINGS = {"ENV", "WORKDIR", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
ACTIONS = {"RUN", "COPY"}


@dataclass(frozen=True)
class Instruction:
    """word: in capitals. rest: the line behind it, continued lines joined."""

    word: str
    rest: str


@dataclass(frozen=True)
class Stage:
    """base: the image that it begins with. name: as of `AS`, or its place."""

    base: str
    name: str
    instructions: tuple[Instruction, ...]


@dataclass(frozen=True)
class Settings:
    """What a container gets: as of the instructions so far."""

    env: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = "0"
    volumes: tuple[str, ...] = ()
    port: int = 0
    health: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()


def stages(text: str) -> tuple[Stage, ...]:
    """Those of a Dockerfile, in order. Raises ValueError for an instruction that is not known."""
    found: list[Stage] = []
    for each in _instructions(text):
        if each.word == "FROM":
            base, _, name = each.rest.partition(" AS ")
            found.append(Stage(base.strip(), name.strip() or str(len(found)), ()))
        elif each.word not in SETTINGS | ACTIONS or not found:
            raise ValueError(f"{each.word} {each.rest:.60}: not an instruction that is tried here")
        else:
            found[-1] = replace(found[-1], instructions=(*found[-1].instructions, each))
    return tuple(found)


def settings(stage: Stage) -> Settings:
    """At the end of a stage. Raises ValueError."""
    found = Settings()
    for each in stage.instructions:
        found = changed(found, each)
    return found


def changed(before: Settings, by: Instruction) -> Settings:
    """Behind one more instruction; RUN and COPY change nothing here. Raises ValueError."""
    rest = by.rest
    match by.word:
        case "ENV":
            return replace(before, env=before.env | _pairs(rest, before.env))
        case "WORKDIR":
            return replace(before, workdir=str(PurePosixPath(before.workdir) / rest))
        case "USER":
            return replace(before, user=rest)
        case "VOLUME":
            return replace(before, volumes=(*before.volumes, *rest.split()))
        case "EXPOSE":
            return replace(before, port=int(rest))
        case "HEALTHCHECK":
            return replace(before, health=_words(rest.partition(" CMD ")[2]))
        case "ENTRYPOINT":
            return replace(before, entrypoint=_words(rest))
        case "CMD":
            return replace(before, cmd=_words(rest))
    return before


def left_out(ignored: str, path: PurePosixPath) -> bool:
    """Whether a path, relative to the root of the source, is one of a .dockerignore's. Patterns: a path from
    the root, or `**/` and a name at any place."""
    lines = [line.strip() for line in ignored.splitlines()]
    patterns = [line for line in lines if line and not line.startswith("#")]
    anywhere = [line[3:] for line in patterns if line.startswith("**/")]
    return str(path) in patterns or any(fnmatch(path.name, each) for each in anywhere)


def _instructions(text: str) -> list[Instruction]:
    kept = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(kept))
    pairs = (line.partition(" ") for line in joined.split("\n"))
    return [Instruction(word, rest.strip()) for word, _, rest in pairs]


def _pairs(rest: str, env: dict[str, str]) -> dict[str, str]:
    """NAME=VALUE ..., with $NAME of what was set before."""
    pairs = (word.partition("=")[::2] for word in shlex.split(rest))
    return {
        name: re.sub(r"\$(\w+)", lambda found: env.get(found[1], PATHS.get(found[1], "")), value)
        for name, value in pairs
    }


PATHS = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}  # of every image


def _words(rest: str) -> tuple[str, ...]:
    """Of the exec form, the only one that gets signals. Raises ValueError."""
    found = json.loads(rest)
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise ValueError(f"{rest:.60}: not a list of words")
    return tuple(found)
