"""Decoders beside the float model, position by position; nothing is encrypted.

    python -m bench decoder-agreement --model DIR --begin TEXT --text FILE --json F

is a decoder in two parties' integers (`fixed`), those that the parties' shares add up to. The plan is
calibrated on the shipped sentences, as `tacita serve` does. Of the file's text, which calibrates nothing,
windows of equal length are read token by token: at each position, whether the likeliest next token is the
float model's, and the Kullback-Leibler divergence of the two distributions. Then texts go on behind a few
prompts, greedily, by each of the two; a token counts as equal where both, given what the float model wrote so
far, choose the same.

    python -m bench choice-agreement --gap 0.1 --positions 1500 --circuit 24

is how often the token that ciphertexts tell is the float model's, by the distance of its two likeliest. Every
other one of the model's calibration texts calibrates, the others are asked. First the choice alone: the float
model's logits at every position of the texts, with an error like the circuit's (`--error`, the standard
deviation of a logit), through the tournament at full size, exact but for its approximations. Then whole: the
planned circuit on `sim` with the noise of full security, a text a position, cut where it is asked.

    python -m bench kept-rows --tokens 32 --steps 6

is what rows kept as ciphertexts save: a step of `tacita generate --cache` beside the whole text anew, as
planned, and its logits beside floats. Prompts are read row by row (docs/decisions/0038)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

import tacita
from bench.options import PRESET_DEFAULT, Begin, ModelFolder, Preset, emit, markdown
from bench.runs.two_party.cases.generate import TEXT, Reader, readers
from tacita import api
from tacita.approx import comparison
from tacita.checkpoint import Checkpoint, load
from tacita.cli.options import Json, option
from tacita.data import DEFAULT_DECODER
from tacita.generation.cached import cached_in_the_clear
from tacita.generation.clear import Floats
from tacita.layouts.vector import VectorLayout
from tacita.packings.base import stages_of
from tacita.packings.operations import CHECK
from tacita.packings.shared.choice import Choice, rounds_of
from tacita.planning.calibrate.calibrate import texts_for
from tacita.planning.request import PlanRequest
from tacita.plans.plan import Plan
from tacita.plans.presets import PRESETS
from tacita.plans.scheme import BUMBLEBEE
from tacita.slots.plain import PlainBackend
from tacita.texts.answer import softmax
from tacita.texts.embed import embedded, tokenize
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan

Array = NDArray[np.float64]
PROMPTS = (
    "The capital of France is",
    "Once upon a time there was a",
    "Water boils at a temperature of",
    "The best way to learn a language is",
)
READ = "Elizabeth could not help thinking that it was all over with him"
TINY = 1e-30  # keeps logarithms finite


def decoder_agreement(
    model: ModelFolder,
    begin: Begin = "",
    text: Annotated[Path | None, option("--text", help="A text to read (default: a page of 1813).")] = None,
    windows: Annotated[int, option("--windows", help="Of the text.")] = 8,
    window: Annotated[int, option("--length", help="Tokens of a window.")] = 32,
    new_tokens: Annotated[int, option("--new-tokens", help="Behind each prompt.")] = 16,
    json: Json = None,
) -> None:
    """Compare a decoder in two parties' integers with floats: next tokens of a text, and greedy texts."""
    loaded, room = load(model), max(window, new_tokens + 16)
    plan = make_two_party_plan(loaded, PlanRequest(scheme=BUMBLEBEE, tokens=room, begin=begin))
    given = text.read_text(encoding="utf-8") if text else TEXT * 3
    ids = tokenize(loaded, given, special=False)[0]
    parts = [ids[at : at + window] for at in range(0, windows * window, window)]
    prompts = (tokenize(loaded, prompt, special=False)[0] for prompt in PROMPTS)
    written = [token for prompt in prompts for token in greedy(loaded, plan, prompt, new_tokens)]
    read = list(positions(loaded, plan, parts))
    emit({"positions": summed(read), "greedy": summed(written)}, json)


def positions(model: Checkpoint, plan: TwoPartyPlan, windows: Sequence[Sequence[int]]) -> Iterator[Any]:
    """(same, divergence, largest error, sound) at each position of the windows."""
    for window in windows:
        floats, fixed = readers(model, plan)
        for token in window:
            yield _compared(floats.read([token]), fixed.read([token]), fixed)


