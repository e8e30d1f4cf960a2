"""`tacita encrypt`: a text or a pair, a file of these, or hidden states into request.ct."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import typer

from tacita.cli.ask.columns import Line, checked, in_pairs, read_lines, read_pairs, report_problems
from tacita.cli.console import INCOMPLETE, duration, out, shown, size
from tacita.cli.options import (
    PUBLIC_DEFAULT,
    WORK_DEFAULT,
    Insecure,
    Json,
    Pair,
    Public,
    TextFile,
    Work,
    option,
)
from tacita.cli.steps.step import step
from tacita.client import Client
from tacita.errors import InputError
from tacita.plans.files import Workdir
from tacita.texts.embed import Text

HiddenStates = Annotated[
    Path | None,
    option("--hidden-states", help="A .npy array (tokens, hidden) instead of a text."),
]


def run(
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TEXT]", help="The text, or with --pair two.", show_default=False),
    ] = None,
    file: TextFile = None,
    pair: Pair = False,
    hidden_states: HiddenStates = None,
    public: Public = PUBLIC_DEFAULT,
    work: Work = WORK_DEFAULT,
    json: Json = None,
    allow_insecure: Insecure = False,
) -> None:
    """Tokenise, embed, pack and encrypt; the lengths of the texts are encrypted too."""
    one = one_text(text or [], pair=pair)
    if sum(given is not None for given in (one, file, hidden_states)) != 1:
        raise InputError(
            "encrypt: give a text, a --file of texts or --hidden-states", hint="exactly one of the three"
        )
    spoiled = False
    with step("encrypt", json) as timed:
        folder = Workdir(work)
        client = Client(public, folder, allow_insecure=allow_insecure)
        if file is not None:
            lines = fitting(client, file, pair=pair)
            spoiled = report_problems(file, lines)
            numbers = [line.number for line in lines if not line.problem]
            client.encrypt_batch([line.text for line in lines if not line.problem])
            timed.fields["lines"] = numbers
        else:
            client.encrypt(one, hidden_states=read_states(hidden_states) if hidden_states else None)
        written = folder.request.stat().st_size
        timed.fields["bytes"] = {"request": written}
    out.print(
        f"encrypt: {shown(str(folder.request))} ({size(written)}) in {duration(timed.seconds)}",
        soft_wrap=True,
    )
    if spoiled:
        raise typer.Exit(INCOMPLETE)


def one_text(texts: Sequence[str], *, pair: bool) -> Text | None:
    """The text or the pair of a command line, if any. Raises InputError for more."""
    if len(texts) > (2 if pair else 1):
        raise InputError(f"{len(texts)} texts", hint="one, two with --pair, or a --file of many")
    found = [line.text for line in in_pairs(texts)] if pair else list(texts)
    return found[0] if found else None


def fitting(client: Client, file: Path, *, pair: bool) -> list[Line]:
    """The lines of a file, those that cannot be encrypted with a problem. Raises InputError for a model
    without a tokenizer."""
    front = client.public.front
    if front is None:
        raise InputError(
            "encrypt: the model starts from hidden states", hint="pass --hidden-states in place of --file"
        )
    return checked(front, read_pairs(file) if pair else read_lines(file), client.plan.tokens)


def read_states(path: Path) -> npt.NDArray[np.float64]:
    """A .npy file of finite floats; pickled objects are refused."""
    try:
        return np.asarray(np.load(path, allow_pickle=False), dtype=np.float64)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            f"{path}: not an array of hidden states ({error})", hint="save it with numpy.save"
        ) from error
