"""Explains a command or a call whose packages are not installed, extras of `pip install`; and leaves fields
out of files at their default."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from tacita.errors import InputError


@contextmanager
def needing(extra: str, command: str) -> Iterator[None]:
    """Wraps the imports of a command or a call. extra: the name in pyproject.toml that brings what they
    import. Raises InputError where it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not error.name or error.name.partition(".")[0] == "tacita":
            raise
        raise InputError(f"{command}: {error.name} is not installed", hint=how_to_install(extra)) from error


def how_to_install(extra: str) -> str:
    """Returns the command that installs an extra of this very package, from where pip took it: the wheel or
    the clone that it recorded, else an index."""
    try:
        here = importlib.metadata.distribution("tacita")
    except importlib.metadata.PackageNotFoundError:  # a clone that was not installed
        return f"pip install '.[{extra}]' in the clone"
    record = json.loads(here.read_text("direct_url.json") or "{}")
    url = record.get("url", "")
    if record.get("dir_info", {}).get("editable"):
        return f"pip install -e '{unquote(url.removeprefix('file://'))}[{extra}]'"
    return f"pip install 'tacita[{extra}]{url and f' @ {url}'}'"


# Fields that a file leaves out where they hold their default, so that a new option changes no old file.
#
# Plans (`plans.json_fields`) and the hash of a checkpoint (`checkpoint.load`) obey it.

AT_DEFAULT = {"left out": "at its default"}  # metadata of such a field


def omitted(field: dataclasses.Field[Any], value: Any) -> bool:
    """Tells whether a file that holds this value leaves the field out."""
    if field.metadata != AT_DEFAULT:
        return False
    factory = field.default_factory
    return bool(value == (field.default if factory is dataclasses.MISSING else factory()))
