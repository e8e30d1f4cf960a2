"""The hint that installs an extra: from where this very package was installed."""

from __future__ import annotations

import importlib.metadata
import json

import pytest

from tacita.extras import how_to_install

WHEEL = "file:///tmp/tacita-0.1.0-cp311-abi3-linux_x86_64.whl"


class Installed:
    """A distribution that pip recorded so."""

    def __init__(self, record: object) -> None:
        self.record = record

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self.record is None else json.dumps(self.record)


@pytest.mark.parametrize(
    ("record", "command"),
    [
        (None, "pip install 'tacita[service]'"),
        ({"url": WHEEL, "archive_info": {}}, f"pip install 'tacita[service] @ {WHEEL}'"),
        (
            {"url": "file:///home/a%20b/tacita", "dir_info": {"editable": True}},
            "pip install -e '/home/a b/tacita[service]'",
        ),
        ({"url": "file:///home/t", "dir_info": {}}, "pip install 'tacita[service] @ file:///home/t'"),
    ],
)
def test_the_hint_names_where_the_package_came_from(
    record: object, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed(record))
    assert how_to_install("service") == command


def test_without_a_record_the_hint_is_for_the_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    assert how_to_install("ray") == "pip install '.[ray]' in the clone"
