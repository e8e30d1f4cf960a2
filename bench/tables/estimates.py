"""What plans predict of models that nobody runs here: `batch-estimates`, every stage of a batch beside MOAI's
and ARION's measured seconds (ARION, Table VII); `decoder-estimates`, a token of published decoders on
ciphertexts.

Weights are random, of calibrated scale, and nothing is encrypted. Of a decoder two layers are planned, the
first of which computes every row and the second one query (`blocks.sequence.latest`), with the first 4,096
words. A token of the whole model, of which each asks anew with the whole text, is then the first layer as
often as there are layers but one, the second, and the answer as often as words have such blocks. `kept` is
what a token would take if keys and values stayed at the server: the second layer as often as there are
layers, and the answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

from bench.models.shapes import SHAPES, normal_inputs, random_model
from bench.options import Layers, emit, shipped_prices
from bench.runs.two_party.cases.case import Options
from bench.runs.two_party.cases.decoders import GPT2, LLAMA, SMOL
from bench.runs.two_party.cases.generate import Shape
from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.cli.options import Json, option
from tacita.errors import InputError
from tacita.packings.lowering import in_slots
from tacita.planning.pipeline import make_plan
from tacita.planning.request import PlanRequest
from tacita.plans.plan import Plan
from tacita.plans.prices.cost import Prices
from tacita.texts.embed import arranged, embedded

# seconds per input at 256 inputs of 128 tokens on 64 threads, as printed: (MOAI, ARION), None where not given
TABLE_7: dict[str, dict[str, tuple[float | None, float | None]]] = {
    "bert-tiny": {
        "attention": (None, 1.67),
        "projection": (None, 0.03),
        "norm": (None, 0.10),
        "feed-forward": (None, 0.57),
        "bootstraps": (None, 6.93),
        "total": (None, 9.30),
    },
    "bert-base": {
        "attention": (132.4, 46.50),
        "projection": (1.7, 5.20),
        "norm": (1.2, 0.84),
        "feed-forward": (54.5, 39.39),
        "bootstraps": (384.8, 132.80),
        "total": (574.6, 224.91),
    },
}
KINDS = {
    "attend": "attention",
    "select": "attention",
    "scores": "attention",
    "exp": "attention",
    "weigh": "attention",
    "project": "projection",
    "forward": "feed-forward",
    "expand": "feed-forward",
    "activate": "feed-forward",
    "contract": "feed-forward",
}


def batch_estimates(
    shape: Annotated[str, option("--shape", metavar=f"[{'|'.join(SHAPES)}]")] = "bert-base",
    layers: Layers = None,
    tokens: Annotated[int, option("--tokens", help="Of a text.")] = 128,
    scheme: Annotated[str, option("--scheme", help="arion or moai.")] = "arion",
    json: Json = None,
) -> None:
    """Predict the seconds per input of every stage of a batch, by kind of work beside ARION's Table VII."""
    model, prices = random_model(shape, layers=layers), shipped_prices()
    samples = normal_inputs(model, tokens, 2)
    plan = make_plan(model, PlanRequest(prices=prices, tokens=tokens, scheme=scheme, hidden_states=samples))
    emit(describe_plan(plan, prices, TABLE_7.get(shape, {})), json)


def describe_plan(
    plan: Plan, prices: Prices, beside: Mapping[str, tuple[float | None, float | None]]
) -> dict[str, object]:
    """Seconds per input by stage and by kind of work, memory, bootstraps."""
    kinds: defaultdict[str, float] = defaultdict(float)
    stages = []
    for stage, seconds in zip(plan.stages, plan.prediction.stage_seconds, strict=True):
        refresh = prices.bootstrap_seconds(stage.kinds) if stage.kinds else 0.0
        kinds["bootstraps"] += refresh
        kinds[_kind(stage.name)] += seconds - refresh
        stages.append(
            {"name": stage.name, "seconds_per_input": seconds / plan.batch, "bootstraps": len(stage.kinds)}
        )
    kinds["total"] = sum(plan.prediction.stage_seconds)
    return {
        "model": plan.model.name,
        "layers": plan.model.layers,
        "tokens": plan.tokens,
        "batch": plan.batch,
        "machine": f"{prices.machine}, {prices.threads} threads",
        "bootstraps": plan.bootstraps,
        "gigabytes": {name: size / 1e9 for name, size in plan.prediction.bytes.items()},
        "seconds_per_input": {
            k: {"ours": s / plan.batch, "moai_arion": beside.get(k)} for k, s in kinds.items()
        },
        "stages": stages,
    }


