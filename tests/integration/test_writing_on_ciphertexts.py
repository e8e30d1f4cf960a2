"""Texts that a service's decoder writes on ciphertexts, a request a token: a real service on loopback, its
decoder and its ring toys."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from test_cli import run
from test_decoder_folders import LLAMA, WORDS, written
from test_generation_encrypted import TEXTS
from tiny_decoders import llama

import tacita
from tacita.cli.ask.schemas import SCHEMAS
from tacita.cli.options import Values
from tacita.cli.service.started import Started, started
from tacita.errors import InputError
from tacita.plans.public_folder import open_public
from tacita.progress import Progress

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

PROMPTS, TURNS = ["a film of quiet beauty", "time", "the plot is time"], 3
PROMPT, COUNT, TOKENS, TOY = "a film of quiet beauty", 2, 16, "insecure_toy_n9"
PLANNED: Values = {
    "plan": {"preset": TOY, "tokens": TOKENS},
    "run": {"allow_insecure": True},
    "service": {"drain": 0},
}


@dataclass
class Serving:
    """A service of a decoder under thor and arion. wanted: ids that its folder writes in floats behind the
    prompt."""

    server: Started
    model: Path
    token: str
    wanted: list[int]

    def how(self, data: Path) -> dict[str, Any]:
        """Returns keywords of a client with a folder of its own."""
        named = {"token": self.token, "trust": self.server.certificate, "data": data}
        return {**named, "allow_insecure": True}

    def floats(self, prompt: str) -> list[int]:
        """Returns the ids that the model writes in floats."""
        here = tacita.generate(prompt, model=self.model, max_tokens=TURNS, backend="plain")
        return [token.id for token in here]

    @property
    def requests(self) -> list[Path]:
        """Folders of requests that the server has now."""
        return [path for path in (self.server.data / "requests").glob("*") if path.is_dir()]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Starts a service whose decoder ends a text at the second token that it would write."""
    folder = tmp_path_factory.mktemp("decoder")
    (folder / "texts").write_text("\n".join(TEXTS) + "\n")
    free = [each.id for each in tacita.generate(PROMPT, model=llama(), max_tokens=COUNT, backend="plain")]
    stated = LLAMA | {"tie_word_embeddings": False, "eos_token_id": free[-1]}
    model = written(llama(), folder, stated, {WORDS: "embed_tokens.weight"}, "model.")
    options = ("--model", str(model), "--schemes", "thor,arion", "--texts", str(folder / "texts"))
    with started(tmp_path_factory.mktemp("service"), *options, settings=PLANNED) as server:
        yield Serving(server, model, server.token("clinic"), free)


def test_a_text_is_that_of_ciphertexts_here(serving: Serving, tmp_path: Path) -> None:
    """The end token of the folder ends it, each token is said to cost a request, and no request stays."""
    reports = list[Progress]()
    on: dict[str, Any] = {"scheme": "thor", "preset": TOY, "tokens": TOKENS, "texts": TEXTS}
    here = tacita.generate(
        PROMPT, model=serving.model, max_tokens=9, backend="ckks", allow_insecure=True, **on
    )
    wanted = [(token.id, token.text) for token in here]
    how = serving.how(tmp_path)
    with tacita.connect(serving.server.url, progress=reports.append, **how) as service:
        found = [(token.id, token.text) for token in service.generate(PROMPT, max_tokens=9)]
        assert found == wanted and [id for id, _ in found] == serving.wanted
        offer = service.models().models[0].offers[0]
        assert service.last and service.last.sent > COUNT * 0.9 * offer.request_bytes
        said = [now for now in reports if now.stage.startswith("9 tokens at most, each ")]
        assert len(said) == 1 and said[0].left == pytest.approx(9 * offer.seconds)
        assert serving.requests == []
        with pytest.raises(InputError, match=r"a prompt of 7 tokens, 0 before and 11 behind it"):
            next(service.generate(PROMPT, max_tokens=11))
    (public,) = (tmp_path / "public").iterdir()
    assert open_public(public).plan.ends == (serving.wanted[-1],)


