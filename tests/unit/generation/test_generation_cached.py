"""Tokens from ciphertexts a row a request: the server keeps rows of earlier tokens, at the same levels after
any number of steps; the logits are the float model's after each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_generation_encrypted import ASKED, RING, TEXTS, TOKENS, TOY, folder_of, near, planned
from tiny_decoders import gpt2, hidden_of, llama, logits

import tacita
from tacita.api import classify_locally
from tacita.blocks.base import Rotary
from tacita.blocks.sequence import angles
from tacita.checkpoint import Checkpoint
from tacita.cli import main
from tacita.client.session import Client, embedded
from tacita.errors import FileError, InputError, PlanError
from tacita.evaluate import Server
from tacita.evaluate.kept import FOLDER
from tacita.layouts.rows import FeatureLayout, RowsShape
from tacita.layouts.vector import VectorLayout
from tacita.layouts.windows import head_windows
from tacita.packings.encoding import Encoding, OutputSpec
from tacita.packings.executor import Steps, beginning, prefixes
from tacita.packings.rows.first_token import KEYS, VALUES, FirstTokenAttention, StepAttention
from tacita.packings.specs import CircuitSpecs
from tacita.packings.weights import AttentionPlan, Positional, RotaryAngles
from tacita.planning.circuit import circuit_of
from tacita.plans.files import digest_of
from tacita.plans.plan import Plan, parse
from tacita.plans.presets import noise_of
from tacita.plans.public_folder import public_of
from tacita.progress import Progress
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend
from tacita.texts.embed import tokenize

Make = Callable[..., Checkpoint]
TEXT = "the plot is quiet and the film is time of a beauty"
ON = {"scheme": "thor", "tokens": TOKENS, "preset": TOY, "texts": TEXTS, "cache": True}


@pytest.fixture(scope="module", params=[llama, gpt2])
def case(request: pytest.FixtureRequest) -> tuple[Checkpoint, Plan]:
    model = request.param()
    return model, planned(model, cache=True)


@pytest.mark.parametrize("backend", ["plain", "sim"])
def test_every_step_gives_the_logits_of_the_text_so_far(case: Any, backend: str) -> None:
    model, plan = case
    top, noise = plan.parameters.max_level, noise_of(plan.parameters)
    be: Any = PlainBackend(plan.parameters.slots, top)
    be = SimBackend(be.slots, top, inject=True, noise=noise) if backend == "sim" else be
    levels = {tensor.name: tensor.level for tensor in (*plan.request, *plan.kept)}
    steps = Steps(plan.stages, circuit_of(plan, model), levels, be)
    ids = tokenize(model, TEXT)[0]
    wanted = logits(model, ids)
    for place, sample in enumerate(prefixes(embedded(plan, model, TEXT, None))):
        answer = steps.answer(sample)
        assert answer.sound() and np.abs(answer.values - wanted[place]).max() < near(plan)
        assert {n: be.level(cts[0]) for n, cts in steps.kept.items()} == {t.name: t.level for t in plan.kept}
    assert place + 1 == len(ids)


def test_a_plan_keeps_keys_and_values_of_a_layer(case: Any) -> None:
    """Checked as others are; a request is a vector and a mask, whatever the text's length."""
    model, plan = case
    assert [tensor.name for tensor in plan.kept] == [
        f"layer{layer}.attention.{side}.rows" for layer in (0, 1) for side in ("keys", "values")
    ]
    assert [(tensor.name, tensor.count) for tensor in plan.request] == [("hidden", 1), ("mask", 1)]
    assert parse(plan.to_text(), "plan", plan.salt) == plan and plan.packing == "rows"
    assert circuit_of(plan, model).kept[0].after == "layer0.attention.keys.later"
    whole = planned(model)
    assert '"kept"' not in whole.to_text() and whole.hash != plan.hash


def test_what_a_step_costs() -> None:
    """Counts of a layer: keys and values are turned, a rotation each, in the stage that reads them; no map
    of all rows."""
    plan = planned(llama(layers=1), cache=True)
    counts = {stage.name.removeprefix("layer0."): dict(stage.counts) for stage in plan.stages}
    assert plan.bootstraps == 2 and len(plan.stages) == 17
    found = {name: counts[f"attention.{name}"].get("rotate", 0) for name in ("scores", "mix")}
    assert found == {"scores": 12, "mix": 10}


