"""`tacita classify`: texts in, labels out, on the interpreter of choice."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.cli.ask.lines import Line, checked, read_lines, report_problems
from tacita.cli.console import progress, reporting
from tacita.cli.options import (
    MODEL_DEFAULT,
    PRESET_DEFAULT,
    TOKENS_DEFAULT,
    VARIANT_DEFAULT,
    BackendName,
    Goal,
    Insecure,
    Json,
    Model,
    Packing,
    Pooling,
    Preset,
    Scheme,
    TextFile,
    Texts,
    Threads,
    Tokens,
    Variant,
    load_model,
    read_texts,
)
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
from tacita.plans.plan import Plan
from tacita.protocol import engine
from tacita.protocol.files import Workdir
from tacita.protocol.plan_files import save
from tacita.run.resources import peak_memory_gb
from tacita.run.resources import threads as all_threads
from tacita.server.session import MEMORY_GB

Keep = Annotated[
    Path | None,
    typer.Option("--work", help="Keep plan, keys and ciphertexts here (ckks only).", show_default=False),
]
Connect = Annotated[
    str | None,
    typer.Option(
        "--connect",
        metavar="HOST:PORT",
        help="Ask a `tacita serve` by the two-party protocol; no model folder is needed.",
        show_default=False,
    ),
]
Trust = Annotated[
    Path | None,
    typer.Option(
        "--trust",
        help="With --connect: PEM file of the server's certificate, or its signer's.",
        show_default=False,
    ),
]
Fingerprint = Annotated[
    str | None,
    typer.Option(
        "--fingerprint",
        metavar="SHA256",
        help="With --connect: trust exactly the server whose certificate has this hash.",
        show_default=False,
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        "--name",
        help="With --connect and --trust: the name in the server's certificate (default: the host).",
        show_default=False,
    ),
]
Seconds = dict[str, float]
Answerer = Callable[
    [Sequence[str], str], tuple[list[api.Answer], Seconds]
]  # texts of one request, title of its bar


@dataclass(frozen=True)
class _Limits:
    """Cores and GB of memory for the server, and whether insecure parameters are admitted."""

    threads: int
    memory: float
    allow_insecure: bool


def run(
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT...]", help="Texts to classify.", show_default=False)
    ] = None,
    file: TextFile = None,
    model: Model = MODEL_DEFAULT,
    pooling: Pooling = None,
    backend: Annotated[
        BackendName, typer.Option("--backend", help="plain and sim encrypt nothing.")
    ] = BackendName.ckks,
    scheme: Scheme = None,
    packing: Packing = None,
    objective: Goal = None,
    tokens: Tokens = TOKENS_DEFAULT,
    preset: Preset = PRESET_DEFAULT,
    functions: Variant = VARIANT_DEFAULT,
    calibration: Texts = None,
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
    checkpoint = load_model(model, pooling)
    lines = checked(checkpoint, lines, tokens) if file else lines
    spoiled = report_problems(file, lines) if file else False
    if not (good := [line for line in lines if not line.problem]):
        raise typer.Exit(UNTRUSTED)
    began = time.monotonic()
    plan = planned(
        checkpoint,
        tokens=tokens,
        preset=preset,
        functions=functions,
        scheme=scheme,
        packing=packing,
        inputs=len(good) if file or scheme else None,
        objective=objective,
        texts=read_texts(calibration),
    )
    seconds = {"plan": time.monotonic() - began}
    if backend is BackendName.ckks:
        engine.require_secure(plan.parameters, allow_insecure=allow_insecure)
    with nullcontext(work) if work else tempfile.TemporaryDirectory(prefix="tacita-") as folder:
        files = Workdir(Path(folder))
        save(plan, files.plan) if work else None
        limits = _Limits(threads, memory, allow_insecure)
        answerer = _answerer(backend, plan, checkpoint, files, limits, seconds)
        results = _classify(plan, checkpoint, good, answerer)
        sizes = _sizes(files)
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
    plan: Plan, checkpoint: Checkpoint, lines: Sequence[Line], answerer: Answerer
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


def _answerer(
    backend: BackendName,
    plan: Plan,
    checkpoint: Checkpoint,
    files: Workdir,
    limits: _Limits,
    seconds: Seconds,
) -> Answerer:
    if backend is not BackendName.ckks:
        return lambda texts, title: _locally(backend, plan, checkpoint, texts, title)
    client = api.Client(api.public_of(plan, checkpoint), files, allow_insecure=limits.allow_insecure)
    server = api.Server(
        plan,
        checkpoint,
        files,
        threads=limits.threads,
        memory=limits.memory,
        allow_insecure=limits.allow_insecure,
    )
    with progress("keygen") as report:
        seconds["keygen"] = _timed(lambda: client.keygen(report))
    return lambda texts, title: _encrypted(client, server, texts, title)


def _locally(
    backend: BackendName, plan: Plan, checkpoint: Checkpoint, texts: Sequence[str], title: str
) -> tuple[list[api.Answer], Seconds]:
    began = time.monotonic()
    with progress(f"{title}{backend.value}") as report:
        answers = api.classify_batch_locally(plan, checkpoint, texts, backend=backend.value, progress=report)
    return answers, {"evaluate": time.monotonic() - began}


def _encrypted(
    client: api.Client, server: api.Server, texts: Sequence[str], title: str
) -> tuple[list[api.Answer], Seconds]:
    seconds = {"encrypt": _timed(lambda: client.encrypt_batch(texts))}
    with progress(f"{title}evaluate") as report:
        seconds["evaluate"] = _timed(lambda: server.evaluate(report))
    answers: list[api.Answer] = []
    seconds["decrypt"] = _timed(lambda: answers.extend(client.decrypt_batch(len(texts))))
    return answers, seconds


def _timed(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def _sizes(files: Workdir) -> dict[str, int]:
    """Bytes of the files that pass between the parties; 0 where none was made."""
    paths = {"evaluation_keys": files.evaluation_keys, "request": files.request, "response": files.response}
    return {name: path.stat().st_size if path.exists() else 0 for name, path in paths.items()}
