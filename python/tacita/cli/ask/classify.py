"""`tacita classify`: texts in, labels out, on the interpreter of choice."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.cli.ask.lines import Line, checked, read_lines, report_problems
from tacita.cli.asked import Asked, asking
from tacita.cli.console import out, progress, reporting
from tacita.cli.options import BackendName, Insecure, Json, TextFile, Threads, option
from tacita.cli.plans.making import planned
from tacita.cli.report import Classified, run_report, show_lines, show_results, show_run
from tacita.cli.steps.decrypt import UNTRUSTED
from tacita.cli.steps.evaluate import Memory
from tacita.cli.two_party import connect as connection
from tacita.cli.two_party.connection import (
    TIMEOUT_DEFAULT,
    Certificate,
    Key,
    Plain,
    Profile,
    Timeout,
    identity_of,
)
from tacita.errors import InputError
from tacita.plans.two_party.plan import TwoPartyPlan
from tacita.protocol.files import Workdir
from tacita.run.resources import peak_memory_gb
from tacita.run.resources import threads as all_threads
from tacita.schemes.base import AnyPlan, Place, Seconds
from tacita.schemes.loopback import listening
from tacita.schemes.plan_files import save
from tacita.schemes.registry import scheme_of
from tacita.server.session import MEMORY_GB

Keep = Annotated[
    Path | None,
    option("--work", help="Keep plan, keys and ciphertexts here (ckks only)."),
]
Connect = Annotated[
    str | None,
    option(
        "--connect",
        metavar="HOST:PORT",
        help="Ask a `tacita serve` by the two-party protocol; no model folder is needed.",
    ),
]
Trust = Annotated[
    Path | None,
    option("--trust", help="With --connect: PEM file of the server's certificate, or its signer's."),
]
Fingerprint = Annotated[
    str | None,
    option(
        "--fingerprint",
        metavar="SHA256",
        help="With --connect: trust exactly the server whose certificate has this hash.",
    ),
]
Name = Annotated[
    str | None,
    option(
        "--name", help="With --connect and --trust: the name in the server's certificate (default: the host)."
    ),
]
Answerer = Callable[
    [Sequence[str], str], tuple[list[api.Answer], Seconds]
]  # texts of one request, title of its bar


@asking("scheme", "packing", "objective", "tokens", "preset", "functions", "calibration", "link")
def run(
    asked: Asked,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT...]", help="Texts to classify.", show_default=False)
    ] = None,
    file: TextFile = None,
    backend: Annotated[
        BackendName, typer.Option("--backend", help="plain and sim encrypt nothing.")
    ] = BackendName.ckks,
    threads: Threads = 0,
    memory: Memory = MEMORY_GB,
    work: Keep = None,
    json: Json = None,
    allow_insecure: Insecure = False,
    connect: Connect = None,
    trust: Trust = None,
    fingerprint: Fingerprint = None,
    name: Name = None,
    certificate: Certificate = None,
    key: Key = None,
    insecure_plain_tcp: Plain = False,
    timeout: Timeout = TIMEOUT_DEFAULT,
    profile: Profile = False,
) -> None:
    """Classify texts and show each answer beside the float model's; or with a server, by --connect."""
    lines = _lines(texts or [], file)
    if connect is not None:
        identity = identity_of(certificate, key)
        whom = connection.Trusted(trust, fingerprint, name, insecure_plain_tcp)
        how = connection.Connection(connect, whom, identity, timeout, threads, profile)
        return connection.classify(lines, file, how, json)
    checkpoint = asked.load()
    lines = checked(checkpoint, lines, asked.wish.tokens) if file else lines
    spoiled = report_problems(file, lines) if file else False
    if not (good := [line for line in lines if not line.problem]):
        raise typer.Exit(UNTRUSTED)
    began = time.monotonic()
    wish = replace(asked.wish, inputs=len(good) if file or asked.wish.scheme else None)
    plan = planned(checkpoint, wish)
    seconds = {"plan": time.monotonic() - began}
    if isinstance(plan, TwoPartyPlan) and backend is BackendName.ckks:
        with _own_server(plan, checkpoint, threads) as (target, whom):
            how = connection.Connection(target, whom, None, timeout, threads, profile)
            connection.classify(good, file, how, json)
        if spoiled:
            raise typer.Exit(UNTRUSTED)
        return
    with nullcontext(work) if work else tempfile.TemporaryDirectory(prefix="tacita-") as folder:
        place = Place(Path(folder), threads, memory, allow_insecure, bar=progress)
        save(plan, Workdir(Path(folder)).plan) if work else None
        with _answerer(backend, plan, checkpoint, place, seconds) as answerer:
            results = _classify(plan, checkpoint, good, answerer)
        sizes = _sizes(Workdir(Path(folder)))
    figures = run_report(
        plan,
        results,
        backend=backend.value,
        seconds=seconds,
        sizes=sizes,
        peak_rss_gb=peak_memory_gb(),
        threads=threads or all_threads(),
    )
    figures["rejected"] = [{"line": line.number, "error": line.problem} for line in lines if line.problem]
    with reporting(json, figures):
        show_lines(results) if file else show_results(results)
        show_run(figures)
    if spoiled or any(result.answer.warnings for result in results):
        raise typer.Exit(UNTRUSTED)