def test_the_mean_of_a_stream_is_taken_off_once() -> None:
    """GPT-2's norms see nothing of it, so that sums behind the first one are stored without it: on vectors as
    the next norm takes them, in rows with a copy to scale. An RMSNorm takes sums with their mean."""
    step, whole, other = planned(gpt2(), cache=True), planned(gpt2()), planned(llama(), cache=True)
    first = ["layer0.norm1.centre"]
    for plan in (step, other):
        assert [stage.name for stage in plan.stages if stage.name.endswith(".centre")] == first
    centres = {stage.name: stage.counts for stage in whole.stages if stage.name.endswith(".centre")}
    assert len(centres) > 1 and [name for name, counts in centres.items() if counts.get("rotate")] == first


def altered(plan: Plan, **fields: Any) -> Plan:
    """With one kept tensor that says something else."""
    first, *others = plan.kept
    return replace(plan, kept=(replace(first, **fields), *others))


def test_plans_that_keep_something_else_are_refused(case: Any) -> None:
    model, plan = case
    first, second, *_ = plan.kept
    top = plan.parameters.max_level
    for wrong, message in (
        (altered(plan, level=top + 1), "kept layer0.attention.keys.rows: level"),
        (replace(plan, request=tuple(replace(t, level=0) for t in plan.request)), "kept: levels"),
        (altered(plan, count=0), "kept layer0.attention.keys.rows: ciphertexts"),
        (altered(plan, kind="complex"), "kept layer0.attention.keys.rows: kind"),
        (altered(plan, name="mask"), "kept: names"),
        (altered(plan, name=second.name), "names of the kept"),
        (replace(plan, kept=(first,)), "kept: layers"),
        (replace(plan, kept=()), "layout: rows of the request"),
    ):
        with pytest.raises(FileError, match=message):
            parse(wrong.to_text(), "plan", plan.salt)
    for wrong, message in (
        (altered(plan, name="other"), "ciphertexts that are kept"),
        (altered(plan, count=2), "ciphertexts that are kept"),
        (altered(plan, level=0), "cannot run|bootstraps|rotation keys|kept"),
    ):
        with pytest.raises(PlanError, match=message):
            circuit_of(wrong, model)


@pytest.mark.parametrize(("tokens", "hidden", "heads"), [(8, 12, 2), (8, 40, 4), (4, 96, 4)])
@pytest.mark.parametrize("turns", [False, True])
def test_rows_turn_and_make_room(tokens: int, hidden: int, heads: int, turns: bool) -> None:
    """Row t becomes row t + 1 and the new one row 0: keys, values and scores are those of all rows by one map
    each. In one window, in two, and with more blocks than a ciphertext has room for."""
    rng, shape, size = np.random.default_rng(0), RowsShape(256, tokens), hidden // heads
    dense = [(rng.normal(size=(hidden, hidden)), rng.normal(size=hidden)) for _ in range(4)]
    rotary = RotaryAngles(*angles(Rotary(100.0), (tokens, size))) if turns else None
    specs = CircuitSpecs.from_json(planned(gpt2(), cache=True).circuit["specs"]).attention("layer0.attention")
    encoding = Encoding(1.0)
    ends = replace(specs, rows=None), encoding, OutputSpec(1.0, encoding, centred=False)
    plan = AttentionPlan(heads, (dense[0], dense[1], dense[2], dense[3]), *ends, Positional(rotary))
    layout = FeatureLayout.dense(shape, hidden, copied=True)
    made = [
        kind(plan, layout, head_windows(shape, heads, size)) for kind in (FirstTokenAttention, StepAttention)
    ]
    whole, step = made[0], made[1]
    assert isinstance(step, StepAttention)
    be, rows = PlainBackend(256), rng.normal(size=(tokens, hidden))
    before, after = (
        np.vstack([rows[1:], np.zeros(hidden)]),
        tuple(be.encrypt(x, 5) for x in layout.pack(rows)),
    )
    earlier = tuple(be.encrypt(x, 5) for x in layout.pack(before))
    zero = tuple(be.encrypt(x, 5) for x in layout.pack(0.0 * rows))
    first = (be.encrypt(VectorLayout(256, hidden).pack(rows[0]), 5),)
    new = step.new(be, first)
    for side, map_ in ((KEYS, whole.key), (VALUES, whole.value)):
        pairs = zip(map_.apply(be, earlier), map_.apply(be, zero), strict=True)
        kept = tuple(be.sub(a, b) for a, b in pairs)
        left = step.later(be, new, kept, side)
        assert {be.level(ct) for ct in left} == {3}
        for ct, wanted in zip(step.biased(be, left, side), map_.apply(be, after), strict=True):
            assert np.allclose(be.decrypt(ct), be.decrypt(wanted))
        if side == KEYS:
            found = step.scores_of(be, new, left, first)
    for ct, wanted in zip(found, whole.scores(be, after, first), strict=True):
        assert np.allclose(be.decrypt(ct), be.decrypt(wanted))


