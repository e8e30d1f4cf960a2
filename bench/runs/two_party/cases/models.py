"""Whole models, 128 tokens: the default model, MiniLM-L6, and shapes with random weights: BERT-base's, the
peer's two layers."""

from __future__ import annotations

import gc
from abc import abstractmethod
from dataclasses import replace
from typing import Any, cast

import numpy as np

from bench.models.shapes import sized, with_random_tensors
from bench.runs.two_party.cases.case import Array, Case, Floats, Prepared, Report, errors
from bench.runs.two_party.session import Options
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint, embed, load
from tacita.checkpoint.reference import reference
from tacita.data import DEFAULT_MODEL
from tacita.planning.request import PlanRequest
from tacita.texts.embedding import ImageConfig
from tacita.two_party.arithmetic.residues import from_floats
from tacita.two_party.model import ServerModel
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.program.run import Ahead, Run, reveal, zeros

TEXT = "the patient was given the usual dose and slept well until the morning"
FILM = "a film of quiet beauty , and the ending stayed with me for days"
TOKENS = 128

Sample = tuple[Floats, Floats]  # hidden states (tokens, hidden), mask (tokens,)


class Model(Case):
    """A run from the client's hidden states to the logits (or the pooled vector), which the client learns."""

    tokens = TOKENS

    @abstractmethod
    def checkpoint(self, options: Options) -> Checkpoint:
        """The model, the same in every process."""

    @abstractmethod
    def sample(self, model: Checkpoint) -> Sample:
        """The client's input."""

    def plan(self, model: Checkpoint) -> TwoPartyPlan:
        """Calibrated on the shipped sentences, as `tacita serve` does."""
        return make_two_party_plan(model, PlanRequest(tokens=self.tokens))

    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        model = self.checkpoint(options)
        plan, (hidden, mask) = self.plan(model), self.sample(model)
        weights = None if party.is_client else Weights(model.tensors)
        del model  # the client of a measured run has no weights
        gc.collect()
        walk = Walk(party, plan, weights, report)
        parts = {"before": walk.prepare, "after": lambda: walk.answer(hidden, mask)}
        return Prepared(
            lambda: None, lambda: walk.answer(hidden, mask), parts=parts if options.prepared else {}
        )

    def judge(self, client: Array, server: Array, options: Options) -> dict[str, float]:
        model = self.checkpoint(options)
        wanted = reference(model, *self.sample(model)).trace["answer"]  # a client normalises afterwards
        return errors(client, wanted)


class Walk:
    """Runs the model for this party."""

    def __init__(self, party: Any, plan: TwoPartyPlan, weights: Weights | None, report: Report) -> None:
        self._party, self._program, self._report = party, plan.program, report
        self._model = ServerModel(plan.formats, weights, plan.recorded.held) if weights else None
        self._steps = len(self._program.cost().nodes)
        self._ahead = Ahead(party, plan.program, self._model)

    def prepare(self) -> Array:
        """Prepares the products of one text."""
        while not self._ahead.texts:
            self._ahead.prepare()
        return np.zeros(0)

    def answer(self, hidden: Floats, mask: Floats) -> Array:
        """The client's logits; nothing at the server, which ignores the input."""
        client, program = self._party.is_client, self._program
        seen: list[str] = []

        def watch(stage: str) -> None:
            self._report(stage, len(seen) / self._steps)
            seen.append(stage)

        own = mask if client else None, self._model, watch
        run = Run(self._party, program, *own, prepared=self._ahead.take())
        if not client:
            self._party.reveal(run.answer(zeros(program, program.tokens)))
            return np.zeros(0)
        share = run.answer(from_floats(hidden, program.entered.fraction, program.entered.ring).values)
        return np.asarray(reveal(self._party, share, program.answered)[0])


class DefaultModel(Model):
    """sst2-tiny: 2 layers, hidden 128."""

    name = "default_model"

    def checkpoint(self, options: Options) -> Checkpoint:
        return load(DEFAULT_MODEL)

    def sample(self, model: Checkpoint) -> Sample:
        return embed(model, FILM, self.tokens)


class MiniLm(Model):
    """all-MiniLM-L6-v2: 6 layers, hidden 384, 12 heads, real weights; the pooled embedding is compared."""

    name = "minilm"

    def available(self, options: Options) -> str:
        return "" if options.model else "no weights: pass --model DIR with MiniLM-L6"

    def checkpoint(self, options: Options) -> Checkpoint:
        return load(options.model or self.name, pooling="mean")

    def sample(self, model: Checkpoint) -> Sample:
        return embed(model, TEXT, self.tokens)


class RandomShape(Model):
    """Layers, hidden, heads and inner width of these sizes, random weights of calibrated scale; from hidden
    states, without embedding. changes: of the configuration. named: see `Case`."""

    SMALL = (2, 64, 2, 128)
    CALIBRATION = 3  # random inputs beside the measured one

    def __init__(
        self, name: str, *sizes: int, tokens: int = TOKENS, named: bool = False, **changes: Any
    ) -> None:
        self.name, self.named, self.tokens, self._sizes, self._changes = name, named, tokens, sizes, changes

    def checkpoint(self, options: Options) -> Checkpoint:
        family = "vit" if "image" in self._changes else "bert"
        layers, hidden, heads, wide = self.SMALL if options.small else self._sizes
        config = replace(sized(layers, hidden, heads, wide, family=family), **self._changes)
        return with_random_tensors(config, self.rng("weights"), self.name)

    def sample(self, model: Checkpoint) -> Sample:
        return self.rng("inputs").normal(size=(self.tokens, model.config.hidden)), np.ones(self.tokens)

    def plan(self, model: Checkpoint) -> TwoPartyPlan:
        rng = np.random.default_rng(7)
        others = [rng.normal(size=(self.tokens, model.config.hidden)) for _ in range(self.CALIBRATION)]
        states = [(x, np.ones(self.tokens)) for x in others]
        stated = replace(model, config=replace(cast("Any", model.config), embeddings=True))  # as plans must
        return make_two_party_plan(stated, PlanRequest(tokens=self.tokens, hidden_states=states))


BASE, PATCHES = (12, 768, 12, 3072), 197  # [CLS] and 196
VIT: dict[str, Any] = {
    "pooling": "cls",
    "image": ImageConfig(size=224, patch=16, extra=1),
    "positions": PATCHES,
}
RANDOM_SHAPES = (
    # the peer's case: every layer on all tokens; the mean is compared
    RandomShape("tiny_shape", 2, 128, 2, 512, pooling="mean", labels=()),
    RandomShape("bert_base_shape", *BASE),
    RandomShape("bert_large_shape", 24, 1024, 16, 4096, named=True),
    RandomShape("vit_base_shape", *BASE, tokens=PATCHES, named=True, **VIT),
)
