"""Many texts written side by side on ciphertexts: one loop, requests of many, columns or rows in turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_generation_encrypted import ASKED, RING, TEXTS, TOKENS, TOY, planned, toy_files
from tiny_decoders import WORDS as TABLE
from tiny_decoders import gpt2, llama, logits

import tacita
from tacita.checkpoint import Checkpoint
from tacita.cli import main
from tacita.errors import FileError, ShapeError
from tacita.generation import sources
from tacita.generation.generate import Request, generate_batch
from tacita.plans.plan import parse
from tacita.slots.linear import LinearPlan
from tacita.slots.plain import PlainBackend
from tacita.slots.stage import Interleaved
from tacita.texts.answer import withhold_failed
from tacita.texts.embed import tokenize
from tacita.texts.generation import NONE, Choice, Ends, Next, TokenRequests, Writing, side_by_side

Make = Callable[..., Checkpoint]
BATCH = [*ASKED[:2], "of film beauty the beauty plot quiet the"]
SHORT = ["time", "a film", "plot"]  # for a cache, which takes a request a row
ON: dict[str, Any] = {"scheme": "arion", "tokens": TOKENS, "preset": TOY, "texts": TEXTS, "max_tokens": 3}


def floats_of(model: Checkpoint, texts: Sequence[str], count: int = 3) -> list[list[int]]:
    """The ids behind each text."""
    return [[t.id for t in tacita.generate(one, model=model, max_tokens=count)] for one in texts]


SIDE_BY_SIDE = [{"scheme": "thor"}, {"scheme": "thor", "cache": True}]


@pytest.mark.parametrize("how", [{}, *SIDE_BY_SIDE])
@pytest.mark.parametrize("make", [llama, gpt2])
def test_texts_of_a_batch_go_on_as_each_alone(make: Make, how: dict[str, Any]) -> None:
    """Texts of different lengths share one request a turn; with a cache it has a row of each."""
    model, texts, asked = make(layers=1), dict[int, list[int]](), SHORT if "cache" in how else BATCH
    for number, token in generate_batch(model, asked, Request(backend="sim", **ON | how)):
        assert token.sound
        texts.setdefault(number, []).append(token.id)
    assert [texts[number] for number in range(len(asked))] == floats_of(model, asked)


@pytest.mark.parametrize(("how", "words"), [(SIDE_BY_SIDE[0], 300), (SIDE_BY_SIDE[1], 300), ({}, 60)])
def test_each_text_of_a_batch_gets_its_token_alone(how: dict[str, Any], words: int) -> None:
    """300 words take five ciphertexts of 64 in the 256 slots of a text; 60 in columns four of 16 cells."""
    model, texts = llama(vocab=words, layers=1), dict[int, list[int]]()
    on = {**ON, **how, "reveal": "token", "gap": 0.02, "max_tokens": 2}
    for number, token in generate_batch(model, SHORT, Request(backend="sim", **on)):
        assert token.sound
        texts.setdefault(number, []).append(token.id)
    assert [texts[number] for number in range(len(SHORT))] == floats_of(model, SHORT, 2)


def test_a_text_that_has_ended_is_asked_no_more() -> None:
    """Requests of two hold three texts, and then the two that go on."""
    model, asked = llama(), list[list[int]]()
    behind = floats_of(model, BATCH)
    rows = {tuple(model.tensors[TABLE][token]): token for token in range(model.config.vocab)}

    def ask(texts: Sequence[np.ndarray]) -> list[Next]:
        ids = [[rows[tuple(row)] for row in text] for text in texts]
        asked.append([len(each) for each in ids])
        return [Next(None, tuple(logits(model, each)[-1]), ()) for each in ids]

    requests = TokenRequests(model, batch=2)

    def prepare(unread: Mapping[int, Sequence[int]]) -> None:
        for numbers, states in requests.of(unread):
            requests.take(numbers, ask(states))

    sources = [requests.source(n, Choice(), step=0.0) for n in range(3)]
    ids, ends = [tokenize(model, one)[0] for one in BATCH], Ends(3, frozenset({behind[0][0]}))
    turns = [(source, Writing(one, str, ends)) for source, one in zip(sources, ids, strict=True)]
    texts: list[list[int]] = [[], [], []]
    for number, token in side_by_side(turns, prepare):
        texts[number].append(token.id)
    first, second, third = (len(one) for one in ids)
    until = [next((n + 1 for n, t in enumerate(one) if t in ends.ids), 3) for one in behind]
    assert texts == [one[:count] for one, count in zip(behind, until, strict=True)] and until[0] == 1
    assert asked[:3] == [[first, second], [third], [second + 1, third + 1]]


def test_a_text_ends_at_a_token_that_is_not_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others go on; the token is shown to those alone who ask for it."""
    model, short = llama(layers=1), len(tokenize(llama(), "time")[0])

    def doubtful(*_: Any, hidden_states: Sequence[np.ndarray], **__: Any) -> list[Next]:
        answers = [Next(None, tuple(np.eye(41)[7]), (), trusted=len(x) != short) for x in hidden_states]
        return [withhold_failed(answer) for answer in answers]

    monkeypatch.setattr(sources, "classify_batch_locally", doubtful)
    for anyway, second in ((False, [(NONE, False)]), (True, [(7, False)] * 2)):
        found: dict[int, list[tuple[int, bool]]] = {0: [], 1: []}
        request = Request(backend="sim", **ON | {"max_tokens": 2}, show_anyway=anyway)
        for number, token in generate_batch(model, [BATCH[0], "time"], request):
            found[number].append((token.id, token.sound))
        assert found == {0: [(7, True)] * 2, 1: second}


