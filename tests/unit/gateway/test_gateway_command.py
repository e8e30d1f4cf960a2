"""`tacita gateway`: what it refuses before it listens."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_cli import run

import tacita.gateway
from tacita.cli.options import variables
from tacita.gateway.app import Gateway
from tacita.plans.wire import Model, Models
from tacita.progress import silent


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "[::]", "models.example"])
@pytest.mark.parametrize("secured", ["", "key", "certificate"])
def test_others_reach_it_by_a_key_and_tls_alone(
    host: str, secured: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("our-own-key")
    key = ["--api-key-file", str(tmp_path / "key")] if secured == "key" else []
    if secured == "certificate":
        for name, value in variables({"service": {"certificate": "c.pem", "key": "k.pem"}}).items():
            monkeypatch.setenv(name, value)
    status, _, err = run("gateway", "--connect", "127.0.0.1:7007", "--listen", f"{host}:8117", *key)
    assert status == 2 and "others of the network could read texts" in err and "listen on 127.0.0.1" in err


def test_its_options_are_checked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = ["gateway", "--connect", "127.0.0.1:7007"]
    status, _, err = run(*here, "--listen", "8117")
    assert status == 2 and "--listen 8117: not HOST:PORT" in err
    status, _, err = run(*here, "--api-key-file", str(tmp_path / "none"))
    assert status == 2 and "none: cannot be read" in err
    monkeypatch.setitem(sys.modules, "fastapi", None)
    monkeypatch.delitem(sys.modules, "tacita.gateway.app", raising=False)
    monkeypatch.delattr(tacita.gateway, "app", raising=False)
    status, _, err = run(*here, "--listen", "127.0.0.1:0")
    assert status == 2 and "gateway: fastapi is not installed" in err and "[gateway]" in err


def test_a_server_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACITA_NETWORK__INSECURE_PLAIN_TCP", "true")
    status, _, err = run("gateway", "--connect", "127.0.0.1:1", "--listen", "127.0.0.1:0")
    assert status == 2 and err.startswith("error: ") and "127.0.0.1:1" in err and len(err.splitlines()) == 1


def test_a_scheme_that_is_named_writes_where_it_is_offered() -> None:
    def model(name: str, task: str, *schemes: str) -> Model:
        numbers = {"plan": "0" * 64, "batch": 1, "tokens": 16, "seconds": 1.0}
        offers = [{"scheme": each, "connected": each == "bumblebee", **numbers} for each in schemes]
        row = {"name": name, "task": task, "problem": "single_label", "labels": (), "offers": offers}
        return Model.model_validate(row)

    writers = model("a", "next", "bumblebee", "thor"), model("b", "next", "bumblebee")
    rows = (*writers, model("c", "text", "thor"))
    models, asked = Models(release="0", signer="0" * 64, models=rows), list[tuple[str, str | None]]()

    async def listed() -> Models:
        return models

    async def opened(verbs: list[str], name: str, scheme: str | None, **_: Any) -> Any:
        asked.append((name, scheme))
        return SimpleNamespace(front=object())

    def schemes(named: str | None) -> list[str | None]:
        gateway, pairs = Gateway(listed, opened, named, silent), [("generate", "a"), ("generate", "b")]
        asked.clear()
        for verb, name in [*pairs, ("embed", "c")]:
            asyncio.run(gateway.session(verb, name))
        return [scheme for _, scheme in asked]

    assert schemes("thor") == ["thor", None, "thor"]
    assert schemes(None) == [None, None, None] and schemes("auto") == [None, None, "auto"]
