"""`tacita decrypt`: response.ct into labels and rounded logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from tacita.cli.answers import label_of, numbers
from tacita.cli.console import err, out, shown
from tacita.cli.options import PUBLIC_DEFAULT, WORK_DEFAULT, Insecure, Json, Public, Work, option
from tacita.cli.steps.step import step
from tacita.client import Answer, Client

UNTRUSTED = 1  # exit status when a decoded result must not be trusted
SHOWN = 16  # numbers of an answer

Count = Annotated[
    int | None,
    option("--count", help="Texts in the request (default: all places of its batch).", min=1),
]


def run(
    public: Public = PUBLIC_DEFAULT,
    work: Work = WORK_DEFAULT,
    count: Count = None,
    json: Json = None,
    allow_insecure: Insecure = False,
) -> None:
    """Decrypt the answers, check them, round them."""
    with step("decrypt", json) as timed:
        client = Client(public, work, allow_insecure=allow_insecure)
        answers = client.decrypt_batch(count)
        timed.fields |= to_json(answers[0])
        timed.fields["answers"] = [to_json(answer) for answer in answers]
    for number, answer in enumerate(answers, 1):
        place = f"{number}: " if client.plan.batch > 1 else ""
        _show(answer, place)
    if any(answer.warnings for answer in answers):
        raise typer.Exit(UNTRUSTED)


def to_json(answer: Answer) -> dict[str, str | Sequence[float] | Sequence[str] | None]:
    """The fields of one answer."""
    return {"label": answer.label, "logits": list(answer.logits), "warnings": list(answer.warnings)}


def _show(answer: Answer, place: str) -> None:
    what = "vector" if answer.label is None else "label"
    label, logits = label_of(answer.label, answer.logits), numbers(answer.logits, SHOWN)
    out.print(
        f"{place}{what}: {label}   {'first' if answer.label is None else 'logits'}: {logits}", soft_wrap=True
    )
    for warning in answer.warnings:
        err.print(f"[yellow]warning:[/yellow] {place}{shown(warning)}", soft_wrap=True)
