"""The manifest of a store: what its files are, with a format, a version and a checksum in front.

A damaged one, one of another release and one that names what no store wrote are told apart from a whole one
before anything is made of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any, TypeVar

from tacita.plans.typed_json import canonical, from_json, to_json
from tacita.server.spill.store import SpillFile

SPILL_NAME = re.compile(r"[0-9a-f]{16}\.spill")
MALFORMED = (OSError, ValueError, KeyError, TypeError, RecursionError)  # what reading a damaged one raises
T = TypeVar("T")


def stated(form: str, version: int, content: Any) -> str:
    """The text of a manifest. content: a frozen dataclass."""
    body = to_json(content)
    head = {"format": form, "version": version, "sha256": hashlib.sha256(canonical(body)).hexdigest()}
    return json.dumps({**head, **body})


def parsed(text: str, form: str, version: int, kind: type[T]) -> T:
    """The content. Raises one of `MALFORMED` for a text that `stated` would not have written."""
    data = json.loads(text)
    if not isinstance(data, dict) or data.pop("format", None) != form:
        raise ValueError("another format")
    if (found := data.pop("version", None)) != version:
        raise ValueError(f"version {found!s:.20}, this program reads {version}")
    if data.pop("sha256", None) != hashlib.sha256(canonical(data)).hexdigest():
        raise ValueError("its checksum does not match")
    content: T = from_json(kind, data)
    return content


def require_ours(files: Sequence[SpillFile]) -> None:
    """Raises ValueError for a name that no store gives to a file."""
    if odd := [file.name for file in files if not SPILL_NAME.fullmatch(file.name)]:
        raise ValueError(f"names the file {odd[0]!r:.80}")
