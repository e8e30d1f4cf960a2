"""What a plan predicts of a batch that nobody runs here, or of one text, stage by stage, beside MOAI's and
ARION's measured seconds (ARION, Table VII); and of a token of published decoders on kept rows. Weights are
random, of calibrated scale, and nothing is encrypted.

Layers in the middle of a model are alike, so that a few of them say what all take: `of_all_layers` is the one
before the last, times the layers of the shape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Annotated

import numpy as np

from bench.models.shapes import SHAPES, normal_inputs, random_model
from bench.options import Layers, WeightFolder, emit, shipped_prices
from bench.runs.two_party.cases.generate import DECODERS, Shape
from bench.runs.two_party.session import Options
from bench.tables import papers
from tacita.cli.options import Json, option
from tacita.errors import InputError
from tacita.packings.lowering import in_slots
from tacita.planning.request import PlanRequest
from tacita.plans.plan import Plan
from tacita.plans.prices.cost import Prices
from tacita.schemes.choose import choose_plan
from tacita.texts.embed import arranged, embedded

# Columns of ARION's Table VII: seconds per input at 256 inputs of 128 tokens
COLUMNS = {"bert-tiny": ("ARION, Tiny",), "bert-base": ("MOAI, base", "ARION, base")}
SEQUENCES = 6  # texts of random tokens that a decoder is calibrated on, up to the longest
SIZED = {name: case for name, case in DECODERS.items() if isinstance(case, Shape)}
KINDS = {
    **dict.fromkeys(("select", "attend", "scores", "exp", "weigh"), "attention"),
    "project": "projection",
    **dict.fromkeys(("feed_forward", "expand", "activate", "contract"), "feed-forward"),
}


def batch_estimates(
    shape: Annotated[str, option("--shape", metavar=f"[{'|'.join(SHAPES)}]")] = "bert-base",
    layers: Layers = None,
    tokens: Annotated[int, option("--tokens", help="Of a text.")] = 128,
    scheme: Annotated[str, option("--scheme", help="arion, moai, or thor: of one text.")] = "arion",
    json: Json = None,
) -> None:
    """Predict the seconds per input of every stage of a batch, by kind of work beside ARION's Table VII."""
    model, prices = random_model(shape, layers=layers), shipped_prices()
    samples = normal_inputs(model, tokens, 2)
    request = PlanRequest(prices=prices, tokens=tokens, scheme=scheme, hidden_states=samples)
    plan = choose_plan(model, request).plan
    assert isinstance(plan, Plan)  # by its scheme
    beside = {name: papers.sums("arion", "Table VII,", name) for name in COLUMNS.get(shape, ())}
    middle = middle_layer(plan, prices, model.config.layers - 2, SHAPES[shape][0])
    emit({**describe_plan(plan, prices, beside), "of_all_layers": middle}, json)


def decoder_estimates(
    shape: Annotated[str, option("--shape", metavar=f"[{'|'.join(SIZED)}]")] = "gpt2",
    layers: Annotated[int, option("--layers", help="That are planned.", min=1)] = 3,
    tokens: Annotated[int, option("--tokens", help="Of the whole text.")] = 32,
    whole: Annotated[bool, option("--whole", help="The whole text anew, no rows kept.")] = False,
    folder: WeightFolder = None,
    json: Json = None,
) -> None:
    """Predict the seconds of a token of a decoder on ciphertexts by its first layers: those of the one before
    the last stand for all that are not planned. Of fewer than three it is the first, which no bootstrap may
    precede."""
    if layers > (SIZED[shape].layers if shape in SIZED else 0):
        known = ", ".join(f"{name} ({case.layers} layers)" for name, case in SIZED.items())
        raise InputError(f"bench decoder-estimates: {layers} layers of {shape!r:.40}", hint=known)
    model = in_slots(SIZED[shape].checkpoint(Options(layers=layers, weights=folder)))
    prices = shipped_prices()
    rng = np.random.default_rng(8)
    texts = [rng.integers(0, model.config.vocab, int(n)).tolist() for n in np.linspace(2, tokens, SEQUENCES)]
    states = [arranged(embedded(model, ids, [0] * len(ids)), tokens, backwards=True) for ids in texts]
    request = PlanRequest(prices=prices, tokens=tokens, scheme="thor", hidden_states=states, cache=not whole)
    plan = choose_plan(model, request).plan
    assert isinstance(plan, Plan)  # by its scheme
    times = SIZED[shape].layers - layers
    middle, found = middle_layer(plan, prices, max(layers - 2, 0), 1), describe_plan(plan, prices, {})
    layer = sum(sum(part.values()) - part["bootstraps"] for part in middle.values())
    emit({**found, "layer": layer, "token": sum(plan.prediction.stage_seconds) + times * layer}, json)


def describe_plan(plan: Plan, prices: Prices, beside: Mapping[str, Mapping[str, float]]) -> dict[str, object]:
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
            k: {"ours": s / plan.batch, **{name: column.get(k) for name, column in beside.items()}}
            for k, s in kinds.items()
        },
        "stages": stages,
    }


def middle_layer(plan: Plan, prices: Prices, layer: int, times: int) -> dict[str, dict[str, float]]:
    """Seconds per input of each stage of this layer, and of the bootstraps before it, times so many layers;
    how many bootstraps a request has there. Empty of a layer that is not there."""
    prefix, found = f"layer{layer}.", dict[str, dict[str, float]]()
    for stage, seconds in zip(plan.stages, plan.prediction.stage_seconds, strict=True):
        if stage.name.startswith(prefix):
            refresh = prices.bootstrap_seconds(stage.kinds) if stage.kinds else 0.0
            found[stage.name.removeprefix(prefix)] = {
                "seconds_per_input": times * (seconds - refresh) / plan.batch,
                "seconds_of_bootstraps_per_input": times * refresh / plan.batch,
                "bootstraps": times * len(stage.kinds),
            }
    return found


def _kind(stage: str) -> str:
    name = stage.rpartition(".")[2]
    return KINDS.get(name, "norm" if name[:-1] in ("norm", "variance") else "head")
