"""`tacita decrypt`: response.ct into label and rounded logits."""

from __future__ import annotations

import typer

from tacita.api import Client
from tacita.cli.console import err, out
from tacita.cli.options import MODEL_DEFAULT, WORK_DEFAULT, Insecure, Json, Model, Work
from tacita.cli.steps import opened, step

UNTRUSTED = 1  # exit status when the decoded result must not be trusted


def run(
    work: Work = WORK_DEFAULT, model: Model = MODEL_DEFAULT, json: Json = None, allow_insecure: Insecure = False
) -> None:
    """Decrypt the answer, check it, round it."""
    with step("decrypt", json) as timed:
        plan, checkpoint, folder = opened(work, model)
        answer = Client(plan, checkpoint, folder, allow_insecure=allow_insecure).decrypt()
        timed.fields |= {"label": answer.label, "logits": list(answer.logits), "warnings": list(answer.warnings)}
    out.print(
        f"label: {answer.label or '-'}   logits: {' '.join(f'{v:+.3f}' for v in answer.logits[:16])}", soft_wrap=True
    )
    for warning in answer.warnings:
        err.print(f"[yellow]warning:[/yellow] {warning}", soft_wrap=True)
    if answer.warnings:
        raise typer.Exit(UNTRUSTED)
