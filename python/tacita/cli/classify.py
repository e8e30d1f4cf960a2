"""`tacita classify`: texts in, labels out, on the interpreter of choice."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from tacita import api
from tacita.checkpoint import Checkpoint, load
from tacita.cli.console import progress, write_report
from tacita.cli.decrypt import UNTRUSTED
from tacita.cli.options import (
    MODEL_DEFAULT,
    PRESET_DEFAULT,
    TOKENS_DEFAULT,
    BackendName,
    Insecure,
    Json,
    Model,
    Preset,
    Texts,
    Threads,
    Tokens,
    read_texts,
)
from tacita.cli.report import Classified, run_report, show_results, show_run
from tacita.errors import InputError
from tacita.plan.plan import Plan
from tacita.plan.resources import peak_memory_gb
from tacita.plan.resources import threads as all_threads
from tacita.protocol import engine
from tacita.protocol.files import Workdir, write_text

Keep = Annotated[
    Path | None, typer.Option("--work", help="Keep plan, keys and ciphertexts here (ckks only).", show_default=False)
]
Answerer = Callable[[str], tuple[api.Answer, dict[str, float]]]


def run(
    texts: Annotated[list[str], typer.Argument(metavar="TEXT...", help="Texts to classify.", show_default=False)],
    model: Model = MODEL_DEFAULT,
    backend: Annotated[
        BackendName, typer.Option("--backend", help="plain and sim encrypt nothing.")
    ] = BackendName.ckks,
    tokens: Tokens = TOKENS_DEFAULT,
    preset: Preset = PRESET_DEFAULT,
    calibration: Texts = None,
    threads: Threads = 0,
    work: Keep = None,
    json: Json = None,
    allow_insecure: Insecure = False,
) -> None:
    """Classify texts and show each answer beside the float model's."""
    if not all(text.strip() for text in texts):
        raise InputError("classify: the text is empty", hint="pass at least one word")
    checkpoint = load(model)
    began = time.monotonic()
    with progress("plan") as report:
        plan = api.plan(checkpoint, tokens=tokens, preset=preset, texts=read_texts(calibration), progress=report)
    seconds = {"plan": time.monotonic() - began}
    if backend is BackendName.ckks:
        engine.require_secure(plan.parameters, allow_insecure=allow_insecure)
    with nullcontext(work) if work else tempfile.TemporaryDirectory(prefix="tacita-") as folder:
        files = Workdir(Path(folder))
        write_text(files.plan, plan.to_text()) if work else None
        answerer = _answerer(backend, plan, checkpoint, files, threads, allow_insecure, seconds)
        results = [_classify(plan, checkpoint, text, answerer) for text in texts]
        sizes = {
            path.stem: path.stat().st_size
            for path in (files.evaluation_keys, files.request, files.response)
            if path.exists()
        }
    figures = _figures(plan, results, backend, seconds, sizes, threads or all_threads())
    show_results(results)
    show_run(figures)
    write_report(json, figures)
    if any(result.answer.warnings for result in results):
        raise typer.Exit(UNTRUSTED)


def _classify(plan: Plan, checkpoint: Checkpoint, text: str, answerer: Answerer) -> Classified:
    answer, seconds = answerer(text)
    reference = tuple(float(v) for v in api.reference_logits(plan, checkpoint, text))
    return Classified(text, answer, reference, seconds)


def _answerer(
    backend: BackendName,
    plan: Plan,
    checkpoint: Checkpoint,
    files: Workdir,
    threads: int,
    allow_insecure: bool,
    seconds: dict[str, float],
) -> Answerer:
    if backend is not BackendName.ckks:
        return lambda text: _locally(backend, plan, checkpoint, text)
    client = api.Client(plan, checkpoint, files, allow_insecure=allow_insecure)
    server = api.Server(plan, checkpoint, files, threads=threads, allow_insecure=allow_insecure)
    with progress("keygen") as report:
        seconds["keygen"] = _timed(lambda: client.keygen(report))
    return lambda text: _encrypted(client, server, text)


def _locally(
    backend: BackendName, plan: Plan, checkpoint: Checkpoint, text: str
) -> tuple[api.Answer, dict[str, float]]:
    began = time.monotonic()
    with progress(backend.value) as report:
        answer = api.classify_locally(plan, checkpoint, text, backend=backend.value, progress=report)
    return answer, {"evaluate": time.monotonic() - began}


def _encrypted(client: api.Client, server: api.Server, text: str) -> tuple[api.Answer, dict[str, float]]:
    seconds = {"encrypt": _timed(lambda: client.encrypt(text))}
    with progress("evaluate") as report:
        seconds["evaluate"] = _timed(lambda: server.evaluate(report))
    answers: list[api.Answer] = []
    seconds["decrypt"] = _timed(lambda: answers.append(client.decrypt()))
    return answers[0], seconds


def _timed(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def _figures(
    plan: Plan,
    results: list[Classified],
    backend: BackendName,
    seconds: dict[str, float],
    sizes: dict[str, int],
    threads: int,
) -> dict[str, Any]:
    bytes_found = {"evaluation_keys": sizes.get("evaluation", 0)} | {
        n: sizes.get(n, 0) for n in ("request", "response")
    }
    return run_report(
        plan,
        results,
        backend=backend.value,
        seconds={**seconds, **results[0].seconds},
        sizes=bytes_found,
        peak_rss_gb=peak_memory_gb(),
        threads=threads,
    )