def test_beginnings_of_a_text_in_reverse() -> None:
    rows, mask = np.array([[3.0], [2.0], [1.0], [0.0]]), np.array([1.0, 1.0, 1.0, 0.0])
    found, real = beginning((rows, mask), 2)
    assert found.ravel().tolist() == [2.0, 1.0, 0.0, 0.0] and real.tolist() == [1.0, 1.0, 0.0, 0.0]
    lengths = [int(real.sum()) for _, real in prefixes((rows, mask))]
    assert lengths == [1, 2, 3]


@pytest.mark.parametrize("make", [llama, gpt2])
def test_tokens_are_those_without_a_cache(make: Make) -> None:
    common: dict[str, Any] = {"model": make(), "max_tokens": 4}
    wanted = list(tacita.generate(ASKED[0], **common))
    assert list(tacita.generate(ASKED[0], backend="sim", **ON, **common)) == wanted


def test_a_first_token_with_a_large_score_to_itself() -> None:
    """The mean of its exponentials is over one row, a whole text's over all: beginnings calibrate."""
    common: dict[str, Any] = {"model": llama(vocab=200), "max_tokens": 3}
    wanted = [token.id for token in tacita.generate(ASKED[0], **common)]
    assert [token.id for token in tacita.generate(ASKED[0], backend="plain", **ON, **common)] == wanted


def test_the_token_alone() -> None:
    """Arg-max on ciphertexts follows a step's logits as it does those of a whole text."""
    common: dict[str, Any] = {"model": llama(), "max_tokens": 3}
    wanted = [token.id for token in tacita.generate(ASKED[0], **common)]
    found = tacita.generate(ASKED[0], backend="sim", reveal="token", gap=0.02, **ON, **common)
    assert [token.id for token in found] == wanted


def test_what_cannot_be_combined() -> None:
    model = llama()
    for wrong, message in (
        ({"scheme": "leaf"}, "a cache with scheme leaf"),
        ({"scheme": "bumblebee"}, "a cache with no ciphertexts"),
        ({}, "a cache with no ciphertexts"),
    ):
        with pytest.raises(InputError, match=message):
            tacita.generate(ASKED[0], model=model, cache=True, **wrong)  # type: ignore[arg-type]
    for how in ({"scheme": "arion"}, {"packing": "multidiagonal"}, {"scheme": "auto"}):
        with pytest.raises(InputError, match="a cache with scheme"):
            planned(model, cache=True, **how)
    with pytest.raises(InputError, match="a plan with a cache"):
        tacita.plan(tokens=16, preset=TOY, texts=TEXTS, cache=True)


def test_whole_texts_are_refused(case: Any, tmp_path: Path) -> None:
    model, plan = case
    with pytest.raises(InputError, match="a whole text on a plan that keeps rows"):
        classify_locally(plan, model, TEXT)
    client = Client(public_of(planned(model), model), tmp_path)
    with pytest.raises(InputError, match="a request that follows another"):
        client.encrypt(TEXT, after="0" * 64)


class Killed(Exception):
    """Stands for the end of the process."""


def killed_at(index: int) -> Callable[[Progress], None]:
    def report(progress: Progress) -> None:
        if progress.index == index:
            raise Killed

    return report


@contextmanager
def refused(message: str, work: Path) -> Iterator[None]:
    """Nothing that is kept changes."""
    before = contents(work)
    with pytest.raises(FileError, match=message):
        yield
    assert contents(work) == before


def contents(work: Path) -> dict[str, bytes]:
    folder = work / FOLDER
    found = folder.glob("*") if folder.exists() else ()
    return {path.name: path.read_bytes() for path in found}


def ciphertexts(work: Path) -> list[bytes]:
    return sorted(data for name, data in contents(work).items() if name.endswith(".spill"))