def _kind(stage: str) -> str:
    name = stage.rpartition(".")[2]
    return KINDS.get(name, "norm" if name[:-1] in ("norm", "variance") else "head")


DECODERS: dict[str, dict[str, Any]] = {
    "gpt2": {
        "family": "gpt2",
        "layers": 12,
        "words": 50257,
        "sizes": GPT2,
    },
    "smollm2": {
        "family": "llama",
        "layers": 30,
        "words": 49152,
        "sizes": SMOL,
    },
    "llama-3-8b": {
        "family": "llama",
        "layers": 32,
        "words": 128256,
        "sizes": {"hidden": 4096, "heads": 32, "shared": 4, "intermediate": 14336, "base": 5e5, **LLAMA},
    },
}
WORDS, SEQUENCES = 4096, 6


def decoder_estimates(
    shape: Annotated[str, option("--shape", metavar=f"[{'|'.join(DECODERS)}]")],
    tokens: Annotated[int, option("--tokens", help="Of the whole text.")] = 32,
    layers: Annotated[int, option("--layers", help="1: the second alone.", min=1, max=2)] = 2,
    json: Json = None,
) -> None:
    """Plan the seconds of a token of a published decoder on ciphertexts, from two random layers."""
    if shape not in DECODERS:
        raise InputError(f"bench: no decoder {shape!r:.40}", hint=", ".join(DECODERS))
    found = figures(planned(model_of(DECODERS[shape], layers), tokens), DECODERS[shape])
    emit(found, json)


def model_of(shape: dict[str, Any], layers: int) -> Checkpoint:
    """Random weights of calibrated scale."""
    sizes = {"layers": layers, "vocab": WORDS, **shape["sizes"]}
    return Shape("decoder", shape["family"], **sizes).checkpoint(Options())


def planned(model: Checkpoint, tokens: int) -> Plan:
    """Plans scheme thor on random texts of all lengths."""
    rng = np.random.default_rng(8)
    texts = [rng.integers(0, WORDS, length) for length in np.linspace(2, tokens, SEQUENCES).astype(int)]
    states = [
        arranged(embedded(model, ids.tolist(), [0] * len(ids)), tokens, backwards=True) for ids in texts
    ]
    found = api.plan(
        in_slots(model), scheme="thor", tokens=tokens, hidden_states=states, prices=shipped_prices()
    )
    assert isinstance(found, Plan)  # of a scheme on ciphertexts
    return found


def figures(plan: Plan, shape: dict[str, Any]) -> dict[str, Any]:
    """Sums seconds by part of the model, and says those of a token of the whole one."""
    seconds = dict(zip([s.name for s in plan.stages], plan.prediction.stage_seconds, strict=True))
    last = f"layer{plan.model.layers - 1}."
    parts = {"layer": 0.0, "last": 0.0, "answer": 0.0}
    for name, value in seconds.items():
        kind = "last" if name.startswith(last) else "layer" if name.startswith("layer") else "answer"
        parts[kind] += value
    blocks = -(-shape["words"] // WORDS)
    answered = parts["last"] + blocks * parts["answer"]
    return {
        **parts,
        "token": (shape["layers"] - 1) * parts["layer"] + answered if parts["layer"] else None,
        "kept": (shape["layers"] - 1) * parts["last"] + answered,
        "bootstraps": plan.bootstraps,
        "stages": seconds,
    }
