"""Accuracy of the two-party mode: all validation sentences by the protocol's arithmetic, some of them by the
protocol itself.

The fixed-point interpreter has the protocols' formats, roundings and polynomials and runs every sentence;
what it leaves out is the last unit that sharing adds at random. The protocol answers the first sentences (or
all), padded to one of three lengths, and both are held against the float model and against each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.options import read_examples
from bench.runs.two_party.cases.case import Array, Floats, Prepared, Report
from bench.runs.two_party.cases.models import DefaultModel, Walk
from bench.runs.two_party.session import Options
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint, embed, load
from tacita.checkpoint.reference import reference
from tacita.data import DEFAULT_MODEL
from tacita.errors import InputError
from tacita.planning.request import PlanRequest
from tacita.texts.embed import tokenize
from tacita.two_party.model import simulation
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan

BUCKETS = (32, 64, 128)  # fixed numbers of tokens; a sentence by the protocol takes the least that holds it


class Accuracy(DefaultModel):
    """The default model on SST-2's validation sentences; time, traffic and rounds are those of the sentences
    by the protocol."""

    name = "accuracy"

    def available(self, options: Options) -> str:
        missing = not (options.data and options.data.is_file())
        return "no sentences: pass --data FILE.tsv (header, then sentence, tab, label)" * missing

    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        model = self.checkpoint(options)
        texts = self.texts(model, options)[: options.sentences]
        sizes = [bucket(model, text) for text in texts]
        weights, quiet = None if party.is_client else Weights(model.tensors), lambda stage, done: None
        plans = {size: self.planned(model, size) for size in sorted(set(sizes))}
        walks = {size: Walk(party, plan, weights, quiet) for size, plan in plans.items()}

        def run() -> Array:
            found = []
            for at, (text, size) in enumerate(zip(texts, sizes, strict=True)):
                report(f"sentence {at + 1} of {len(texts)}", at / len(texts))
                found.append(walks[size].answer(*embed(model, text, size)))
            return np.stack(found)

        return Prepared(lambda: None, run)

    def texts(self, model: Checkpoint, options: Options) -> list[str]:
        return examples_of(options)[0]

    def planned(self, model: Checkpoint, tokens: int) -> TwoPartyPlan:
        return make_two_party_plan(model, PlanRequest(tokens=tokens))

    def judge(self, client: Array, server: Array, options: Options) -> dict[str, float]:
        model = load(DEFAULT_MODEL)
        texts, labels = examples_of(options)
        plan = self.planned(model, self.tokens)
        wanted = np.array([reference(model, *embed(model, text, self.tokens)).logits for text in texts])
        fixed, overflows = by_interpreter(plan, model, texts)
        few = wanted[: len(client)]
        return {
            "sentences": len(texts),
            "accuracy": _share(fixed, labels),
            "reference_accuracy": _share(wanted, labels),
            "accuracy_points_lost": 100 * (_share(wanted, labels) - _share(fixed, labels)),
            "agreement": _share(fixed, wanted.argmax(axis=1)),
            "fixed_max_abs_error": float(np.abs(fixed - wanted).max()),
            "overflows": overflows,
            "protocol_sentences": len(client),
            "protocol_accuracy": _share(client, labels[: len(client)]),
            "protocol_agreement": _share(client, few.argmax(axis=1)),
            "protocol_to_fixed_max_abs_error": float(np.abs(client - fixed[: len(client)]).max()),
            "max_abs_error": float(np.abs(client - few).max()),
        }


def bucket(model: Checkpoint, text: str) -> int:
    """The fixed number of tokens for a sentence: all that the server learns of its length."""
    length = len(tokenize(model, text)[0])
    return next((size for size in BUCKETS if length <= size), BUCKETS[-1])


def by_interpreter(plan: TwoPartyPlan, model: Checkpoint, texts: list[str]) -> tuple[Floats, int]:
    """(logits (texts, outputs) by the fixed-point interpreter, values that left their ring)."""
    weights, found, overflows = Weights(model.tensors), [], 0
    for text in texts:
        hidden, mask = embed(model, text, plan.tokens)
        run = simulation(plan, weights, mask)
        found.append(run.floats(hidden)[0])
        overflows += run.overflows.total()
    return np.array(found), overflows


def examples_of(options: Options) -> tuple[list[str], list[int]]:
    """Sentences and labels of the file. Raises InputError for a line that is not one."""
    if options.data is None:
        raise InputError("accuracy: no file of sentences", hint="pass --data FILE.tsv")
    texts, labels = zip(*read_examples(options.data), strict=True)
    return [str(text) for text in texts], list(labels)


def _share(logits: Floats, labels: Any) -> float:
    return float(np.mean(logits.argmax(axis=1) == labels))
