"""`--connect https://...` and `tacita keys`: options, reports, exit statuses, secrets that are not shown."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_api import fake_service
from fake_service import SECONDS, TEXTS, TOKEN, Fake, expected
from interrupts import interrupts
from test_cli import run

from tacita.cli.ask.remote import token_of
from tacita.client.store import Store, data_folder
from tacita.errors import InputError
from tacita.extras import needing

CLOSE = 0.02


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    """And a user with nothing kept."""
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("TACITA_TOKEN", raising=False)
    with fake_service(tmp_path / "service") as serving:
        yield serving


@pytest.fixture
def reach(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    token = tmp_path / "token"
    token.write_text(f"{fake.token}\n")
    monkeypatch.setenv("TACITA_NETWORK__TOKEN_FILE", str(token))
    monkeypatch.setenv("TACITA_RUN__ALLOW_INSECURE", "true")
    return ["--connect", fake.url, "--trust", str(fake.certificate)]


@pytest.mark.native
def test_texts_of_a_file_are_answered_and_reported(fake: Fake, reach: list[str], tmp_path: Path) -> None:
    texts, report = tmp_path / "texts.txt", tmp_path / "report.json"
    texts.write_text(f"{TEXTS[0]}\n{'film ' * 40}\n{TEXTS[1]}\n")
    options = [*reach, "--json", str(report)]
    status, out, err = run("classify", "--file", str(texts), *options)
    assert status == 1 and ":2: the text has" in err.replace("\n", " "), (out, err)
    found = json.loads(report.read_text())
    assert found["scheme"] == "thor" and found["encrypted"] and found["requests"] == 2
    assert [row["line"] for row in found["results"]] == [1, 3] and found["rejected"] == [2]
    logits = [row["logits"] for row in found["results"]]
    assert np.allclose(logits, [expected(TEXTS[0]), expected(TEXTS[1])], atol=CLOSE)
    assert found["bytes_sent"] > 9e6 and list(found["steps"])[:3] == ["public", "keygen", "upload"]
    assert "of keys, made and sent once" in out and found["results"][0]["label"] in out
    assert TOKEN not in out + err + report.read_text()


@pytest.mark.native
def test_a_fingerprint_and_a_token_of_the_environment_do(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACITA_TOKEN", fake.token)
    monkeypatch.setenv("TACITA_NETWORK__FINGERPRINT", fake.fingerprint)
    monkeypatch.setenv("TACITA_RUN__ALLOW_INSECURE", "true")
    options = ["--connect", fake.url]
    status, out, err = run("classify", TEXTS[0], "--scheme", "thor", "--model", "toy", *options)
    assert status == 0, err
    assert "negative" in out or "positive" in out
    status, _, err = run("embed", TEXTS[0], "--model", "toy", *options)
    assert status == 2 and "answers with a label" in err
    status, _, err = run("classify", TEXTS[0], "--model", "other", *options)
    assert status == 2 and "its models: toy" in err


@pytest.mark.native
def test_keys_are_listed_removed_and_forgotten(fake: Fake, reach: list[str], tmp_path: Path) -> None:
    status, _, err = run("classify", TEXTS[0], *reach)
    assert status == 0, err
    report = tmp_path / "keys.json"
    status, out, _ = run("keys", "list", "--json", str(report))
    (server,) = json.loads(report.read_text())["servers"]
    (key,) = server["keys"]
    assert status == 0 and server["url"] == fake.url and key["model"] == "toy" and key["scheme"] == "thor"
    assert {key["key"]} == fake.complete and key["plan"][:12] in out.replace("\n", "")
    assert key["bytes"] < 10_000, "the public half is at the server alone"
    status, _, err = run("keys", "remove", "ffff")
    assert status == 2 and "no keys of a plan" in err
    status, out, err = run("keys", "remove", key["plan"][:6], *reach)
    assert (status, err) == (0, "") and "at the service" in out
    assert not fake.complete and not list((tmp_path / "data").rglob("secret.key"))
    status, out, _ = run("keys", "forget", fake.url)
    assert status == 0 and "forgotten" in out
    status, _, err = run("keys", "forget", fake.url)
    assert status == 2 and "no service that was met" in err


@pytest.mark.native
def test_keys_are_removed_here_when_the_service_is_gone(fake: Fake, reach: list[str], tmp_path: Path) -> None:
    assert run("classify", TEXTS[0], *reach)[0] == 0
    fake.token = "another"
    (folder,) = Store(data_folder()).servers[0].plans
    status, out, err = run("keys", "remove", folder.path.name, *reach)
    assert status == 1 and "removed: keys" in out and "keeps its half" in err
    assert not folder.path.exists() and fake.complete


@pytest.mark.native
def test_ctrl_c_cancels_the_request_at_the_service(fake: Fake, reach: list[str]) -> None:
    fake.go.clear()
    command = [sys.executable, "-m", "tacita", "classify", TEXTS[0], *reach]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with interrupts(), subprocess.Popen(command, **quiet) as process:
        assert fake.watched.wait(SECONDS)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130 and "interrupted" in err, err
    (job,) = fake.jobs.values()
    assert job.told[-1].state == "cancelled"


@pytest.mark.native
def test_without_a_token_the_service_is_not_asked(fake: Fake) -> None:
    how = {"network__fingerprint": fake.fingerprint}
    status, _, err = run("classify", TEXTS[0], "--connect", fake.url, **how)
    assert status == 2 and "no such token" in err and "TACITA_TOKEN" in err


@pytest.mark.parametrize(("name", "value"), [("name", "x"), ("insecure_plain_tcp", True), ("profile", 1)])
def test_settings_of_a_port_are_refused_for_a_service(name: str, value: object) -> None:
    how = {f"network__{name}": value}
    status, _, err = run("classify", "fine", "--connect", "https://127.0.0.1:1", **how)
    assert status == 2 and f"[network] {name} is for --connect HOST:PORT" in err


@pytest.mark.native
def test_a_text_takes_a_model_that_writes_and_a_scheme_of_a_service(fake: Fake, reach: list[str]) -> None:
    """A port has the one scheme of two parties."""
    for whom, more, says in [
        (reach, (), "no model of the server answers so"),
        (reach, ("--scheme", "thor", "--cache"), "no model of the server answers so"),
        (["--connect", "127.0.0.1:1"], ("--cache",), "--cache with --connect"),
        (reach, ("--scheme", "auto"), "no model of the server answers so"),
        (["--connect", "127.0.0.1:1"], ("--scheme", "leaf"), "--scheme with --connect"),
        ([], ("--scheme", "auto"), "scheme 'auto'"),
    ]:
        status, _, err = run("generate", "once", *whom, *more)
        assert status == 2 and says in err.replace("\n", " "), err


def test_a_token_is_not_sent_without_tls() -> None:
    status, _, err = run("classify", "fine", "--connect", "http://models.example.org")
    assert status == 2 and "plain HTTP" in err


@pytest.mark.parametrize("content", [b"", b"two words", b"\xff\xfe", b"x" * 5000])
def test_a_file_without_a_token_is_refused_without_its_content(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(InputError, match="holds no token") as caught:
        token_of(path)
    assert "words" not in str(caught.value)
    with pytest.raises(InputError, match="cannot be read"):
        token_of(tmp_path / "none")


def test_a_missing_package_is_told_with_the_extra_that_brings_it() -> None:
    match = "serve: no_such_package is not installed"
    with pytest.raises(InputError, match=match) as caught, needing("service", "serve"):
        import no_such_package  # noqa: F401
    assert "[service]" in caught.value.hint
    with pytest.raises(ModuleNotFoundError), needing("service", "serve"):
        import tacita.no_such_module  # noqa: F401