def test_operations_on_texts_side_by_side_are_those_of_each() -> None:
    """On a vector that holds four in turn: rotations, vectors in the clear, and a linear map of three."""
    rng, alone, together = np.random.default_rng(2), PlainBackend(16), PlainBackend(64)
    one: Any = Interleaved(together, 4)
    texts, v = rng.normal(size=(4, 16)), rng.normal(size=8)
    diagonals = {(0, 0, turn): rng.normal(size=16) for turn in (0, 3, 5, 8)}
    plan = LinearPlan.from_diagonals(diagonals, n_inputs=1, n_outputs=1)
    for operation in (
        lambda be, ct: be.rotate(ct, -3),
        lambda be, ct: be.rotate_many(ct, [1, 7])[1],
        lambda be, ct: be.mul_vector(ct, v),
        lambda be, ct: be.add_vector(be.square(ct), np.ones(1)),
        lambda be, ct: be.linear([ct], plan)[0],
    ):
        wanted = [alone.decrypt(operation(alone, alone.encrypt(text))) for text in texts]
        found = together.decrypt(operation(one, together.encrypt(texts.T.reshape(-1))))
        assert one.slots == 16 and np.allclose(found.reshape(16, 4).T, wanted)
    for refused in (lambda: one.matmul([], np.ones((1, 1, 2))), lambda: one.coefficient_product([])):
        with pytest.raises(ShapeError, match="side by side"):
            refused()


def test_as_many_texts_lie_side_by_side_as_have_room() -> None:
    """A request holds eight of 64 texts on this ring; a plan says how many, a power of two."""
    found = planned(llama(layers=1), inputs=64)
    assert (found.batch, found.layout.request.texts, planned(llama(layers=1)).batch) == (8, 8, 1)
    with pytest.raises(FileError, match="texts of a request"):
        parse(replace(found, batch=3).to_text(), "plan", found.salt)


@pytest.mark.native
@pytest.mark.parametrize("how", ["--scheme arion", "--scheme arion --reveal token", "--scheme thor --cache"])
def test_a_file_of_prompts_on_ciphertexts(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request a turn for all lines; one that is too long is left out, by its number."""
    monkeypatch.setenv("TACITA_RUN__ALLOW_INSECURE", "true")
    monkeypatch.setenv("TACITA_PLAN__GAP", "0.02")
    folder, texts, report = toy_files(tmp_path)
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("\n".join([SHORT[0], "a film " * 9, *SHORT[1:]]))
    words = ["generate", "--file", str(prompts), "--model", str(folder), "--max-tokens", "2"]
    on = [*how.split(), "--backend", "ckks", "--preset", RING, "--tokens", str(TOKENS)]
    assert main([*words, *on, "--texts", str(texts), "--json", str(report)]) == 1
    found = json.loads(report.read_text())
    assert [row["line"] for row in found["results"]] == [1, 3, 4] and len(found["turn_seconds"]) == 2
    assert [row["tokens"] for row in found["results"]] == floats_of(tacita.load(folder), SHORT, 2)
    assert all(row["trusted"] for row in found["results"]) and found["rejected"][0]["line"] == 2
    said = capsys.readouterr()
    rows = len(tokenize(llama(), SHORT[1])[0]) + 1 if "--cache" in how else 2
    assert f"{how.split()[1]}: {rows} x" in said.err and f"3: {SHORT[1]} |" in said.out
