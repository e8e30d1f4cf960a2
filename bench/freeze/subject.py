"""The only module of the freezing that names `tacita`: code that moves is followed here and nowhere else.

Everything that it hands on is plain data (numbers, texts, dictionaries), in words that stay when the code's
own words change. A stage that gets another name while it stays the same thing gets it in frozen files too.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from bench.models.dashformer import SEQUENCES, convert
from bench.models.shapes import SHAPES, with_random_tensors
from bench.options import read_examples, shipped_prices
from bench.runs.batch import DASHFORMER_TOKENS
from bench.runs.dashformer import split
from bench.runs.harness import Group, Machine, Ran, ask, unrounded
from bench.runs.two_party.cases.accuracy import by_interpreter
from tacita import api
from tacita.checkpoint import Checkpoint, embed, load
from tacita.checkpoint.reference import reference
from tacita.client.store import PublicCache
from tacita.data import DEFAULT_MODEL
from tacita.models.bert import BertConfig
from tacita.planning.calibrate.calibrate import load_texts
from tacita.plans.commitment import LINKS
from tacita.plans.plan import PlacedStage, Plan, TensorInfo
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.protocol.party import Party, pair

Facts = dict[str, Any]
TOKENS, BATCH, PRESET, RING = 128, 256, "n16", 16
PRICES = ("tacita.plans.prices", "tables", f"n{RING}.json")  # the shipped table: package, folder, file
MINILM_TEXTS, MINILM_SEED = 16, 1
ENDS = "client", "server"
MINILM_WEIGHTS = "random, in MiniLM-L6's exact shape (bench/models/shapes.py, seed 1)"


@lru_cache
def sst2_tiny() -> Checkpoint:
    """The shipped model."""
    return load(DEFAULT_MODEL)


@lru_cache
def minilm(labels: tuple[str, ...] = ()) -> Checkpoint:
    """all-MiniLM-L6-v2's shape with random weights: an encoder whose normalised mean is the answer.

    labels: of a classifier on that mean, which then is not normalised. It takes the tokenizer of the shipped
    model, whose ids are few of its 30522.
    """
    layers, hidden, heads, wide = SHAPES["minilm"]
    sizes = layers, hidden, heads, wide, 30522, 512, 2
    config = BertConfig(*sizes, "gelu", "mean", 1e-12, labels, normalise=not labels)
    return with_random_tensors(config, np.random.default_rng(MINILM_SEED), "MiniLM-L6", sst2_tiny().tokenizer)


def shipped_texts(count: int) -> tuple[str, ...]:
    """So many of the package's calibration sentences, spread evenly over the file."""
    texts = load_texts()
    return tuple(texts[at * len(texts) // count] for at in range(count))


@lru_cache
def sst2_plan(scheme: str) -> Plan:
    """The shipped model as `tacita plan` plans it: 128 tokens, and for a batch 256 texts."""
    return _plan(sst2_tiny(), scheme, tokens=TOKENS)


@lru_cache
def minilm_plan(scheme: str) -> Plan:
    """The same of MiniLM-L6's shape.

    A batch has a classifier at the end: of an answer of 384 numbers at 128 tokens the frozen code makes no
    plan, because its two copies fill whole ciphertexts and leave the check alone in another one, which
    `CellMap.gather` then does not make.
    """
    model = minilm() if scheme == "thor" else minilm(("negative", "positive"))
    return _plan(model, scheme, tokens=TOKENS, texts=shipped_texts(MINILM_TEXTS))


def dashformer_plan(data: Path, scheme: str) -> Plan:
    """Makes the plan of `python -m bench dashformer`: sequences 257 to 456 calibrate, the others
    are the inputs."""
    with tempfile.TemporaryDirectory() as folder:
        made = convert(data, Path(folder) / "dashformer")
        model, examples = load(made), read_examples(made / SEQUENCES)
    measured, calibrating = split(examples)
    texts = [text for text, _ in calibrating]
    return _plan(model, scheme, inputs=len(measured), tokens=DASHFORMER_TOKENS, texts=texts)


def _plan(model: Checkpoint, scheme: str, **how: Any) -> Plan:
    """how: beside the shipped prices and, of a batch, 256 texts."""
    usual: dict[str, Any] = {"preset": PRESET, "prices": shipped_prices(RING)}
    usual["inputs"] = None if scheme == "thor" else BATCH
    plan = api.plan(model, scheme=scheme, **usual | how)
    assert isinstance(plan, Plan)  # of a scheme with requests
    return plan


def prices_facts() -> Facts:
    """The price table by which seconds are predicted, and its hash: those by another one do not compare."""
    package, *names = PRICES
    content = resources.files(package).joinpath(*names).read_bytes()
    prices = shipped_prices(RING)
    said = {"machine": prices.machine, "threads": prices.threads, "source": prices.source}
    return {**said, "table": "/".join(PRICES), "sha256": hashlib.sha256(content).hexdigest()}


def plan_facts(plan: Plan) -> Facts:
    """What a plan states: the question, the stages in their order, the prediction."""
    prediction = plan.prediction
    rows = zip(plan.stages, prediction.stage_seconds, prediction.stage_bytes, strict=True)
    return {
        "model": _model_facts(plan),
        "asked": {"scheme": plan.scheme, "tokens": plan.tokens, "preset": plan.parameters.preset},
        "batch": plan.batch,
        "lanes": plan.lanes,
        "rotation_keys": len(plan.rotations),
        "request": _file_facts(plan.request),
        "response": _file_facts(plan.response),
        "stages": [_stage_facts(stage, seconds, size) for stage, seconds, size in rows],
        "seconds": {step: _rounded(seconds) for step, seconds in prediction.seconds.items()},
        "bytes": dict(prediction.bytes),
        "decimals": plan.decimals,
        "noise": plan.noise,
        "error": {"bound": prediction.error.bound, "texts": prediction.error.texts},
    }


def _model_facts(plan: Plan) -> Facts:
    kept = "name", "layers", "hidden", "heads", "intermediate", "activation", "pooling", "normalise"
    facts = {name: getattr(plan.model, name) for name in kept}
    return facts | {"labels": len(plan.model.labels)}


def _file_facts(tensors: Sequence[TensorInfo]) -> Facts:
    levels = {tensor.name: tensor.level for tensor in tensors}
    return {"ciphertexts": sum(tensor.count for tensor in tensors), "levels_each": levels}


def _stage_facts(stage: PlacedStage, seconds: float, size: int) -> Facts:
    return {
        "name": stage.name,
        "bootstraps": list(stage.bootstraps),
        "kinds": list(stage.kinds),
        "levels_in": dict(stage.levels),
        "levels_out": dict(stage.out_levels),
        "counts": dict(stage.counts),
        "seconds": _rounded(seconds),
        "bytes": size,
    }


def circuit_logits(scheme: str, texts: Sequence[str], backend: str) -> list[list[float]]:
    """The shipped model's circuit on `plain` or `sim` (seed 0), not rounded.

    Rows take one run a text, the others one batch for all of them.
    """
    plan, ran = sst2_plan(scheme), Ran()
    for group in [[text] for text in texts] if plan.batch == 1 else [list(texts)]:
        ask(unrounded(plan), sst2_tiny(), [Group(group)], Machine(backend), ran)
    return [_floats(logits) for logits in ran.logits]


def float_logits(texts: Sequence[str]) -> list[list[float]]:
    """The shipped model in float64."""
    model = sst2_tiny()
    return [_floats(reference(model, *embed(model, text, TOKENS)).logits) for text in texts]


@lru_cache
def sst2_two_party() -> TwoPartyPlan:
    """The shipped model at 128 tokens, as `tacita serve` plans it."""
    return api.plan(sst2_tiny(), scheme="bumblebee", tokens=TOKENS)


@lru_cache
def minilm_two_party() -> TwoPartyPlan:
    """At 128 tokens."""
    return api.plan(minilm(), scheme="bumblebee", tokens=TOKENS, texts=shipped_texts(MINILM_TEXTS))


def fixed_logits(texts: Sequence[str]) -> tuple[list[list[float]], int]:
    """The shipped model in the two-party mode's fixed-point numbers, and how many values left their ring."""
    found, overflows = by_interpreter(sst2_two_party(), sst2_tiny(), list(texts))
    return [_floats(logits) for logits in found], overflows


def two_party_facts(plan: TwoPartyPlan) -> Facts:
    """What was asked, and what `tacita estimate --scheme bumblebee` would say of one text."""
    links = {"one machine": None, **LINKS}
    estimate = {
        "bytes": plan.predicted_bytes(),
        "transfers": plan.program.cost().transfers,
        "seconds": {name: _rounded(plan.predicted_seconds(link)) for name, link in links.items()},
    }
    asked = {"tokens": plan.tokens, "embeddings": plan.embeddings, "correlations": plan.correlations}
    return {"model": plan.name, "asked": asked, "formats": asdict(plan.formats), "estimate": estimate}


def session(plan: TwoPartyPlan, model: Checkpoint, texts: Sequence[str]) -> Facts:
    """A whole session of both parties in this process: counters of phases, and of operations at both ends."""
    phases: list[Facts] = []
    with ThreadPoolExecutor(1) as pool, pair(600.0) as parties, tempfile.TemporaryDirectory() as cache:
        server = api.TwoPartyServer(plan, model)
        serving = pool.submit(server.session, parties[1])
        client = api.TwoPartyClient(parties[0], PublicCache(Path(cache)))
        phases.append(_counters(parties[0]))
        for text in texts:
            client.classify(text)
            phases.append(_counters(parties[0]))
        client.end()
        if problem := serving.result().problem:
            raise problem
        operations = {name: _operations(party) for name, party in zip(ENDS, parties, strict=True)}
        rounds = {"server_rounds": _counters(parties[1])["rounds"]}
        transfers = {word: int(n) for word, n in parties[0].native.cots().items()}
    names = ["greeting", *(f"text {at + 1}" for at in range(len(texts)))]
    before = [dict.fromkeys(phases[0], 0), *phases[:-1]]
    spent = {name: _less(*two) for name, *two in zip(names, phases, before, strict=True)}
    return {"phases": spent, "whole": phases[-1] | rounds, "transfers": transfers, "operations": operations}


def _counters(party: Party) -> Facts:
    return {name: int(value) for name, value in party.cost.items()}


def _operations(party: Party) -> Facts:
    kept = "calls", "sent", "received", "rounds"
    return {row["path"]: {name: int(row[name]) for name in kept} for row in party.profile()}


def _less(after: Facts, before: Facts) -> Facts:
    return {name: value - before[name] for name, value in after.items()}


def _rounded(seconds: float) -> float:
    """To 9 digits: the order in which operations are added up differs from run to run."""
    return float(f"{seconds:.9g}")


def _floats(values: Any) -> list[float]:
    return [float(value) for value in values]
