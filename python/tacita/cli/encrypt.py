"""`tacita encrypt`: a text, or hidden states, into request.ct."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import typer

from tacita.api import Client
from tacita.cli.console import duration, out, size
from tacita.cli.options import MODEL_DEFAULT, WORK_DEFAULT, Insecure, Json, Model, Work
from tacita.cli.steps import opened, step
from tacita.errors import InputError

HiddenStates = Annotated[
    Path | None,
    typer.Option("--hidden-states", help="A .npy array (tokens, hidden) instead of a text.", show_default=False),
]


def run(
    text: Annotated[str | None, typer.Argument(help="The text to classify.", show_default=False)] = None,
    hidden_states: HiddenStates = None,
    work: Work = WORK_DEFAULT,
    model: Model = MODEL_DEFAULT,
    json: Json = None,
    allow_insecure: Insecure = False,
) -> None:
    """Tokenise, embed, pack and encrypt; the length of the text is encrypted too."""
    with step("encrypt", json) as timed:
        plan, checkpoint, folder = opened(work, model)
        states = read_states(hidden_states) if hidden_states else None
        client = Client(plan, checkpoint, folder, allow_insecure=allow_insecure)
        written = client.encrypt(text, hidden_states=states).stat().st_size
        timed.fields["bytes"] = {"request": written}
    out.print(f"encrypt: {folder.request} ({size(written)}) in {duration(timed.seconds)}", soft_wrap=True)


def read_states(path: Path) -> npt.NDArray[np.float64]:
    """A .npy file of finite floats; pickled objects are refused."""
    try:
        return np.asarray(np.load(path, allow_pickle=False), dtype=np.float64)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: not an array of hidden states ({error})", hint="save it with numpy.save") from error
