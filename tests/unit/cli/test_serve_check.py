"""`tacita serve --check`, several models, and that every setting of the service is a key."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from test_cli import run

from tacita.cli.options import read_settings
from tacita.cli.service import check, https
from tacita.data import DEFAULT_DECODER
from tacita.errors import InputError
from tacita.resources import GB
from tacita.server.core.offers import Offers, together
from tacita.server.core.settings import Settings as Limits
from tacita.server.store.ledger import Ledger
from tacita.two_party.protocol.party import new_identity


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with settings of a service that would start."""
    monkeypatch.chdir(tmp_path)
    words = '[service]\nhttps = "127.0.0.1:0"\ndata = "served"\nnew_certificate = "tls"\n'
    (tmp_path / "tacita.toml").write_text(f'{words}schemes = "thor"\n[plan]\npreset = "insecure_toy_n11"\n')
    yield tmp_path


def checked(*words: str) -> tuple[int, dict[str, str]]:
    """Returns status and lines by what they are about."""
    status, out, _ = run("serve", "--check", *words)
    lines = [line.split(None, 1) for line in out.splitlines()]
    return status, {rest.partition(":")[0]: f"{word} {rest}" for word, rest in lines}


def test_a_server_that_would_start(folder: Path) -> None:
    status, lines = checked()
    assert status == 0 and all(line.startswith("ok ") for line in lines.values()), lines
    names = ["settings", "address", "certificate", "descriptors", "data", "disk", "memory"]
    assert list(lines) == [*names, "model by default"]
    assert "sst2-tiny: thor is to be planned" in lines["model by default"]
    assert [path.name for path in folder.iterdir()] == ["tacita.toml"], "nothing was made"


def test_each_thing_that_keeps_it_from_starting_has_its_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger(folder / "served").close()
    with sqlite3.connect(folder / "served" / "ledger.sqlite") as ledger:
        ledger.execute("PRAGMA user_version=99")
    ledger.close()
    new_identity(folder / "tls", ["elsewhere.example"])
    monkeypatch.setattr(check, "available_memory", lambda: int(GB / 2))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        words = ["--https", at, "--name", "model.example", "--model", "nowhere", "--schemes", "thorn"]
        status, lines = checked(*words)
    assert status == 2
    failed = {name for name, line in lines.items() if line.startswith("FAILS ")}
    assert failed == {"settings", "address", "certificate", "data", "memory", "model nowhere"}, lines
    assert "would refuse it" in lines["certificate"] and "version 99" in lines["data"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--https", "0.0.0.0:0", "--insecure-plain-tcp"], "say how the connection is secured"),
        (["--certificate", "a.pem", "--key", "b.pem"], "say how the connection is secured"),
        (["--certificate", "a.pem"], "go together"),
    ],
)
def test_a_connection_that_is_not_secured(folder: Path, words: list[str], message: str) -> None:
    status, lines = checked(*words)
    assert status == 2 and message in lines["certificate"]


def test_a_certificate_that_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_identity(folder / "tls", ["127.0.0.1"])
    monkeypatch.setattr(check.time, "time", lambda: 4e9)
    status, lines = checked()
    assert status == 2 and "not valid since" in lines["certificate"]
    (folder / "tls" / "key.pem").write_bytes(b"no key")
    status, lines = checked()
    assert status == 2 and lines["certificate"].startswith("FAILS")


def test_a_ledger_that_takes_a_step_is_not_changed(folder: Path) -> None:
    Ledger(folder / "served").close()
    with sqlite3.connect(folder / "served" / "ledger.sqlite") as ledger:
        ledger.execute("PRAGMA user_version=1")
    ledger.close()
    status, lines = checked()
    assert status == 0 and "version 1, goes to 4" in lines["data"]
    assert checked()[1]["data"] == lines["data"] and not list(folder.rglob("*.version-1"))


