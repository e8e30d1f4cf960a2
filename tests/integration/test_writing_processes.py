"""`tacita serve` of a decoder, at a port or as a service, and `tacita generate --connect` as processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interrupts import interrupts
from test_austen import ENDED, WRITTEN
from test_austen import PROMPT as OPENING
from test_cli import run
from test_decoder_folders import LLAMA, WORDS, written
from test_decoders_fixed import ERROR
from test_two_party_processes import SECONDS, Served, ask, own_cache, serving, trusting
from tiny_decoders import llama, logits

import tacita
from tacita.checkpoint import load
from tacita.checkpoint.texts import FILE
from tacita.cli.service.started import Started, started
from tacita.data import DEFAULT_DECODER
from tacita.errors import InputError
from tacita.texts.embed import tokenize

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
assert own_cache  # a fixture that every test here takes

PROMPT, COUNT = "a film of quiet beauty", 6


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("decoder")
    with serving_decoder(folder, "24", eos_token_id=11) as served:
        yield served


@contextmanager
def serving_decoder(folder: Path, tokens: str, **fields: int) -> Iterator[Served]:
    """A server of a tiny LLaMA."""
    (folder / "model").mkdir()
    stated = LLAMA | {"tie_word_embeddings": False, **fields}
    model = written(llama(), folder / "model", stated, {WORDS: "embed_tokens.weight"}, "model.")
    with serving(
        folder, "--new-certificate", str(folder / "pem"), "--tokens", tokens, given_model=model
    ) as served:
        yield served


def generate(server: Served, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a client of a port."""
    return client("--connect", server.target, *trusting(server), *arguments)


def client(*arguments: str, **network: object) -> subprocess.CompletedProcess[str]:
    """Runs a client in this process, which is quicker."""
    settings = {f"network__{name}": value for name, value in ({"timeout": 60} | network).items()}
    return subprocess.CompletedProcess(arguments, *run("generate", *arguments, **settings))