@pytest.mark.native
def test_steps_on_ciphertexts_keep_their_order(tmp_path: Path) -> None:
    """Two folders would do: the client reads the response alone, the server the request. A replayed, skipped
    or foreign request is refused; a killed step is evaluated again bit for bit."""
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    model = llama(layers=1)
    plan, work = planned(model, cache=True, preset=RING), tmp_path / "work"
    ids = tokenize(model, TEXT)[0]
    rows, wanted = hidden_of(model, ids), logits(model, ids)
    client = Client(public_of(plan, model), work, allow_insecure=True)
    client.keygen()
    server = Server(plan, model, work, allow_insecure=True, save_every=0.0)
    request = work / "request.ct"

    def step(count: int, after: str) -> str:
        client.encrypt(hidden_states=rows[:count], after=after)
        server.evaluate()
        assert np.abs(client.decrypt().vector - wanted[count - 1]).max() < near(plan)
        return digest_of(request)

    client.encrypt(hidden_states=rows[:2], after="0" * 64)
    with refused("goes on behind request 000000000000, and no rows are kept", work):
        server.evaluate()
    first = step(1, "")
    with refused("row 1 of its text, answered already", work):
        server.evaluate()
    client.encrypt(hidden_states=rows[:1], after="")
    with refused("begins a text, 1 rows are kept", work):
        server.evaluate()
    client.encrypt(hidden_states=rows[:3], after="0" * 64)
    with refused("goes on behind request 000000000000, 1 rows are kept", work):
        server.evaluate()

    client.encrypt(hidden_states=rows[:2], after=first)
    shutil.copytree(work, other := tmp_path / "other")
    before = contents(work)
    with pytest.raises(Killed):
        server.evaluate(killed_at(9))
    assert contents(work) == before
    told: list[str] = []
    server.evaluate(notice=told.append)
    Server(plan, model, other, allow_insecure=True).evaluate()
    assert any("goes on after stage" in line for line in told)
    assert (work / "response.ct").read_bytes() == (other / "response.ct").read_bytes()
    assert ciphertexts(work) == ciphertexts(other)
    assert np.abs(client.decrypt().vector - wanted[1]).max() < near(plan)
    assert len(ciphertexts(work)) == 2  # keys and values of one layer: what came before is gone

    assert json.loads((work / "secret.key.use").read_text())["answers"] == 2
    second = digest_of(request)
    spilled, _ = (work / FOLDER).glob("*.spill")
    spilled.write_bytes(spilled.read_bytes()[:-1] + b"?")
    client.encrypt(hidden_states=rows[:3], after=second)
    with refused("not the rows of a text", work):
        server.evaluate()
    server.forget()
    assert not (work / FOLDER).exists()
    step(1, "")


@pytest.mark.native
def test_a_step_of_a_service_may_come_twice(tmp_path: Path) -> None:
    """Rows lie in a folder of their own. A repeated step gives the same bytes, another in its place is
    evaluated on the state before it, and one that names neither state is refused."""
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    model = llama(layers=1)
    plan, work, text = planned(model, cache=True, preset=RING), tmp_path / "work", tmp_path / "text"
    text.mkdir()
    ids = tokenize(model, TEXT)[0]
    rows, wanted = hidden_of(model, ids), logits(model, ids)
    client = Client(public_of(plan, model), work, allow_insecure=True)
    client.keygen()
    server = Server(plan, model, work, allow_insecure=True, text=text)

    def step(count: int, after: str) -> str:
        client.encrypt(hidden_states=rows[:count], after=after)
        server.evaluate()
        assert np.abs(client.decrypt().vector - wanted[count - 1]).max() < near(plan)
        return digest_of(work / "request.ct")

    def again() -> None:
        before = (work / "response.ct").read_bytes(), ciphertexts(text)
        server.evaluate()
        assert ((work / "response.ct").read_bytes(), ciphertexts(text)) == before

    replaced = step(1, "")
    again()
    first = step(1, "")  # in place of the other, on nothing
    again()
    client.encrypt(hidden_states=rows[:2], after=replaced)
    with refused(f"goes on behind request {replaced[:12]}, 1 rows are kept", text):
        server.evaluate()
    other, second = step(2, first), step(2, first)
    again()
    assert len(ciphertexts(text)) == 4  # keys and values of the last state and the one before
    step(3, second)
    assert len(ciphertexts(text)) == 4 and not (work / FOLDER).exists()
    for after in ("", first, other):
        client.encrypt(hidden_states=rows[:3], after=after)
        with refused("3 rows are kept", text):
            server.evaluate()
    step(3, second)


@pytest.mark.native
def test_two_tokens_on_ciphertexts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the toy ring, by the command, which says what all requests will take: a prompt of four tokens and
    one behind it."""
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    (tmp_path / "model").mkdir()
    folder, texts, report = folder_of(tmp_path / "model"), tmp_path / "texts.txt", tmp_path / "report.json"
    texts.write_text("\n".join(TEXTS))
    monkeypatch.setenv("TACITA_RUN__ALLOW_INSECURE", "true")
    main_ = ["generate", "time is", "--model", str(folder), "--max-tokens", "2", "--tokens", str(TOKENS)]
    on = ["--scheme", "thor", "--cache", "--backend", "ckks", "--preset", RING]
    status = main([*main_, *on, "--texts", str(texts), "--json", str(report)])
    assert status == 0
    wanted = [token.id for token in tacita.generate("time is", model=folder, max_tokens=2)]
    found = json.loads(report.read_text())
    assert found["tokens"] == wanted and found["trusted"]
    assert "thor: 5 x" in (told := capsys.readouterr().err) and "MB a row" in told
