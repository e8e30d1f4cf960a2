"""Prints the cost of the largest logit on ciphertexts, docs/decisions/0035: by the ways of a round, the gap
and the vocabulary.

    python -m bench choices

Each row is placed as a circuit of its own, from a vector's ciphertext to the response, by the shipped prices
of n16 with two threads; "logits alone" is what a client gets otherwise. Nothing is encrypted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bench.options import markdown, shipped_prices
from tacita.approx import comparison
from tacita.layouts.vector import VectorLayout
from tacita.packings.base import stages_of
from tacita.packings.operations import CHECK, answer_operation
from tacita.packings.shared.answer import vector_answering
from tacita.packings.shared.choice import Choice
from tacita.planning.place.circuit import simulated
from tacita.planning.place.placement import Placement, place
from tacita.planning.place.simulate import StageSimulator
from tacita.plans.presets import PRESETS
from tacita.slots.stage import Stage

PRESET, HIDDEN, BOUND, ERROR = PRESETS["n16"], 128, 25.0, 1e-4
VECTOR = "vector"
Array = NDArray[np.float64]
HEADS = ("words", "gap", "ways of a round", "rounds", "bootstraps", "levels of a comparison", "seconds")
CASES = (  # words, gap, most ways of a round
    *((2048, 0.1, most) for most in (2, 4, 16, 0)),
    *((2048, gap, 0) for gap in (0.5, 0.2, 0.05)),
    *((words, 0.1, 0) for words in (256, 1024, 4096, 8192)),
)


def choices() -> None:
    """Planned seconds of the likeliest word alone, by ways of a round, gap, vocabulary: decision 35."""
    print(*markdown(HEADS, _rows()), sep="\n")


def _rows() -> Iterator[Sequence[str]]:
    for words, gap, most in CASES:
        found = comparison.fit(gap / (2.0 * BOUND), ERROR)
        choice = Choice.build(_dense(words), _layout(), (1.0, BOUND), found, most)
        placed = _placed(stages_of(choice.operations(VECTOR), frozenset()))
        ways = ", ".join(str(one.ways) for one in choice.rounds)
        through = len(choice.rounds)
        counts = f"{placed.bootstraps + through}, of which {through} compare"
        levels = f"{comparison.levels(found)} ({len(found.step.sines) - 1} harmonics)"
        yield str(words), f"{gap:g}", ways, str(through), counts, levels, f"{placed.seconds:.1f}"
    for words in (2048, 8192):
        logits = vector_answering(_dense(words), _layout(), 1.0, BOUND)
        placed = _placed(stages_of([answer_operation(logits, VECTOR)], frozenset()))
        yield str(words), "-", "logits alone", "0", str(placed.bootstraps), "-", f"{placed.seconds:.1f}"


def _dense(words: int) -> tuple[Array, Array]:
    return np.random.default_rng(0).normal(size=(words, HIDDEN)), np.zeros(words)


def _layout() -> VectorLayout:
    return VectorLayout(PRESET.slots, HIDDEN)


def _placed(stages: Sequence[Stage]) -> Placement:
    simulator = StageSimulator(lambda: simulated(PRESET), fixed=frozenset())
    return place(stages, {VECTOR: 1, CHECK: 1}, simulator, shipped_prices(PRESET.log_n))
