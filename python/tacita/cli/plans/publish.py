"""`tacita publish`: a plan, and the folder that clients get; the server's own files stay in its work
folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacita import api
from tacita.cli.console import duration, out, shown, size
from tacita.cli.options import (
    MODEL_DEFAULT,
    PRESET_DEFAULT,
    PUBLIC_DEFAULT,
    TOKENS_DEFAULT,
    VARIANT_DEFAULT,
    WORK_DEFAULT,
    Goal,
    Inputs,
    Json,
    Model,
    Packing,
    Pooling,
    Preset,
    Prices,
    Scheme,
    Texts,
    Tokens,
    Variant,
    Work,
    load_model,
    read_prices,
    read_texts,
)
from tacita.cli.plans.making import planned
from tacita.cli.plans.population import told
from tacita.cli.steps.step import opened, step
from tacita.plans.commitment import salt_beside
from tacita.plans.plan import Plan
from tacita.protocol.files import Workdir
from tacita.protocol.plan_files import save

Output = Annotated[
    Path, typer.Option("--output", help="Folder to publish: all that a client needs, no weights.")
]
Again = Annotated[
    bool,
    typer.Option(
        "--planned", help="Publish the plan that --work has, in place of making one.", show_default=False
    ),
]


def run(
    output: Output = PUBLIC_DEFAULT,
    model: Model = MODEL_DEFAULT,
    pooling: Pooling = None,
    scheme: Scheme = None,
    packing: Packing = None,
    inputs: Inputs = None,
    objective: Goal = None,
    tokens: Tokens = TOKENS_DEFAULT,
    preset: Preset = PRESET_DEFAULT,
    functions: Variant = VARIANT_DEFAULT,
    texts: Texts = None,
    prices: Prices = None,
    work: Work = WORK_DEFAULT,
    planned_before: Again = False,
    json: Json = None,
) -> None:
    """Make a plan and the folder that clients get: plan, tokenizer, embedding, labels. No weights of the
    encoder."""
    with step("publish", json) as timed:
        if planned_before:
            plan, checkpoint, _ = opened(work, model)
        else:
            checkpoint = load_model(model, pooling)
            plan = planned(
                checkpoint,
                tokens=tokens,
                preset=preset,
                functions=functions,
                scheme=scheme,
                packing=packing,
                inputs=inputs,
                objective=objective,
                texts=read_texts(texts),
                prices=read_prices(prices),
                salt=salt_beside(Workdir(work).plan),
            )
            save(plan, Workdir(work).plan)
        whole = api.publish(plan, checkpoint, output)
        timed.fields |= {"plan_hash": plan.hash, "public_hash": whole, "scheme": plan.scheme}
        timed.fields["bytes"] = {"public": sum(path.stat().st_size for path in output.iterdir())}
    _tell(plan, output, Workdir(work), whole, timed.seconds)


def _tell(plan: Plan, output: Path, work: Workdir, whole: str, seconds: float) -> None:
    written = size(sum(path.stat().st_size for path in output.iterdir()))
    what = "plan, tokenizer, embedding" if plan.model.embeddings else "plan"
    out.print(f"publish: {shown(str(output))} ({what}; {written}) in {duration(seconds)}", soft_wrap=True)
    out.print(f"sha256 {whole}", soft_wrap=True)
    out.print(f"for the server alone: {shown(f'{work.plan}, {work.salt}')}", soft_wrap=True)
    for line in told(plan):
        out.print(line, soft_wrap=True)
