"""The steps that pass files. A client's: `tacita keygen` makes its keys, `tacita encrypt` turns a text or a
pair, a file of these, or hidden states into request.ct, and `tacita decrypt` response.ct into labels and
rounded logits. The server's: `tacita evaluate`, from request.ct to response.ct without a secret."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from tacita.api import Server
from tacita.checkpoint import Checkpoint
from tacita.cli.columns import Line, admitted, checked, in_pairs, read_lines, read_pairs
from tacita.cli.console import INCOMPLETE, MESSAGE, duration, err, progress, say, shown, size, warn
from tacita.cli.options import (
    PUBLIC_DEFAULT,
    WORK_DEFAULT,
    Json,
    Pair,
    Public,
    TextFile,
    load_model,
    option,
    taking,
)
from tacita.cli.report import numbers, status_of, step, summary_of
from tacita.client import Answer, Client
from tacita.errors import InputError
from tacita.evaluate.session import Usage
from tacita.plans.files import Workdir, require
from tacita.plans.plan import Plan
from tacita.progress import Progress
from tacita.settings import Settings
from tacita.texts.embed import Text
from tacita.texts.embedding import Embedder
from tacita.texts.generation import Chosen

SHOWN = 16  # numbers of an answer
HiddenStates = Annotated[
    Path | None,
    option("--hidden-states", help="A .npy array (tokens, hidden) instead of a text."),
]
Count = Annotated[
    int | None,
    option("--count", help="Texts in the request (default: all places of its batch).", min=1),
]
Given = Annotated[
    list[str] | None,
    option("--text", help="The text that was encrypted (of a pair both, with --pair)."),
]
GivenFile = Annotated[Path | None, option("--file", help="The file of texts that was encrypted.")]


@taking({"run": ("work", "allow_insecure")})
def keygen(settings: Settings, public: Public = PUBLIC_DEFAULT, json: Json = None) -> None:
    """Make secret.key (stays here, mode 0600) and evaluation.keys (for the server)."""
    with step("keygen", json) as timed, progress("keygen") as report:
        folder = work_folder(settings)
        Client(public, folder, allow_insecure=settings.run.allow_insecure).keygen(report)
        timed.fields["bytes"] = {"evaluation_keys": folder.evaluation_keys.stat().st_size}
    written = size(timed.fields["bytes"]["evaluation_keys"])
    made = shown(f"{folder.secret_key}, {folder.evaluation_keys}")
    say(f"keygen: {made} ({written}) in {duration(timed.seconds)}")


def work_folder(settings: Settings) -> Workdir:
    """Returns the folder of a step's files."""
    return Workdir(settings.run.work or WORK_DEFAULT)


@taking({"run": ("work", "allow_insecure")})
def encrypt(
    settings: Settings,
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TEXT]", help="The text, or with --pair two.", show_default=False),
    ] = None,
    file: TextFile = None,
    pair: Pair = False,
    hidden_states: HiddenStates = None,
    public: Public = PUBLIC_DEFAULT,
    json: Json = None,
) -> None:
    """Tokenise, embed, pack and encrypt; the lengths of the texts are encrypted too."""
    one = one_text(text or [], pair=pair)
    if sum(given is not None for given in (one, file, hidden_states)) != 1:
        raise InputError(
            "encrypt: give a text, a --file of texts or --hidden-states", hint="exactly one of the three"
        )
    bad: list[Line] = []
    with step("encrypt", json) as timed:
        folder = work_folder(settings)
        client = Client(public, folder, allow_insecure=settings.run.allow_insecure)
        if file is not None:
            good, bad = admitted(_front(client), client.plan.tokens, _read(file, pair=pair), file)
            client.encrypt_batch([line.text for line in good])
            timed.fields["lines"] = [line.number for line in good]
        else:
            client.encrypt(one, hidden_states=read_states(hidden_states) if hidden_states else None)
        written = folder.request.stat().st_size
        timed.fields["bytes"] = {"request": written}
    say(f"encrypt: {shown(str(folder.request))} ({size(written)}) in {duration(timed.seconds)}")
    if bad:
        raise typer.Exit(INCOMPLETE)


def one_text(texts: Sequence[str], *, pair: bool) -> Text | None:
    """The text or the pair of a command line, if any. Raises InputError for more."""
    if len(texts) > (2 if pair else 1):
        raise InputError(f"{len(texts)} texts", hint="one, two with --pair, or a --file of many")
    pairs = [line.text for line in in_pairs(texts)] if pair else list(texts)
    return pairs[0] if pairs else None


def _read(file: Path, *, pair: bool) -> list[Line]:
    return read_pairs(file) if pair else read_lines(file)


def _front(client: Client) -> Embedder:
    """Returns the embedding of the client's model. Raises InputError for a model without a tokenizer."""
    if client.public.front is None:
        raise InputError(
            "encrypt: the model starts from hidden states", hint="pass --hidden-states in place of --file"
        )
    return client.public.front


