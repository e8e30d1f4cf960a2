"""Attention of long texts by tiles: the same integers as at once, what it costs, what a client refuses, and
640 tokens on shares."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import newer_encoder
import numpy as np
import pytest
from eager import run_plan
from random_checkpoint import make_random_checkpoint
from test_decoders_fixed import IDS, MODELS, plan_of, stepped
from tiny_decoders import hidden_of

from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint, embed, pad_hidden
from tacita.errors import FileError
from tacita.planning.request import PlanRequest
from tacita.two_party.model import simulation
from tacita.two_party.plan.check import parse_plan
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.program import cost, sizes, tiles
from tacita.two_party.program.program import Program, decode, encode
from tacita.two_party.program.steps import Step, joins
from tacita.two_party.program.tiles import Tile, tiles_of
from tacita.two_party.protocol.party import Party, pair

TEXT = " ".join(["the plot is never dull , a very good film and it is fine"] * 45)


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    with newer_encoder.known():
        yield


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of a few rows, for texts of a few tokens."""
    monkeypatch.setattr(tiles, "WHOLE", 4)
    monkeypatch.setattr(tiles, "LEAST_ROWS", 2)
    monkeypatch.setattr(tiles, "ROWS_OF_TILES", 4)
    monkeypatch.setattr(tiles, "MOST_SCORES", 96)


def tiled(plan: TwoPartyPlan) -> TwoPartyPlan:
    """The plan, recorded anew."""
    result = replace(plan)
    assert result.program.steps != plan.program.steps
    assert any(step.op == "tiles" for step in result.program.steps)
    return result


def integers(plan: TwoPartyPlan, model: Checkpoint, hidden: Any, mask: Any) -> Any:
    run = simulation(plan, Weights(model.tensors), mask)
    result = run.floats(hidden)
    assert not run.overflows
    return result


def test_tiles_hold_every_query_once_and_the_keys_in_its_reach() -> None:
    reaches: list[tuple[int | None, int | None]] = [(None, None), (2, 3), (None, 0), (4, 0)]
    for reach, queries, keys in zip(reaches, (10, 10, 6, 6), (10, 10, 10, 9), strict=True):
        p = {"heads": 2, "rows": 4, "back": reach[0], "on": reach[1]}
        parts = list(tiles_of(p, 3, queries, keys))
        every = [(h, row) for tile in parts for h in range(*tile.heads) for row in range(*tile.queries)]
        assert sorted(every) == [(h, row) for h in range(3) for row in range(queries)]
        place = keys - queries if reach[1] == 0 else 0
        for tile in parts:
            assert tile.first == place + tile.queries[0] - tile.keys[0]
            assert tile.shape[0] <= 2 and tile.shape[1] <= 4
            for query in range(place + tile.queries[0], place + tile.queries[1]):
                low = 0 if reach[0] is None else query - reach[0]
                high = keys if reach[1] is None else query + reach[1] + 1
                assert set(range(max(low, 0), min(high, keys))) <= set(range(*tile.keys))
    one = {"heads": 2, "rows": 8, "back": 1, "on": 0}
    assert list(tiles_of(one, 3, 1, 9)) == [Tile((0, 3), (0, 1), (0, 9), 8)]


def test_a_window_and_distances_by_tiles_are_what_they_are_at_once(small: None) -> None:
    model = newer_encoder.checkpoint(pooling="none")
    texts = ["a fine film", "the plot is dull", "never boring , very good", "bad"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "WHOLE", 512)
        plan = make_two_party_plan(model, PlanRequest(tokens=12, texts=texts))
        assert not any(step.op == "tiles" for step in plan.program.steps)
    parts = tiled(plan)
    entered = sizes.Value((12, 16), parts.program.entered.ring)
    walked = sizes.passes(parts.program.steps, entered, 0, parts.program.result)
    read = [one.outputs[1].shape for one in walked if one.step.op == "tiles"]
    assert min(shape[1] for shape in read) < 12
    for text in texts:
        hidden, mask = embed(model, text, 12)
        real = mask > 0.0
        whole, found = (integers(each, model, hidden, mask)[real] for each in (plan, parts))
        assert np.array_equal(whole, found)
    assert parse_plan(parts.to_bytes()) == plan
    assert parts.program.cost().rounds > plan.program.cost().rounds == 0


@pytest.mark.parametrize("name", ["two", "gpt2"])
def test_a_prompt_by_tiles_is_what_it_is_at_once(name: str, small: None) -> None:
    """Padded, and the tokens behind it, whose steps are of one tile."""
    model = MODELS[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "WHOLE", 512)
        plan = plan_of(model)
        assert plan.program
    parts = tiled(plan)
    for prompt, padding in ((12, 1), (21, 11)):
        whole, found = (stepped(model, each, prompt, padding) for each in (plan, parts))
        assert np.array_equal(whole[0], found[0]) and not found[1]
    given, mask = pad_hidden(hidden_of(model, IDS), 32, left=True)
    assert np.array_equal(*(integers(each, model, given, mask) for each in (plan, parts)))
    assert decode(encode(parts.program)) == parts.program


