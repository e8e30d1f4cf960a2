"""`tacita decrypt`: response.ct into labels and rounded logits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tacita.cli.asked import numbers, status_of, summary_of
from tacita.cli.console import err, out, shown
from tacita.cli.options import (
    PUBLIC_DEFAULT,
    WORK_DEFAULT,
    Insecure,
    Json,
    Pair,
    Public,
    ShowAnyway,
    Work,
    option,
)
from tacita.cli.steps.encrypt import fitting, one_text
from tacita.cli.steps.step import step
from tacita.client import Answer, Client
from tacita.errors import InputError
from tacita.texts.embed import Text
from tacita.texts.generation import Chosen

SHOWN = 16  # numbers of an answer

Count = Annotated[
    int | None,
    option("--count", help="Texts in the request (default: all places of its batch).", min=1),
]
Given = Annotated[
    list[str] | None,
    option("--text", help="The text that was encrypted (of a pair both, with --pair)."),
]
GivenFile = Annotated[Path | None, option("--file", help="The file of texts that was encrypted.")]


def run(
    public: Public = PUBLIC_DEFAULT,
    work: Work = WORK_DEFAULT,
    count: Count = None,
    text: Given = None,
    file: GivenFile = None,
    pair: Pair = False,
    json: Json = None,
    show_anyway: ShowAnyway = False,
    allow_insecure: Insecure = False,
) -> None:
    """Decrypt the answers, check them, round them. An answer that fails its checks is not shown: in its place
    stands a warning, in JSON null, and the exit status is 2.

    An answer about tokens (`tag`, `answer`, `fill`) is told by the text that was encrypted, which no file of
    a run holds: give it again.
    """
    if text and file:
        raise InputError("decrypt: --text and --file", hint="one of the two: what was encrypted")
    with step("decrypt", json) as timed:
        client = Client(public, work, allow_insecure=allow_insecure)
        answers = client.decrypt_batch(count, _given(client, text or [], file, pair=pair))
        answers = [answer.anyway for answer in answers] if show_anyway else answers
        timed.fields |= answers[0].to_json()
        timed.fields["answers"] = [answer.to_json() for answer in answers]
    for number, answer in enumerate(answers, 1):
        place = f"{number}: " if client.plan.batch > 1 else ""
        _show(answer, place)
    if status := status_of(answers):
        raise typer.Exit(status)


def _given(client: Client, texts: Sequence[str], file: Path | None, *, pair: bool) -> list[Text]:
    """The texts that were encrypted, as `tacita encrypt` took them."""
    if file is not None:
        return [line.text for line in fitting(client, file, pair=pair) if not line.problem]
    one = one_text(texts, pair=pair)
    return [] if one is None else [one]


def _show(answer: Answer, place: str) -> None:
    what, which = ("answer", "first") if answer.label is None else ("label", "logits")
    logits = (
        "" if answer.empty or isinstance(answer, Chosen) else f"   {which}: {numbers(answer.logits, SHOWN)}"
    )
    out.print(f"{place}{what}: {summary_of(answer)}{logits}", soft_wrap=True)
    for warning in answer.warnings:
        err.print(f"[yellow]warning:[/yellow] {place}{shown(warning)}", soft_wrap=True)
