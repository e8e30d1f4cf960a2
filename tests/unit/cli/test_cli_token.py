"""`tacita token`, and what `tacita serve` refuses of --https."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from test_cli import run

from tacita.server.core.settings import steady
from tacita.server.store import keys, tokens, usage
from tacita.server.store.bodies import Layout
from tacita.server.store.ledger import Ledger
from tacita.server.store.tables import KeyRow, Quota


def test_a_token_is_made_listed_and_taken_back(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    most = ("--texts", "5", "--megabytes", "3", "--tokens", "9")
    status, out, _ = run("token", "add", "clinic", "--data", data, *most)
    token = out.strip()
    assert status == 0 and re.fullmatch(r"tacita_[\w-]{43}", token)
    who = tokens.client_of(Ledger(Path(data)), token)
    assert who is not None and (who.quota.texts, who.quota.bytes, who.quota.tokens) == (5, 3_000_000, 9)
    status, out, _ = run("token", "list", "--data", data)
    assert status == 0 and "clinic" in out and token not in out
    assert run("token", "revoke", "clinic", "--data", data)[0] == 0
    (row,) = json.loads(run("token", "list", "--data", data, "--json", "-")[1])
    assert row["revoked"] and tokens.client_of(Ledger(Path(data)), token) is None


def test_a_token_can_be_written_where_no_terminal_shows_it(tmp_path: Path) -> None:
    path = tmp_path / "token"
    status, out, _ = run("token", "add", "clinic", "--data", str(tmp_path / "data"), "--output", str(path))
    assert status == 0 and path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().strip() not in out
    status, _, err = run("token", "add", "bank", "--data", str(tmp_path / "data"), "--output", str(path))
    assert status == 2 and "cannot be written" in err
    assert [who.name for who in tokens.everyone(Ledger(tmp_path / "data"))] == ["clinic"]
    other = tmp_path / "other"
    assert run("token", "add", "clinic", "--data", str(tmp_path / "data"), "--output", str(other))[0] == 2
    assert not other.exists()


def test_a_list_shows_every_quota_and_what_was_used_today(tmp_path: Path) -> None:
    data, limits = str(tmp_path), ("--texts", "5", "--megabytes", "3", "--seconds", "9", "--per-minute", "7")
    token = run("token", "add", "clinic", "--data", data, *limits, "--days", "2")[1].strip()
    ledger = Ledger(tmp_path)
    who = tokens.client_of(ledger, token)
    assert who is not None and who.expires is not None
    usage.charge(ledger, who.id, texts=1, bytes=2_000_000, seconds=4.0)
    shown = " ".join(run("token", "list", "--data", data)[1].split())
    assert all(each in shown for each in ("│ 1/5 │ 0/any │ 2/3 │ 4/9 │ 4 │ 7 │ to 20", "clinic")), shown
    (row,) = json.loads(run("token", "list", "--data", data, "--json", "-")[1])
    assert row["used"] == {"texts": 1, "tokens": 0, "bytes": 2_000_000, "seconds": 4.0}
    assert (row["bytes"], row["per_minute"]) == (3_000_000, 7)


def test_a_token_is_rotated(tmp_path: Path) -> None:
    data = str(tmp_path)
    first = run("token", "add", "clinic", "--data", data)[1].strip()
    second = run("token", "rotate", "clinic", "--data", data, "--overlap", "0")[1].strip()
    ledger = Ledger(tmp_path)
    assert tokens.client_of(ledger, first) is None and tokens.client_of(ledger, second) is not None


def test_an_operator_sees_and_removes_keys(tmp_path: Path) -> None:
    ledger, data = Ledger(tmp_path), str(tmp_path)
    who = tokens.client_of(ledger, tokens.add(ledger, "clinic", Quota()))
    assert who is not None
    for id in ("ab" * 16, "cd" * 16):
        keys.put(ledger, KeyRow(who.id, id, "m", "thor", "c" * 64, 2_000_000, 2_000_000, "", True, 1.8e9))
        folder = Layout(tmp_path).keys(who.id, id)
        folder.mkdir(parents=True)
    shown = run("keys", "list", "--data", data)[1]
    assert "clinic" in shown and "abababababab" in shown and "2.0 MB" in shown
    assert run("keys", "remove", "abab", "--data", data)[0] == 0
    assert [row.id for row in keys.every(ledger)] == ["cd" * 16] and folder.exists()
    assert not Layout(tmp_path).keys(who.id, "ab" * 16).exists()
    status, _, err = run("keys", "remove", "abab", "--data", data)
    assert status == 2 and "no keys begin with" in err
    status, _, err = run("keys", "list", "--data", str(tmp_path / "elsewhere"))
    assert status == 2 and "no server's data folder" in " ".join(err.split())


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["add", "a b"], "is no name"),
        (["revoke", "nobody"], "no client is called"),
        (["rotate", "nobody"], "no client is called"),
    ],
)
def test_names_that_cannot_be_are_refused(tmp_path: Path, words: list[str], what: str) -> None:
    Ledger(tmp_path).close()
    status, _, err = run("token", *words, "--data", str(tmp_path))
    assert status == 2 and what in err


SECURED = ("--new-certificate", "tls")


HTTPS = ("--https", "127.0.0.1:0", "--data", "d", *SECURED)


@pytest.mark.parametrize(
    ("words", "settings", "what"),
    [
        (["--data", "d", *SECURED], {}, "[service] data is for --https"),
        (SECURED, {"service__origin": "https://x"}, "[service] origin is for --https"),
        (SECURED, {"service__proxy": "127.0.0.2"}, "[service] proxy is for --https"),
        (HTTPS, {"service__proxy": "127.0.0.2, *"}, "'*' is not an IP address"),
        (["--https", "127.0.0.1:0", *SECURED], {}, "needs a folder"),
        (["--https", "nowhere", "--data", "d", *SECURED], {}, "not HOST:PORT"),
        ([*HTTPS, "--schemes", "thor,thorn"], {}, "no scheme 'thorn'"),
        (HTTPS, {"service__once": True}, "[service] once is not for --https"),
        ([*HTTPS, "--scheme", "thor"], {}, "[plan] scheme is not for"),
        (HTTPS, {"plan__pooling": "mean"}, "[plan] pooling is not for"),
        (
            ["--https", "0.0.0.0:0", "--data", "d", "--insecure-plain-tcp"],
            {},
            "plain HTTP would carry tokens",
        ),
        (["--https", "127.0.0.1:0", "--data", "d"], {}, "say how the connection is secured"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], settings: dict[str, Any], what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    status, _, err = run("serve", *words, **settings)
    assert status == 2 and what in " ".join(err.split())


def test_a_jump_of_the_systems_clock_moves_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = steady()
    before = clock()
    monkeypatch.setattr(time, "time", lambda: before + 1e6)
    assert 0 <= clock() - before < 60


@pytest.mark.parametrize(
    "words",
    [
        ("--days", "nan"), ("--days", "inf"), ("--days", "1e6"), ("--seconds", "nan"),
        ("--texts", str(10**20)), ("--megabytes", str(10**15)), ("--keys", str(10**20)),
    ],
)  # fmt: skip
def test_a_token_is_made_for_numbers_that_the_ledger_can_hold(words: tuple[str, str], tmp_path: Path) -> None:
    data = ["--data", str(tmp_path / "data")]
    status, out, _ = run("token", "add", "clinic", *data, *words)
    assert (status, out) == (2, "")
    status, _, err = run("token", "list", *data)
    assert status == 2 and "no server's data folder" in err and not (tmp_path / "data").exists()
