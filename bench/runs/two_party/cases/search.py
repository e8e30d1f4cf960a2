"""Private search: sentences against the server's documents. The protocol answers the first ones, its integers
200 of them; both are held against the float model's ten nearest documents."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.runs.harness import alike
from bench.runs.two_party.cases.accuracy import Accuracy, by_interpreter, examples_of
from bench.runs.two_party.cases.case import Array
from bench.runs.two_party.cases.models import MiniLm
from bench.runs.two_party.session import Options
from tacita.checkpoint import Checkpoint, embed
from tacita.checkpoint.documents import read_documents, with_documents
from tacita.checkpoint.reference import reference
from tacita.planning.request import PlanRequest
from tacita.texts.embed import length_of
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan

QUERIES, CALIBRATION = 200, 300  # texts that are asked, and documents that calibrate


class Search(Accuracy):
    """MiniLM-L6 with the documents of `--documents`; sentences of up to 32 tokens of `--data`."""

    name, tokens, named = "search", 32, True

    def available(self, options: Options) -> str:
        return super().available(options) or "no index: pass --documents FILE" * (not options.documents)

    def checkpoint(self, options: Options) -> Checkpoint:
        model = MiniLm().checkpoint(options)
        index = read_documents(options.documents or Path(), model)
        self.calibration = index.texts
        return with_documents(model, index)

    def planned(self, model: Checkpoint, tokens: int) -> TwoPartyPlan:
        fitting = tuple(one for one in self.calibration if length_of(model, one) <= tokens)
        return make_two_party_plan(model, PlanRequest(tokens=tokens, texts=fitting[:CALIBRATION]))

    def texts(self, model: Checkpoint, options: Options) -> list[str]:
        return [one for one in examples_of(options)[0] if length_of(model, one) <= self.tokens][:QUERIES]

    def judge(self, client: Array, server: Array, options: Options) -> dict[str, float]:
        model = self.checkpoint(options)
        texts, few = self.texts(model, options), len(client)  # the protocol answers the first
        wanted = np.array([reference(model, *embed(model, text, self.tokens)).logits for text in texts])
        fixed, overflows = by_interpreter(self.planned(model, self.tokens), model, texts)
        told = client > client.min(axis=1, keepdims=True)  # the others are the least number of all
        error = float(np.abs(client - wanted[:few])[told].max())
        found = {"max_abs_error": error, "overflows": overflows, "documents": wanted.shape[1]}
        found |= {f"fixed_{name}": value for name, value in alike(fixed, wanted).items()}
        return found | {f"protocol_{name}": value for name, value in alike(client, wanted[:few]).items()}
