"""Predicted seconds per input of every stage of a batch, beside MOAI's and ARION's measured ones (ARION,
Table VII)."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

import bench_on_path  # noqa: F401

from bench.models.shapes import SHAPES, normal_inputs, random_model
from tacita.planning.pipeline import make_plan
from tacita.planning.request import PlanRequest
from tacita.plans.plan import Plan
from tacita.plans.prices.cost import Prices

# seconds per input at 256 inputs of 128 tokens on 64 threads, as printed: (MOAI, ARION), None where not given
TABLE_7 = {
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


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--shape", choices=sorted(SHAPES), default="bert-base")
    options.add_argument("--layers", type=int, help="fewer than the model has, for a quick look")
    options.add_argument("--tokens", type=int, default=128)
    options.add_argument("--scheme", choices=("arion", "moai"), default="arion")
    options.add_argument("--json", type=Path)
    args = options.parse_args()
    model = random_model(args.shape, layers=args.layers)
    prices = Prices.shipped(16)
    assert prices is not None
    samples = normal_inputs(model, args.tokens, 2)
    request = PlanRequest(prices=prices, tokens=args.tokens, scheme=args.scheme, hidden_states=samples)
    plan = make_plan(model, request)
    report = describe_plan(plan, prices, TABLE_7.get(args.shape, {}))
    text = json.dumps(report, indent=1)
    print(text)
    if args.json:
        args.json.write_text(text)


def describe_plan(
    plan: Plan, prices: Prices, beside: dict[str, tuple[float | None, float | None]]
) -> dict[str, object]:
    """Seconds per input by stage and by kind of work, memory, bootstraps."""
    kinds: Counter[str] = Counter()
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


if __name__ == "__main__":
    main()