def writing(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    """A client in its own process that has said what to expect, and writes now."""
    command = [sys.executable, "-m", "tacita", "generate", *arguments]
    piped: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with interrupts():
        client = subprocess.Popen(command, env={**os.environ, **variables}, **piped)
    while "expected: " not in (line := client.stdout.readline()):
        assert line
    return client


def test_a_text_is_that_of_floats(server: Served, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = generate(server, PROMPT, "--max-tokens", str(COUNT), "--json", str(report))
    assert done.returncode == 0, done.stderr + server.output
    wanted = list(tacita.generate(PROMPT, model=server.model, max_tokens=COUNT))
    found = json.loads(report.read_text())
    assert found["tokens"] == [token.id for token in wanted] and found["rounds"] > 0
    assert "".join(token.text for token in wanted) in done.stdout
    assert "expected: " in done.stdout and "for a token behind it" in done.stdout
    assert server.says('"texts": 1, "ending": "answered"')


def test_tokens_of_the_likeliest_alone(server: Served, tmp_path: Path) -> None:
    report, few = tmp_path / "report.json", 5
    more = ("--top-k", str(few), "--temperature", "0.8", "--json", str(report))
    done = generate(server, PROMPT, "--max-tokens", str(COUNT), *more)
    assert done.returncode == 0 and "expected: " in done.stdout, done.stderr + server.output
    model = load(server.model)
    ids = tokenize(model, PROMPT)[0]
    for token in json.loads(report.read_text())["tokens"]:
        given = logits(model, ids)[-1]
        assert given[token] > np.sort(given)[-few] - 2 * ERROR
        ids.append(token)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of the package's decoder, by its name, calibrated as by default."""
    folder, texts = tmp_path_factory.mktemp("shipped"), DEFAULT_DECODER / FILE
    more = ("--new-certificate", str(folder / "pem"), "--tokens", "96", "--texts", str(texts))
    with serving(folder, *more, given_model=Path(DEFAULT_DECODER.name)) as served:
        yield served


def test_the_shipped_model_writes_what_it_writes_in_floats(shipped: Served) -> None:
    done = generate(shipped, OPENING, "--max-tokens", "24")
    assert done.returncode == 0, done.stderr + shipped.output
    assert WRITTEN in done.stdout  # as one line: nothing of the session stands between its tokens


def test_the_shipped_model_may_end_a_text_at_once(shipped: Served, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = generate(shipped, ENDED, "--max-tokens", "9", "--json", str(report))
    assert done.returncode == 0, done.stderr + shipped.output
    found = json.loads(report.read_text())
    assert found["tokens"] == list(load(DEFAULT_DECODER).config.ends) and found["text"] == ""


def test_prompts_at_the_limit_and_over_it(server: Served) -> None:
    """24 tokens in all; what is written last need not be read."""
    words = ["film"] * 22  # and the two that the tokenizer adds
    assert generate(server, " ".join(words), "--max-tokens", "1").returncode == 0
    done = generate(server, " ".join(words), "--max-tokens", "2")
    assert done.returncode == 2 and "a prompt of 24 tokens and 2 behind it" in done.stderr
    done = generate(server, "", "--max-tokens", "1")
    assert done.returncode == 2 and "error: " in done.stderr


def test_a_stop_text_at_once(server: Served) -> None:
    first = next(tacita.generate(PROMPT, model=server.model, max_tokens=1)).text
    done = generate(server, PROMPT, "--max-tokens", "9", "--stop", first.strip())
    assert done.returncode == 0 and first.strip() not in done.stdout.split("setup")[-1].split("session")[0]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--config", "SEED"), "the server draws the token"),
        (("--temperature", "9"), "temperature 9"),
        (("--model", "somewhere"), "--model with --connect"),
    ],
)
def test_what_a_server_does_not_do_is_refused(
    server: Served, more: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    (settings := tmp_path / "seed.toml").write_text("[run]\nseed = 3\n")
    more = tuple(str(settings) if each == "SEED" else each for each in more)
    done = generate(server, PROMPT, "--max-tokens", "2", *more)
    assert done.returncode == 2 and says in done.stderr


def test_a_classifier_is_not_asked_for_a_text(server: Served) -> None:
    done = ask("classify", server.target, PROMPT, *trusting(server))
    assert done.returncode == 2 and "tacita generate on the command line" in done.stderr


def test_a_server_that_is_lost_in_a_token_is_told(tmp_path: Path) -> None:
    with serving_decoder(tmp_path, "32") as lost:
        whom = ("--connect", lost.target, "--trust", str(lost.certificate))
        client = writing(*whom, "film", "--max-tokens", "16")
        lost.process.kill()
        _, problem = client.communicate(timeout=SECONDS)
    assert client.returncode == 2 and "error: " in problem and "Traceback" not in problem


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A service that offers the package's decoder to two parties, calibrated on fewer texts."""
    folder = tmp_path_factory.mktemp("service")
    texts = (DEFAULT_DECODER / FILE).read_text(encoding="utf-8").splitlines()
    (folder / "texts").write_text("\n".join([OPENING, *texts[:40]]), encoding="utf-8")
    options = ("--model", DEFAULT_DECODER.name, "--schemes", "bumblebee", "--tokens", "96")
    options = (*options, "--texts", str(folder / "texts"))
    with started(folder, *options, settings={"service": {"drain": 0}}) as serving:
        yield serving


@pytest.fixture(scope="module")
def token(service: Started) -> str:
    return service.token("clinic")


def test_a_service_writes_what_its_port_would(service: Started, token: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(token)
    whom, file = ("--connect", service.url, "--trust", str(service.certificate)), tmp_path / "token"
    report = tmp_path / "report.json"
    done = client(OPENING, "--max-tokens", "24", *whom, "--json", str(report), token_file=file)
    assert done.returncode == 0, done.stderr
    assert WRITTEN in done.stdout and "for a token behind it" in done.stdout
    found = json.loads(report.read_text())
    wanted = list(tacita.generate(OPENING, max_tokens=24))
    assert found["tokens"] == [each.id for each in wanted] and found["bytes_received"] > 1e6
    (settings := tmp_path / "seed.toml").write_text("[run]\nseed = 3\n")
    for more, says in [
        (("--config", str(settings)), "the server draws the token"),
        (("--scheme", "thor"), "not offered under scheme 'thor'"),
        (("--model", "other"), "its models: austen-tiny"),
        (("--max-tokens", "96"), "96 behind it"),
    ]:
        done = client(OPENING, "--max-tokens", "2", *whom, *more, token_file=file)
        assert done.returncode == 2 and says in done.stderr, (more, done.stderr)


def test_an_interrupt_ends_a_text_of_a_service(service: Started, token: str) -> None:
    whom = ("--connect", service.url, "--trust", str(service.certificate))
    client = writing(OPENING, "--max-tokens", "60", *whom, TACITA_TOKEN=token)
    client.send_signal(signal.SIGINT)
    _, problem = client.communicate(timeout=SECONDS)
    assert client.returncode == 130 and "Traceback" not in problem, problem


def test_texts_of_a_service_in_python(service: Started, token: str, tmp_path: Path) -> None:
    """One that its reader leaves, two at once, and one that is cut off; with and without `await`."""
    how: dict[str, Any] = {"token": token, "trust": service.certificate, "data": tmp_path}
    with tacita.connect(service.url, **how) as asked:
        assert WRITTEN.startswith(next(asked.generate(OPENING)).text)
        pairs = zip(*(asked.generate(OPENING, max_tokens=12, stop=" help") for _ in range(2)), strict=True)
        assert all(one == other for one, other in pairs)
        assert asked.last is not None and asked.last.received > 1e6
        with pytest.raises(InputError, match="no model of the server answers so"):
            asked.classify(OPENING)
        with pytest.raises(InputError, match="'thor'"):
            next(asked.generate(OPENING, scheme="thor"))
        broken = asked.generate(OPENING, max_tokens=6)
        begun = [next(broken)]
        served: Any = list(asked._inner._sessions.values())
        for session in served[0]._all:
            session.client.party.close()
        assert [*begun, *broken] == list(asked.generate(OPENING, max_tokens=6))
        unread = asked.generate(OPENING, max_tokens=6)
        next(unread)
    with pytest.raises(InputError, match="the service was closed"):
        next(unread)

    async def text() -> str:
        service_ = tacita.connect_async(service.url, **how)
        async with service_, aclosing(service_.generate(OPENING, max_tokens=3)) as tokens:
            return "".join([token.text async for token in tokens])

    assert WRITTEN.startswith(asyncio.run(text()))