def greedy(model: Checkpoint, plan: TwoPartyPlan, prompt: Sequence[int], count: int) -> list[Any]:
    """The same, at each token that the float model writes behind a prompt."""
    (floats, fixed), ids, found = readers(model, plan), list(prompt), []
    for _ in range(count):
        wanted, got = floats.read(ids), fixed.read(ids)
        found.append(_compared(wanted, got, fixed))
        ids = [int(wanted.argmax())]
    return found


def _compared(wanted: Array, got: Array, fixed: Reader) -> tuple[bool, float, float, bool]:
    p, q = softmax(wanted), softmax(got)
    divergence = float(np.sum(p * np.log((p + TINY) / (q + TINY))))
    same = int(wanted.argmax()) == int(got.argmax())
    return same, divergence, float(np.abs(wanted - got).max()), fixed.walker.sound


def summed(found: Sequence[Any]) -> dict[str, Any]:
    """Figures of positions or tokens."""
    same, divergence, error, sound = (np.array(column) for column in zip(*found, strict=True))
    return {
        "count": len(found),
        "agreement": float(same.mean()),
        "same": int(same.sum()),
        "kl": float(divergence.mean()),
        "max_kl": float(divergence.max()),
        "max_abs_error": float(error.max()),
        "sound": bool(sound.all()),
    }


PRESET, PLANNED, DEEP, SEED = "n16", 32, 60, 9
BINS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, np.inf)
Told = tuple[Array, Array]  # logits of floats, shares
Chooser = Callable[[Array], Array]  # logits -> shares


def choice_agreement(
    model: ModelFolder = DEFAULT_DECODER,
    gap: Annotated[float, option("--gap", help="As of `tacita plan`.")] = 0.1,
    positions: Annotated[int, option("--positions", help="Of the choice alone.")] = 1500,
    error: Annotated[float, option("--error", help="Deviation of a logit of the choice alone.")] = 0.01,
    circuit: Annotated[int, option("--circuit", help="Texts on the whole circuit.")] = 0,
) -> None:
    """Count how often the token that ciphertexts tell is the float model's; nothing is encrypted."""
    loaded = api.load(model)
    texts = [str(text) for text in texts_for(loaded)]
    plan = api.plan(loaded, scheme="thor", tokens=PLANNED, texts=texts[::2], reveal="token", gap=gap)
    assert isinstance(plan, Plan)
    bound, asked = float(plan.circuit["specs"]["answer"]), texts[1::2]
    choose, noise = chooser(loaded.config.vocab, gap, bound), np.random.default_rng(SEED)
    alone = [
        (logits, choose(logits + noise.normal(0.0, error, len(logits))))
        for logits in _positions(loaded, asked, positions)
    ]
    print(f"the choice alone, logits within {bound:g}, off by {error:g}", *table(alone), sep="\n")
    if circuit:
        found = _whole(plan, loaded, asked, circuit)
        print(f"the whole circuit, {circuit} texts", *table(found), sep="\n")


def table(found: Sequence[Told]) -> Iterator[str]:
    """A line for each range of distances, and one for all."""
    rows = np.array([_row(*pair) for pair in found])
    names = (
        "distance",
        "positions",
        "of all",
        "same token",
        "certain (share above 0.9)",
        "certain and wrong",
    )
    yield from markdown(
        names, filter(None, (_cells(rows, *pair) for pair in [*pairwise(BINS), (0.0, np.inf)]))
    )


def _cells(rows: Array, low: float, high: float) -> tuple[object, ...]:
    """Returns the figures of one range of distances; nothing where it has no position."""
    chosen = rows[(rows[:, 0] >= low) & (rows[:, 0] < high)]
    if not len(chosen):
        return ()
    same, certain = chosen[:, 1] > 0, chosen[:, 2] > 0.9
    shares = (len(chosen) / len(rows), np.mean(same), np.mean(certain))
    of_all, right, sure = (f"{share:.1%}" for share in shares)
    return f"{low:g} to {high:g}", len(chosen), of_all, right, sure, int(np.sum(certain & ~same))


def _row(logits: Array, shares: Array) -> tuple[float, float, float]:
    second, first = np.sort(logits)[-2:]
    return first - second, float(shares.argmax() == logits.argmax()), float(shares.max())


