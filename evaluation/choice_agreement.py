"""How often the token that ciphertexts tell is the float model's, by the distance of its two likeliest.

    python evaluation/choice_agreement.py --gap 0.1 --positions 1500 --circuit 24

Every other one of the model's calibration texts calibrates, the others are asked. First the choice alone: the
float model's logits at every position of the texts, with an error like the circuit's (`--error`, the standard
deviation of a logit), through the tournament at full size, exact but for its approximations. Then whole: the
planned circuit on `sim` with the noise of full security, a text a position, cut where it is asked. Nothing is
encrypted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from tacita import api
from tacita.approx import comparison
from tacita.checkpoint import Checkpoint
from tacita.data import DEFAULT_DECODER
from tacita.generation.clear import Floats
from tacita.layouts.row_requests import RowsResponse
from tacita.layouts.vector import VectorLayout
from tacita.packings.base import stages_of
from tacita.packings.operations import CHECK
from tacita.packings.shared.choice import Choice, rounds_of
from tacita.planning.calibrate.calibrate import texts_for
from tacita.plans.plan import Plan
from tacita.plans.presets import PRESETS
from tacita.slots.plain import PlainBackend
from tacita.texts.embed import embedded, tokenize

PRESET, TOKENS, DEEP, SEED = "n16", 32, 60, 9
BINS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, np.inf)
Told = tuple[np.ndarray, np.ndarray]  # logits of floats, shares
Chooser = Callable[[np.ndarray], np.ndarray]  # logits -> shares


def main() -> None:
    given = _arguments()
    model = api.load(given.model)
    texts = [str(text) for text in texts_for(model)]
    plan = api.plan(model, scheme="thor", tokens=TOKENS, texts=texts[::2], reveal="token", gap=given.gap)
    assert isinstance(plan, Plan)
    bound, asked = float(plan.circuit["specs"]["answer"]), texts[1::2]
    choose, noise = chooser(model.config.vocab, given.gap, bound), np.random.default_rng(SEED)
    alone = []
    for logits in _positions(model, asked, given.positions):
        alone.append((logits, choose(logits + noise.normal(0.0, given.error, len(logits)))))
    print(f"the choice alone, logits within {bound:g}, off by {given.error:g}", *table(alone), sep="\n")
    if given.circuit:
        print(
            f"the whole circuit, {given.circuit} texts",
            *table(_whole(plan, model, asked, given.circuit)),
            sep="\n",
        )


def table(found: Sequence[Told]) -> Iterator[str]:
    """A line for each range of distances, and one for all."""
    rows = np.array([_row(*pair) for pair in found])
    yield "| distance | positions | of all | same token | certain (share above 0.9) | certain and wrong |"
    yield "|---|---|---|---|---|---|"
    for low, high in [*pairwise(BINS), (0.0, np.inf)]:
        chosen = rows[(rows[:, 0] >= low) & (rows[:, 0] < high)]
        if len(chosen):
            same, certain = chosen[:, 1] > 0, chosen[:, 2] > 0.9
            figures = f"{len(chosen)} | {len(chosen) / len(rows):.1%} | {np.mean(same):.1%}"
            wrong = int(np.sum(certain & ~same))
            yield f"| {low:g} to {high:g} | {figures} | {np.mean(certain):.1%} | {wrong} |"


def _row(logits: np.ndarray, shares: np.ndarray) -> tuple[float, float, float]:
    second, first = np.sort(logits)[-2:]
    return first - second, float(shares.argmax() == logits.argmax()), float(shares.max())


def chooser(words: int, gap: float, bound: float) -> Chooser:
    """The tournament on exact slots of the full ring."""
    slots = PRESETS[PRESET].slots
    layout, told = VectorLayout(slots, 128), comparison.fit(comparison.share(gap, bound), 1e-4)
    nothing = np.eye(words, layout.size) * 1e-9, np.zeros(words)
    choice = Choice.build(RowsResponse, nothing, layout, (1.0, bound), told)
    stages = stages_of(choice.operations("vector"), frozenset())[1:]
    be, width = PlainBackend(slots, DEEP), rounds_of(slots, choice.response.width, words)[0].size

    def choose(logits: np.ndarray) -> np.ndarray:
        numbers = np.pad(logits / bound, (0, width - words), constant_values=-1.0)
        live = {"choice.numbers0": (be.encrypt(numbers),), CHECK: (be.encrypt(np.zeros(1)),)}
        for stage in stages:
            live = dict(stage.run(be, live))
        return choice.response.read([be.decrypt(live["answer"][0])])[0].values

    return choose


def _positions(model: Checkpoint, texts: Sequence[str], most: int) -> Iterator[np.ndarray]:
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
        ids = ids[: int(cut.integers(4, TOKENS + 1))]
        rows = embedded(model, list(ids), [0] * len(ids))
        logits = api.reference_logits(plan, model, hidden_states=rows)
        answer = api.classify_locally(plan, model, hidden_states=rows, backend="sim")
        found.append((logits, np.array(answer.anyway.logits)))
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=DEFAULT_DECODER)
    parser.add_argument("--gap", type=float, default=0.1)
    parser.add_argument("--positions", type=int, default=1500)
    parser.add_argument("--error", type=float, default=0.01)
    parser.add_argument("--circuit", type=int, default=0, help="texts on the whole circuit")
    return parser.parse_args()


if __name__ == "__main__":
    main()
