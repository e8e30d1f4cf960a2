"""Texts whose rows a service keeps as ciphertexts, one request a row: a real service on loopback, its decoder
and its ring toys."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
from test_cli import run
from test_decoder_folders import LLAMA, WORDS, written
from test_generation_encrypted import TEXTS
from test_openai_guide import command
from tiny_decoders import llama

import tacita
from tacita.cli.options import Values
from tacita.cli.service.started import Started, started
from tacita.errors import RefusedError
from tacita.progress import Progress
from tacita.texts.embed import tokenize

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

PROMPT, COUNT, TOKENS, TOY = "time is", 2, 16, "insecure_toy_n9"
PLANNED: Values = {
    "plan": {"preset": TOY, "tokens": TOKENS, "cache": True},
    "run": {"allow_insecure": True},
    "service": {"drain": 0},
}


@dataclass
class Serving:
    """A service of a decoder under thor, which keeps rows."""

    server: Started
    model: Path
    texts: Path

    def how(self, data: Path, **quota: int) -> dict[str, Any]:
        """Returns keywords of a client of its own, named by its folder."""
        token = self.server.token(data.name, **quota)
        named = {"token": token, "trust": self.server.certificate, "data": data}
        return {**named, "allow_insecure": True}

    @property
    def kept(self) -> list[Path]:
        """Folders of texts that the server has now."""
        return list((self.server.data / "texts").glob("*/*/*"))


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("decoder")
    (texts := folder / "texts").write_text("\n".join(TEXTS) + "\n")
    stated = LLAMA | {"tie_word_embeddings": False}
    model = written(
        llama(layers=1), folder, stated | {"num_hidden_layers": 1}, {WORDS: "embed_tokens.weight"}, "model."
    )
    options = ("--model", str(model), "--schemes", "thor", "--texts", str(texts))
    with started(tmp_path_factory.mktemp("service"), *options, settings=PLANNED) as server:
        yield Serving(server, model, texts)


def test_a_text_is_that_of_kept_rows_here(serving: Serving, tmp_path: Path) -> None:
    on: dict[str, Any] = {"scheme": "thor", "preset": TOY, "tokens": TOKENS, "texts": TEXTS, "cache": True}
    here = tacita.generate(
        PROMPT, model=serving.model, max_tokens=COUNT, backend="ckks", allow_insecure=True, **on
    )
    wanted = [(token.id, token.text) for token in here]
    reports = list[Progress]()
    with tacita.connect(serving.server.url, progress=reports.append, **serving.how(tmp_path)) as service:
        found = [(token.id, token.text) for token in service.generate(PROMPT, max_tokens=COUNT, cache=True)]
    assert found == wanted
    assert serving.kept == []


def test_a_text_that_the_server_lost_is_read_anew(serving: Serving, tmp_path: Path) -> None:
    """Once it was silent for too long, as of another client of the same token that ends it."""
    floats = tacita.generate(PROMPT, model=serving.model, max_tokens=COUNT, backend="plain")
    wanted, reports = [token.id for token in floats], list[Progress]()
    with tacita.connect(serving.server.url, progress=reports.append, **serving.how(tmp_path)) as service:
        tokens = service.generate(PROMPT, max_tokens=COUNT, cache=True)
        found = [next(tokens).id]
        (folder,) = serving.kept
        ended = service._inner._channel.ask(
            "DELETE", f"/texts/{folder.name}", params={"key": folder.parent.name}
        )
        assert service.run(ended).status == 204 and serving.kept == []
        found += [token.id for token in tokens]
    assert found == wanted and serving.kept == []
    rows = len(tokenize(tacita.load(serving.model), PROMPT)[0]) + COUNT - 1
    last = reports[-1]
    assert (last.index, last.total) == (2 * rows - 2, 2 * rows - 1)  # requests that are done, and all


def test_a_reader_that_leaves_or_is_cancelled_leaves_no_rows(serving: Serving, tmp_path: Path) -> None:
    """A text ends at the server, and there is room for another."""

    async def left() -> tuple[int, int]:
        loop, running = asyncio.get_running_loop(), asyncio.Event()

        def report(now: Progress) -> None:
            if first:  # while the second token is computed
                loop.call_soon_threadsafe(running.set)

        first = list[int]()
        how = serving.how(tmp_path, caches=1)
        async with tacita.connect_async(serving.server.url, progress=report, **how) as service:
            asked: dict[str, Any] = {"max_tokens": 9, "cache": True}
            async with aclosing(service.generate(PROMPT, **asked)) as tokens:
                first.append((await anext(tokens)).id)
                with pytest.raises(RefusedError, match="1 texts of this client are kept, at most 1"):
                    await anext(service.generate(PROMPT, **asked))
                following = asyncio.ensure_future(anext(tokens))
                await running.wait()
                there = len(serving.kept)
                following.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await following
            assert serving.kept == []
            async with aclosing(service.generate(PROMPT, **asked)) as tokens:
                first.append((await anext(tokens)).id)
            assert serving.kept == []
        return there, len(set(first))

    assert asyncio.run(left()) == (1, 1)
    assert list((serving.server.data / "requests").iterdir()) == []


def test_the_command_writes_by_rows_that_are_asked_for(
    serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    token, report = serving.server.token("command"), tmp_path / "report.json"

    def generate(*options: str) -> tuple[int, str, str]:
        whom = ("--connect", serving.server.url, "--trust", str(serving.server.certificate))
        return run("generate", PROMPT, *whom, *options, run__allow_insecure=True, token=token)

    status, out, err = generate("--cache", "--max-tokens", "1", "--json", str(report))
    assert status == 0, err
    floats = tacita.generate(PROMPT, model=serving.model, max_tokens=1, backend="plain")
    assert json.loads(report.read_text())["tokens"] == [each.id for each in floats]
    assert "; 4 rows at most, " in out and serving.kept == []
    status, _, err = generate("--max-tokens", "1")
    assert status == 2 and "keeps rows of a text, and learns how many" in err


def test_a_gateway_writes_by_rows_that_the_service_keeps(
    serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks as the service offers, and leaves no rows there."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "mine"))
    monkeypatch.setenv("TACITA_RUN__ALLOW_INSECURE", "true")
    (token := tmp_path / "token").write_text(serving.server.token("gateway"))
    whom = ("--connect", serving.server.url, "--trust", str(serving.server.certificate))
    with (
        command(*whom, "--token-file", str(token), log=tmp_path / "log") as (_, url),
        openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client,
    ):
        (name,) = (each.id for each in client.models.list())
        made = client.completions.create(model=name, prompt=PROMPT, max_tokens=1)
    (floats,) = tacita.generate(PROMPT, model=serving.model, max_tokens=1, backend="plain")
    assert made.choices[0].text == floats.text and made.choices[0].finish_reason == "length"
    assert serving.kept == []