def test_tiles_ahead_of_which_nothing_is_seen_cost_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a causal attention's scores, and but a window's of others; a text of 512 tokens has no tile."""
    plan = plan_of(MODELS["two"])
    scores = dict[str, int]()
    for name, reach in {"all": (None, None), "causal": (None, 0), "window": (64, 64)}.items():
        heads, rows = tiles.tiles_for((12, 1), (2048, 2048), reach) or (0, 0)
        p = {"heads": heads, "rows": rows, "back": reach[0], "on": reach[1]}
        each = [int(np.prod(tile.shape)) for tile in tiles_of(p, 12, 2048, 2048)]
        scores[name] = sum(each)
        assert max(each) <= tiles.MOST_SCORES
    assert scores["all"] == 12 * 2048**2
    assert scores["causal"] < 0.6 * scores["all"] and scores["window"] < 0.13 * scores["all"]
    assert not any(step.op in ("tiles", "join") for step in plan.program.steps)


def steps_of(program: Program, change: str) -> tuple[Step, ...]:
    """The program's steps with one that does not fit: see the test."""
    steps = list(program.steps)
    begin, end = (next(i for i, step in enumerate(steps) if step.op == op) for op in ("tiles", "join"))
    tile, inner = steps[begin], next(i for i in range(begin, end) if steps[i].op == "softmax")
    match change:
        case "no rows":
            steps[begin] = replace(tile, parameters={**tile.parameters, "rows": 0})
        case "heads that share no keys":
            steps[begin] = replace(tile, parameters={**tile.parameters, "heads": 5})
        case "a window behind":
            steps[begin] = replace(tile, parameters={**tile.parameters, "back": -3})
        case "keys as queries":
            steps[begin] = replace(tile, inputs=(tile.inputs[1], tile.inputs[0], tile.inputs[0]))
        case "no join":
            steps[end] = replace(steps[end], op="merge", parameters={})
        case "a join alone":
            steps[begin] = Step("join", tile.inputs[:1], (tile.outputs[0],), {})
        case "what is outside, inside":
            steps[inner] = replace(steps[inner], inputs=(0,))
        case "what is inside, outside":
            steps[end + 1] = replace(steps[end + 1], inputs=tile.outputs[:1])
        case "a map inside":
            more = {"outputs": 3, "ring": 64, "opened": False}
            steps[inner - 1] = Step("linear", steps[inner - 1].inputs, steps[inner - 1].outputs, more)
    return tuple(steps)


@pytest.mark.parametrize(
    "change",
    [
        "no rows",
        "heads that share no keys",
        "a window behind",
        "keys as queries",
        "no join",
        "a join alone",
        "what is outside, inside",
        "what is inside, outside",
        "a map inside",
    ],
)
def test_tiles_that_do_not_fit_are_refused(small: None, change: str) -> None:
    program = plan_of(MODELS["two"]).program
    program.check()
    with pytest.raises(FileError, match="program: "):
        replace(program, steps=steps_of(program, change)).check()


def test_a_run_has_not_too_many_tiles(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    program = plan_of(MODELS["two"]).program
    monkeypatch.setattr(sizes, "MOST_TILES", 31)
    with pytest.raises(FileError, match="over 31 of them"):
        program.check()


def test_steps_of_tiles_do_not_run_too_often(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server could have a client walk very many tiles, each of very many steps."""
    program = plan_of(MODELS["two"]).program
    entered = sizes.Value((program.tokens, program.hidden), program.entered.ring)
    walked = sizes.passes(program.steps, entered, 0, program.result)
    inner = [program.steps[begin:end] for begin, end in joins(program.steps, program.result).items()]
    most = sum(one.count for one in walked if any(one.step in steps for steps in inner))
    monkeypatch.setattr(sizes, "MOST_STEPS_OF_TILES", most)
    program.check()
    monkeypatch.setattr(sizes, "MOST_STEPS_OF_TILES", most - 1)
    with pytest.raises(FileError, match=f"over {most - 1} steps of them"):
        program.check()


def test_a_step_that_is_counted_is_not_kept(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long text may have millions of steps."""
    program, walked = plan_of(MODELS["two"]).program, list[weakref.ref[sizes.Pass]]()
    whole = program.cost()

    def followed(*given: Any) -> Iterator[sizes.Pass]:
        for one in sizes.passes(*given):
            assert sum(each() is not None for each in walked) <= 1
            walked.append(weakref.ref(one))
            yield one

    monkeypatch.setattr(cost, "passes", followed)
    assert program.cost() == whole and len(walked) > 100


@pytest.mark.native
def test_a_text_of_five_tiles_on_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every token of 640 answers; the bytes are those that are counted."""
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    monkeypatch.setattr(tiles, "MOST_SCORES", 128 * 640)
    model = make_random_checkpoint(
        layers=1, heads=1, hidden=8, positions=640, labels=("start", "end"), task="span"
    )
    plan = make_two_party_plan(model, PlanRequest(tokens=640, texts=[TEXT, "a fine film"]))
    hidden, mask = embed(model, TEXT, 640)
    (tile,) = (step.parameters for step in plan.program.steps if step.op == "tiles")
    assert len([*tiles_of(tile, 1, 640, 640)]) == 5
    wanted = integers(plan, model, hidden, mask)

    def run(party: Party) -> Any:
        party.set_up()
        return run_plan(plan, party, hidden, mask, None if party.native.is_client else model)

    with pair(timeout=300.0) as parties, ThreadPoolExecutor(2) as pool:
        found, _ = pool.map(run, parties)
        sent = sum(party.cost["bytes_sent"] for party in parties)
    assert np.abs(found - wanted)[mask > 0.0].max() < 0.02
    assert 0.7 < 8 * sent / plan.program.cost().sent() < 1.5
