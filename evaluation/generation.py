"""How near a decoder in two parties' integers is to the float model: greedy texts, and position by position.

    python evaluation/generation.py --model DIR --begin TEXT --text FILE --json F

A plan is calibrated on the shipped sentences, as `tacita serve` does. The integers (`fixed`) are those that
the parties' shares add up to. Of the file's text, which calibrates nothing, windows of equal length are read
token by token: at each position, whether the likeliest next token is the float model's, and the
Kullback-Leibler divergence of the two distributions. Then texts go on behind a few prompts, greedily, by each
of the two; a token counts as equal where both, given what the float model wrote so far, choose the same.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import bench_on_path  # noqa: F401
import numpy as np

from bench.runs.two_party.cases.generate import TEXT
from tacita.checkpoint import Checkpoint, load
from tacita.generation.clear import Floats, Walker, Whole
from tacita.planning.request import PlanRequest
from tacita.plans.scheme import BUMBLEBEE
from tacita.texts.answer import softmax
from tacita.texts.embed import embedded, tokenize
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan

Array = np.ndarray
PROMPTS = (
    "The capital of France is",
    "Once upon a time there was a",
    "Water boils at a temperature of",
    "The best way to learn a language is",
)
TINY = 1e-30  # keeps logarithms finite


class Reader:
    """The logits behind a text that grows token by token, by one walker."""

    def __init__(self, model: Checkpoint, walker: Walker, begin: Sequence[int]) -> None:
        self._model, self.walker, self._told = model, walker, len(begin)
        if begin:
            walker.begin(begin)

    def read(self, ids: Sequence[int]) -> Array:
        """(vocab,): what comes behind these, too."""
        rows = embedded(self._model, list(ids), [0] * len(ids), self._told)
        self._told += len(ids)
        return self.walker.logits(rows, np.ones(self._told))


def readers(model: Checkpoint, plan: TwoPartyPlan) -> tuple[Reader, Reader]:
    """Floats, and the integers of two parties."""
    return Reader(model, Floats(model), plan.begin), Reader(model, Whole(model, plan), plan.begin)


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


def main() -> None:
    """See the module."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--model", type=Path, required=True)
    options.add_argument("--begin", default="", help="the public beginning (`tacita serve --begin`)")
    options.add_argument("--text", type=Path, help="a text to read (default: a page of 1813)")
    options.add_argument("--windows", type=int, default=8)
    options.add_argument("--length", type=int, default=32, help="tokens of a window")
    options.add_argument("--new-tokens", type=int, default=16, help="behind each prompt")
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    model = load(given.model)
    room = max(given.length, given.new_tokens + 16)
    plan = make_two_party_plan(model, PlanRequest(scheme=BUMBLEBEE, tokens=room, begin=given.begin))
    text = given.text.read_text(encoding="utf-8") if given.text else TEXT * 3
    ids = tokenize(model, text, special=False)[0]
    windows = [ids[at : at + given.length] for at in range(0, given.windows * given.length, given.length)]
    figures = {"positions": summed(list(positions(model, plan, windows)))}
    written = [
        token
        for prompt in PROMPTS
        for token in greedy(model, plan, tokenize(model, prompt, special=False)[0], given.new_tokens)
    ]
    figures["greedy"] = summed(written)
    print(json.dumps(figures, indent=1))
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