def _lines(texts: Sequence[str], file: Path | None) -> list[Line]:
    if bool(texts) == (file is not None):
        raise InputError("classify: give texts or a --file of them", hint="exactly one of the two")
    if file is not None:
        return read_lines(file)
    if not all(text.strip() for text in texts):
        raise InputError("classify: the text is empty", hint="pass at least one word")
    return [Line(number, text) for number, text in enumerate(texts, 1)]


def _classify(
    plan: AnyPlan, checkpoint: Checkpoint, lines: Sequence[Line], answerer: Answerer
) -> list[Classified]:
    """The texts, as many a request as the plan holds."""
    groups = [lines[at : at + plan.batch] for at in range(0, len(lines), plan.batch)]
    results: list[Classified] = []
    for index, group in enumerate(groups, 1):
        title = f"request {index} of {len(groups)}, " if len(groups) > 1 else ""
        answers, seconds = answerer([line.text for line in group], title)
        for line, answer in zip(group, answers, strict=True):
            reference = tuple(float(v) for v in api.reference_logits(plan, checkpoint, line.text))
            results.append(Classified(line.text, answer, reference, seconds, line.number, index))
    return results


@contextmanager
def _own_server(
    plan: TwoPartyPlan, checkpoint: Checkpoint, threads: int
) -> Iterator[tuple[str, connection.Trusted]]:
    """A server on this machine, for want of one to connect to, and whom to trust there."""
    with listening(scheme_of(plan.scheme).server(plan, checkpoint), threads) as address:
        target = f"{address.host}:{address.port}"
        out.print(
            f"no --connect: both parties run here; a server of our own listens on {target}, "
            f"certificate SHA-256 {address.fingerprint}",
            soft_wrap=True,
        )
        yield target, connection.Trusted(None, address.fingerprint, None, False)


@contextmanager
def _answerer(
    backend: BackendName, plan: AnyPlan, checkpoint: Checkpoint, place: Place, seconds: Seconds
) -> Iterator[Answerer]:
    """In the clear, or with both sides on this machine; what is done once is added to the seconds."""
    if backend is not BackendName.ckks:
        yield lambda texts, title: _locally(backend, plan, checkpoint, texts, title)
        return
    with scheme_of(plan.scheme).private(plan, checkpoint, place) as private:
        seconds |= private.seconds
        yield private.answer


def _locally(
    backend: BackendName, plan: AnyPlan, checkpoint: Checkpoint, texts: Sequence[str], title: str
) -> tuple[list[api.Answer], Seconds]:
    began = time.monotonic()
    with progress(f"{title}{backend.value}") as report:
        answers = api.classify_batch_locally(plan, checkpoint, texts, backend=backend.value, progress=report)
    return answers, {"evaluate": time.monotonic() - began}


def _sizes(files: Workdir) -> dict[str, int]:
    """Bytes of the files that pass between the parties; 0 where none was made."""
    paths = {"evaluation_keys": files.evaluation_keys, "request": files.request, "response": files.response}
    return {name: path.stat().st_size if path.exists() else 0 for name, path in paths.items()}