def chooser(words: int, gap: float, bound: float) -> Chooser:
    """The tournament on exact slots of the full ring."""
    slots = PRESETS[PRESET].slots
    layout, told = VectorLayout(slots, 128), comparison.fit(comparison.share(gap, bound), 1e-4)
    nothing = np.eye(words, layout.size) * 1e-9, np.zeros(words)
    choice = Choice.build(nothing, layout, (1.0, bound), told)
    stages = stages_of(choice.operations("vector"), frozenset())[1:]
    be, width = PlainBackend(slots, DEEP), rounds_of(slots, choice.blocks.width, words)[0].size

    def choose(logits: Array) -> Array:
        numbers = np.pad(logits / bound, (0, width - words), constant_values=-1.0)
        live = {"choice.numbers0": (be.encrypt(numbers),), CHECK: (be.encrypt(np.zeros(1)),)}
        for stage in stages:
            live = dict(stage.run(be, live))
        return choice.response.read([be.decrypt(live["answer"][0])])[0].values

    return choose


def _positions(model: Checkpoint, texts: Sequence[str], most: int) -> Iterator[Array]:
    """The float model's logits behind every token."""
    left = most
    for text in texts:
        walker, ids = Floats(model), tokenize(model, text)[0]
        rows = embedded(model, list(ids), [0] * len(ids))
        for place in range(min(left, len(ids))):
            yield walker.logits(rows[place : place + 1], np.ones(place + 1))
        left -= min(left, len(ids))


def _whole(plan: Plan, model: Checkpoint, texts: Sequence[str], most: int) -> list[Told]:
    cut, found = np.random.default_rng(SEED), []
    for text in texts[:most]:
        ids = tokenize(model, text)[0]
        ids = ids[: int(cut.integers(4, PLANNED + 1))]
        rows = embedded(model, list(ids), [0] * len(ids))
        logits = api.reference_logits(plan, model, hidden_states=rows)
        answer = api.classify_locally(plan, model, hidden_states=rows, backend="sim")
        found.append((logits, np.array(answer.anyway.logits)))
    return found


def kept_rows(
    model: ModelFolder = DEFAULT_DECODER,
    preset: Preset = PRESET_DEFAULT,
    tokens: Annotated[int, option("--tokens", help="Of the whole text.")] = 32,
    steps: Annotated[int, option("--steps", help="Tokens that are read, one a step.")] = 6,
    texts: Annotated[int | None, option("--texts", help="That calibrate (default: all).")] = None,
    backend: Annotated[str, option("--backend", help="plain or sim.")] = "sim",
    text: Annotated[str, option("--text", help="What is read.")] = READ,
) -> None:
    """Plan a step of `tacita generate --cache` beside the whole text anew; its logits beside floats."""
    loaded = tacita.load(model)
    known = [str(text) for text in texts_for(loaded)][:texts]
    common: dict[str, Any] = {"scheme": "thor", "tokens": tokens, "preset": preset, "texts": known}
    anew, step = (tacita.plan(loaded, cache=cache, **common) for cache in (False, True))
    assert isinstance(anew, Plan) and isinstance(step, Plan)
    for what, plan in (("whole text", anew), ("a step", step)):
        print(f"{what}: {plan.predicted_seconds():.1f} s planned, {plan.bootstraps} bootstraps")
    print("kept at levels", {tensor.name: tensor.level for tensor in step.kept})
    walk(loaded, step, backend, tokenize(loaded, text)[0][:steps])


def walk(model: Checkpoint, plan: Plan, backend: str, ids: list[int]) -> None:
    """Reads these tokens one by one, beside the float model."""
    floats, ask = Floats(model), cached_in_the_clear(plan, model, backend)
    rows = embedded(model, ids, [0] * len(ids))
    for place in range(len(ids)):
        wanted = floats.logits(rows[place : place + 1], np.ones(place + 1))
        answer = ask(rows[: place + 1])
        logits = answer.anyway.vector
        off, same = float(np.max(np.abs(logits - wanted))), logits.argmax() == wanted.argmax()
        print(f"token {place}: logits within {off:.4f}, same token {same}, trusted {answer.trusted}")