def read_states(path: Path) -> npt.NDArray[np.float64]:
    """A .npy file of finite floats; pickled objects are refused."""
    try:
        return np.asarray(np.load(path, allow_pickle=False), dtype=np.float64)
    except (OSError, ValueError, TypeError, EOFError, MemoryError) as error:
        raise InputError(
            f"{path}: not an array of hidden states ({error})", hint="save it with numpy.save"
        ) from error


@taking({"run": ("work", "show_anyway", "allow_insecure")})
def decrypt(
    settings: Settings,
    public: Public = PUBLIC_DEFAULT,
    count: Count = None,
    text: Given = None,
    file: GivenFile = None,
    pair: Pair = False,
    json: Json = None,
) -> None:
    """Decrypt the answers, check them, round them. An answer that fails its checks is not shown: in its place
    stands a warning, in JSON null, and the exit status is 2.

    An answer about tokens (`tag`, `answer`, `fill`) is told by the text that was encrypted, which no file of
    a run holds: give it again.
    """
    if text and file:
        raise InputError("decrypt: --text and --file", hint="one of the two: what was encrypted")
    with step("decrypt", json) as timed:
        client = Client(public, work_folder(settings), allow_insecure=settings.run.allow_insecure)
        answers = client.decrypt_batch(count, _texts(client, text or [], file, pair=pair))
        answers = [answer.anyway for answer in answers] if settings.run.show_anyway else answers
        timed.fields |= answers[0].to_json()
        timed.fields["answers"] = [answer.to_json() for answer in answers]
    for number, answer in enumerate(answers, 1):
        place = f"{number}: " if client.plan.batch > 1 else ""
        _show_answer(answer, place)
    if status := status_of(answers):
        raise typer.Exit(status)


def _texts(client: Client, texts: Sequence[str], file: Path | None, *, pair: bool) -> list[Text]:
    if file is not None:
        lines = checked(_front(client), _read(file, pair=pair), client.plan.tokens)
        return [line.text for line in lines if not line.problem]
    one = one_text(texts, pair=pair)
    return [] if one is None else [one]


def _show_answer(answer: Answer, place: str) -> None:
    what, which = ("answer", "first") if answer.label is None else ("label", "logits")
    logits = (
        "" if answer.empty or isinstance(answer, Chosen) else f"   {which}: {numbers(answer.logits, SHOWN)}"
    )
    say(f"{place}{what}: {summary_of(answer)}{logits}")
    for warning in answer.warnings:
        warn(f"{place}{shown(warning)}")


# `tacita evaluate`: the server's step, from request.ct to response.ct without a secret.

Resume = Annotated[
    bool, typer.Option("--resume/--no-resume", help="Go on where a killed run stood, and leave such points.")
]


@taking({"plan": ("model", "documents"), "run": ("work", "threads", "device", "memory", "allow_insecure")})
def evaluate(settings: Settings, resume: Resume = True, json: Json = None) -> None:
    """Run the model on the ciphertexts."""
    run, passed = settings.run, list[Progress]()
    with step("evaluate", json) as timed, progress("evaluate") as report:
        folder = work_folder(settings)
        plan, checkpoint = open_plan(settings, folder)
        how: dict[str, Any] = {"threads": run.threads, "memory": run.memory, "device": run.device}
        server = Server(plan, checkpoint, folder, allow_insecure=run.allow_insecure, resume=resume, **how)
        memory, spilled = server.forecast()
        disk = f", and {size(spilled)} on disk for ciphertexts that do not fit" if spilled else ""
        say(f"evaluate: up to {size(memory)} of memory{disk}")

        def watch(now: Progress) -> None:
            passed.append(now)
            report(now)

        written = server.evaluate(watch, _notice).stat().st_size
        predicted = zip(plan.stages, plan.prediction.stage_seconds, strict=True)
        timed.fields |= {"bytes": {"response": written}, "threads": server.threads}
        timed.fields |= {"bootstraps": plan.bootstraps, **usage_fields(server.usage)}
        timed.fields["predicted_stage_seconds"] = {stage.name: seconds for stage, seconds in predicted}
        # of a resumed run those of its own stages; bootstraps are part of the stage that they precede
        timed.fields["stage_seconds"] = {a.stage: b.seconds - a.seconds for a, b in pairwise(passed)}
    say(f"evaluate: {shown(str(folder.response))} ({size(written)}) in {duration(timed.seconds)}")


def _notice(line: str) -> None:
    err.print(f"evaluate: {shown(line, MESSAGE)}", soft_wrap=True)


def open_plan(settings: Settings, folder: Workdir) -> tuple[Plan, Checkpoint]:
    """Returns plan and checkpoint of a step; hidden-state models load without embeddings."""
    plan = Plan.load(require(folder.plan, "plan"))
    tables = plan.model.embeddings is not None
    return plan, load_model(settings.plan, plan.model.pooling, embeddings=tables)


def usage_fields(usage: Usage) -> dict[str, float]:
    """Fields of a report: GB of ciphertexts in memory, of files on disk at most, written and read; stages
    skipped."""
    return {
        "ciphertext_gb": usage.ciphertexts,
        "spill_gb": usage.disk,
        "spill_written_gb": usage.written,
        "spill_read_gb": usage.read,
        "resumed_stages": usage.resumed,
    }
