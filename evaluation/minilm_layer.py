"""One real encrypted layer of a larger model (MiniLM-L6): seconds beside the plan's estimate, and its
error."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from laboratory import Laboratory

from tacita.api import load, plan
from tacita.checkpoint import embed
from tacita.resources import peak_memory_gb

TEXT = "the patient was given the usual dose and slept well until the morning"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--model", type=Path, required=True)
    options.add_argument("--tokens", type=int, default=128)
    options.add_argument("--stop-after", default="layer0.norm2", help="a stage; empty for the whole model")
    options.add_argument("--threads", type=int, default=0)
    options.add_argument("--json", type=Path)
    args = options.parse_args()
    model = load(args.model, pooling="mean")
    made = plan(model, tokens=args.tokens)
    lab = Laboratory(made, model, threads=args.threads)
    request = embed(model, TEXT, args.tokens)
    cold = lab.run(
        *request, stop_after=args.stop_after
    )  # touches its memory first, which the prices leave out
    report = lab.run(*request, stop_after=args.stop_after)
    predicted = dict(zip((s.name for s in made.stages), made.prediction.stage_seconds, strict=True))
    ran = {name: {"seconds": s, "predicted": predicted[name]} for name, s in report.stages.items()}
    found = {
        "model": made.model.name,
        "tokens": args.tokens,
        "threads": lab.be._native.threads,
        "prices": made.prediction.machine,
        "stages": ran,
        "seconds": sum(report.stages.values()),
        "cold_seconds": sum(cold.stages.values()),
        "predicted_seconds": sum(predicted[name] for name in report.stages),
        "layer_mean_abs_error": report.layers,
        "max_abs_error": report.max_abs_error if report.logits.size else None,
        "peak_rss_gb": peak_memory_gb(),
    }
    text = json.dumps(found, indent=1)
    print(text)
    if args.json:
        args.json.write_text(text)


if __name__ == "__main__":
    main()