def test_the_texts_of_a_file_share_requests(serving: Serving, tmp_path: Path) -> None:
    """One for each turn, whichever texts have ended; a line that is too long is in none of them."""
    how: dict[str, Any] = {"max_tokens": TURNS, "scheme": "arion"}
    reports, texts = list[Progress](), [list[int]() for _ in PROMPTS]
    with tacita.connect(serving.server.url, progress=reports.append, **serving.how(tmp_path)) as service:
        for number, token in service.generate_batch(PROMPTS, **how):
            assert token.sound
            texts[number].append(token.id)
        assert texts == [serving.floats(prompt) for prompt in PROMPTS]
        assert len({len(text) for text in texts}) == 2  # some have ended before others
        offer, cost = service.models().models[0].offers[1], service.last
        assert offer.batch >= len(PROMPTS) and cost is not None
        assert round(cost.received / offer.response_bytes) == TURNS
        said = [now for now in reports if now.stage.startswith(f"3 texts of {TURNS} tokens at most: ")]
        assert [now.total for now in said] == [TURNS] and said[0].left == TURNS * offer.seconds
        with pytest.raises(InputError, match="no prompts"):
            next(service.generate_batch([], **how))
    assert serving.requests == []


def test_a_reader_that_leaves_or_is_cancelled_leaves_nothing(serving: Serving, tmp_path: Path) -> None:
    async def left() -> tuple[int, int]:
        loop, running = asyncio.get_running_loop(), asyncio.Event()

        def report(now: Progress) -> None:
            if number:  # of the second token
                loop.call_soon_threadsafe(running.set)

        number = 0
        service = tacita.connect_async(serving.server.url, progress=report, **serving.how(tmp_path))
        async with service, aclosing(service.generate(PROMPT, max_tokens=9)) as tokens:
            first = (await anext(tokens)).id
            number = 1
            following = asyncio.ensure_future(anext(tokens))
            await running.wait()
            there = len(serving.requests)
            following.cancel()
            with pytest.raises(asyncio.CancelledError):
                await following
        return first, there

    assert asyncio.run(left()) == (serving.wanted[0], 1)
    assert serving.requests == []


def test_the_command_says_the_cost_first_and_writes(
    serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, url = tmp_path / "report.json", serving.server.url
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

    def generate(*options: str, texts: tuple[str, ...] = (PROMPT,)) -> tuple[int, str, str]:
        whom = ("--connect", url, "--trust", str(serving.server.certificate))
        return run("generate", *texts, *whom, *options, run__allow_insecure=True, token=serving.token)

    status, out, err = generate("--max-tokens", "2", "--scheme", "thor", "--json", str(report))
    assert status == 0, err
    assert "a token, and" in out and "; 2 tokens at most" in out
    found = json.loads(report.read_text())
    assert found["tokens"] == serving.wanted[:2] and found["bytes_sent"] > 0
    (prompts := tmp_path / "prompts").write_text("\n".join([PROMPTS[0], "film " * 40, PROMPTS[1]]))
    how, file = ("--scheme", "thor", "--max-tokens", str(TURNS)), ("--file", str(prompts))
    status, out, err = generate(*how, "--json", str(report), texts=file)  # a request has a place for one text
    assert status == 1 and ":2: the text has" in err.replace("\n", " "), err
    assert "a request, and" in out and f"; {2 * TURNS} requests at most, " in out
    found = json.loads(report.read_text())
    SCHEMAS["generate"].model_validate(found)
    assert [row["line"] for row in found["results"]] == [1, 3] and len(found["turn_seconds"]) == TURNS
    assert [row["tokens"] for row in found["results"]] == [serving.floats(each) for each in PROMPTS[:2]]
    assert found["bytes_received"] > 0 and f"3: {PROMPTS[1]} |" in out
    for options, says in [
        (("--scheme", "bumblebee"), "not offered under scheme 'bumblebee'"),
        (("--scheme", "thor", "--cache"), "the server keeps no rows of texts"),
        (("--reveal", "token", "--scheme", "thor"), "--reveal with --connect"),
    ]:
        status, _, err = generate(*options)
        assert status == 2 and says in err, (options, err)