def test_a_port_is_checked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    status, lines = checked("--insecure-plain-tcp")
    assert status == 0 and "no TLS" in lines["certificate"] and "data" not in lines
    status, lines = checked("--insecure-plain-tcp", "--model", "sst2-tiny", "--model", "austen-tiny")
    assert status == 2 and "a port or a search has one" in lines["settings"]
    status, lines = checked("--insecure-plain-tcp", "--scheme", "thor", "--name", "model.example")
    assert status == 2 and "a server of thor waits for no connection" in lines["settings"]
    assert "--name is for --new-certificate" in lines["certificate"]


def names(text: str, tmp_path: Path, line: dict[str, Any] | None = None) -> list[https.Served]:
    (tmp_path / "m.toml").write_text(text)
    return list(https.served(read_settings(tmp_path / "m.toml", line)))


def test_models_are_of_the_line_or_of_tables(tmp_path: Path) -> None:
    text = '[plan]\ntokens = 64\n[models.a]\nmodel = "x,y"\ntokens = 32\n[models.b]\nschemes = "moai"\n'
    (a, plan_a, schemes_a), (b, plan_b, schemes_b) = names(text, tmp_path)
    assert (a, str(plan_a.model), plan_a.tokens, schemes_a) == ("a", "x,y", 32, ("thor", "bumblebee"))
    assert (b, plan_b.model, plan_b.tokens, schemes_b) == ("b", None, 64, ("moai",))
    line = {"service": {"models": ["one", "t,wo"]}}
    assert [(name, str(plan.model)) for name, plan, _ in names(text, tmp_path, line)] == [
        ("", "one"),
        ("", "t,wo"),
    ]
    ((name, plan, _),) = names('[plan]\nmodel = "x"\n', tmp_path)
    assert (name, str(plan.model)) == ("", "x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[models.a]\ntoken = 1", "[models.a] token: no such setting"),
        ("[models.a]\ntokens = 'x'", "[models.a] tokens: 'x': Input should be a valid integer"),
        ("[models]\na = 1", "[models] a: '1': Input should be a valid dictionary"),
    ],
)
def test_a_table_of_a_model_that_cannot_be(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        names(text, tmp_path)
    assert message in str(caught.value)


def test_two_models_of_one_name_are_refused() -> None:
    from service_world import offers

    with pytest.raises(InputError, match="two models named sst2-tiny"):
        together([offers(), offers()])
    other = offers().models[0].model_copy(update={"name": DEFAULT_DECODER.name})
    both = together([offers(), Offers({}, (other,))])
    assert [each.name for each in both.models] == ["sst2-tiny", DEFAULT_DECODER.name]


def test_every_number_of_the_service_is_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the clock, and for what follows from the certificate and from where it listens."""
    given = {
        "data": "d", "anybody": True, "clients": 9, "drain": 1.0, "keep_keys": 2.0, "most_keys": 3.0,
        "proxy": ("10.0.0.1",), "waiting": 5, "keep_answers": 6.0, "streams": 7, "calls": 8,
        "traces": "http://x/v1/traces", "patience": 9.0, "least_rate": 10.0, "prepared": 2,
        "keep_texts": 11.0, "timeout": 12.0,
    }  # fmt: skip
    run_ = {"threads": 3, "memory": 1.5, "allow_insecure": True, "device": "opencl"}
    monkeypatch.setattr(https, "device_of", lambda settings: f"{settings.run.device}:0")
    more = {"run": run_, "two_party": {"bandwidth": 5.0}}
    limits = https._limits(read_settings(line={"service": given, **more}))
    usual = Limits(Path("."), clock=limits.clock)
    same = {each.name for each in fields(Limits) if getattr(limits, each.name) == getattr(usual, each.name)}
    assert same == {"clock", "origins", "hosts", "lasting", "documents"}  # documents: of [plan]
    assert (limits.kept, limits.least_rate, limits.most_keys) == (6 * 3600.0, 10e3, 3 * 10**9)
    assert (limits.silence, limits.bits_per_second) == (12.0, 5e6)
    monkeypatch.undo()
    plain = https._limits(read_settings(line={"service": {"data": "."}}))
    assert replace(plain, clock=limits.clock) == usual, "defaults are those of the settings"
