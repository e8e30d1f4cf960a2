"""Reports the figures of a run as JSON fields and as a table, by the same names in every command."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.table import Table

from tacita.api import Answer
from tacita.cli.columns import Line
from tacita.cli.console import (
    INCOMPLETE,
    UNTRUSTED,
    duration,
    err,
    out,
    say,
    several,
    show_rows,
    shown,
    size,
    write_report,
)
from tacita.plans.plan import Plan
from tacita.resources import peak_memory_gb
from tacita.schemes.base import AnyPlan
from tacita.schemes.ciphertexts import parameters
from tacita.texts.embed import Text, parts_of

TWO_PARTIES = (
    "128 bits, both parties following the protocol (N = 2^13, log2 QP <= 214, uniform ternary; "
    "LPN n = 2^21, k = 143,360, t = 2048)"
)
STEPS = ("plan", "keygen", "encrypt", "evaluate", "decrypt")


@dataclasses.dataclass(frozen=True)
class Result:
    """A text's answer, and the float model's where that is on this machine.

    request: its number, from 1. seconds: of the steps of that request, which the texts of a batch share.
    cost: bytes and rounds of this text alone, where they are known.
    """

    line: Line
    answer: Answer
    request: int
    seconds: Mapping[str, float]
    reference: tuple[float, ...] = ()
    cost: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def max_abs_error(self) -> float | None:
        """The largest distance between a logit and the float model's; None where no answer is shown."""
        if self.answer.empty:
            return None
        return max(abs(a - b) for a, b in zip(self.answer.logits, self.reference, strict=True))

    @property
    def agrees(self) -> bool:
        """Whether the largest logit is the float model's, for an answer about tokens that of each token;
        False where no answer is shown."""
        if self.answer.empty:
            return False
        rows = self.answer.rows
        return _largest(self.answer.logits, rows) == _largest(self.reference, rows)

    def to_json(self) -> dict[str, Any]:
        """Returns the fields of one result beside the float model's."""
        text = self.line.text
        return {
            "line": self.line.number,
            "request": self.request,
            "text": text if isinstance(text, str) else list(text),
            **self.answer.to_json(),
            "reference_logits": list(self.reference),
            "max_abs_error": self.max_abs_error,
            "seconds": dict(self.seconds),
        }


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a command. model, sha256: the model's name, and its hash where the model is on this
    machine. complete: whether every line has an answer."""

    results: Sequence[Result]
    model: str
    sha256: str
    complete: bool

    def answers(self) -> list[tuple[Line, Answer]]:
        """Returns the answers beside their lines."""
        return [(result.line, result.answer) for result in self.results]

    def end(self) -> None:
        """Ends the command by typer.Exit where its exit status (`cli.app`) is not 0."""
        if status := status_of((result.answer for result in self.results), complete=self.complete):
            raise typer.Exit(status)


@dataclasses.dataclass
class Timed:
    """Seconds of one step and what it adds to its report."""

    seconds: float = 0.0
    fields: dict[str, Any] = dataclasses.field(default_factory=dict)


@contextmanager
def step(name: str, report: Path | None) -> Iterator[Timed]:
    """Times a step and writes its `--json` report on success."""
    timed = Timed()
    began = time.monotonic()
    yield timed
    timed.seconds = time.monotonic() - began
    figures = {
        "step": name,
        "seconds": {name: timed.seconds},
        "peak_rss_gb": peak_memory_gb(),
        **timed.fields,
    }
    write_report(report, figures)


def run_report(
    plan: AnyPlan,
    results: Sequence[Result],
    *,
    backend: str,
    seconds: Mapping[str, float],
    sizes: Mapping[str, int],
    peak_rss_gb: float,
    threads: int,
) -> dict[str, Any]:
    """Returns the report of a whole run: the first result's fields on top, all results below `results`.

    seconds: of what is done once, plan and keygen. In the report they stand beside the sums of the other
    steps over all requests; wall_seconds is the sum of those. parameters and bootstraps are None where
    nothing was encrypted.
    """
    requests = {result.request: result.seconds for result in results}
    sums = {step: sum(one.get(step, 0.0) for one in requests.values()) for step in STEPS} | dict(seconds)
    wall = sum(sum(one.values()) for one in requests.values())
    ciphertexts = plan if isinstance(plan, Plan) and backend == "ckks" else None
    errors = [error for result in results if (error := result.max_abs_error) is not None]
    return {
        **results[0].to_json(),
        "backend": backend,
        "encrypted": ciphertexts is not None,
        "scheme": plan.scheme,
        "tokens": plan.tokens,
        "inputs": len(results),
        "requests": len(requests),
        "texts_per_request": plan.batch,
        "wall_seconds": wall,
        "seconds_per_input": wall / len(results),
        "seconds_per_request": wall / len(requests),
        "agreement": sum(result.agrees for result in results) / len(results),
        "max_abs_error": max(errors, default=None),
        "plan_hash": plan.hash,
        "seconds": {step: float(sums[step]) for step in STEPS},
        "bytes": {name: int(sizes.get(name, 0)) for name in ("evaluation_keys", "request", "response")},
        "peak_rss_gb": peak_rss_gb,
        "parameters": parameters(ciphertexts) if ciphertexts else None,
        "bootstraps": ciphertexts.bootstraps if ciphertexts else None,
        "threads": threads,
        "results": [result.to_json() for result in results],
    }


def show_results(results: Sequence[Result]) -> None:
    """Shows answers and logits beside the float model's, one text per row, warnings below."""
    table = Table("text", "answer", "logits", "float model", "error")
    for result in results:
        answer = result.answer
        logits, reference = numbers(answer.logits), numbers(result.reference)
        error = "" if result.max_abs_error is None else f"{result.max_abs_error:.4f}"
        table.add_row(text_of(result.line.text, 60), summary_of(answer), logits, reference, error)
    out.print(table)
    for result in results:
        for warning in result.answer.warnings:
            say(f"[yellow]warning:[/yellow] {text_of(result.line.text, 60)}: {shown(warning)}")


def show_lines(results: Sequence[Result]) -> None:
    """Shows one line for each line of the file: number, answer, logits, warnings; then says why whole
    requests were lost, if some were."""
    for result in results:
        answer = result.answer
        warnings = "".join(f"   [yellow]warning:[/yellow] {shown(warning)}" for warning in answer.warnings)
        say(f"{result.line.number}: {summary_of(answer)}   {numbers(answer.logits)}{warnings}")
    if lost := lost_requests(results):
        err.print(
            f"[yellow]{several(lost, 'request')} without an answer to trust:[/yellow] one text far outside "
            "the calibrated intervals spoils all that are in its request. Calibrate on texts like yours: "
            "--texts FILE, thousands of lines.",
            soft_wrap=True,
        )


def lost_requests(results: Sequence[Result]) -> int:
    """Counts the requests of several texts of which every answer failed its checks."""
    warned: dict[int, list[bool]] = {}
    for result in results:
        warned.setdefault(result.request, []).append(not result.answer.trusted)
    return sum(len(each) > 1 and all(each) for each in warned.values())


def show_run(report: Mapping[str, Any]) -> None:
    """Shows time, memory and bytes of a run, and what protected it, if anything did."""
    rows = {step: duration(seconds) for step, seconds in report["seconds"].items()}
    if report["encrypted"]:
        rows |= {name.replace("_", " "): size(count) for name, count in report["bytes"].items()}
    if report["inputs"] > 1:
        requests = f"{several(report['requests'], 'request')} of up to {report['texts_per_request']}"
        wall, each = duration(report["wall_seconds"]), f"{report['seconds_per_input']:.2f} s a text"
        rows["all texts"] = f"{wall}, {each}, {requests}"
    rows["peak memory"] = f"{report['peak_rss_gb']:.2f} GB"
    rows["security"] = security_of(report)
    if report["encrypted"]:
        rows["bootstraps"] = f"{report['bootstraps']} a request, on {report['threads']} threads"
    show_rows(rows)


def security_of(report: Mapping[str, Any]) -> str:
    """Describes the security of a run: by its parameters, by two parties, or none in the clear."""
    if report["encrypted"] and report["parameters"] is None:
        return TWO_PARTIES
    if report["parameters"] is None:
        return f"none: {report['backend']} encrypts nothing"
    return security_line(report["parameters"])


def security_line(p: Mapping[str, Any]) -> str:
    """Describes parameters in one line: bits, ring, modulus, secret, failure."""
    ring = f"N = 2^{p['log_n']}, log2 QP = {p['log_qp']:.0f}, {p['secret']}"
    return f"{p['security_bits']} bits ({ring}; failure <= 2^{p['failure_log2']:.0f})"


def _largest(values: Sequence[float], rows: int) -> list[int]:
    places: list[int] = np.reshape(values, (rows, -1)).argmax(axis=1).tolist()
    return places


# How an answer looks on screen: what it says, and the first of its numbers.

FEW = 4  # numbers of an answer that a line has room for
WORDS = 400  # characters of what an answer says


def summary_of(answer: Answer) -> str:
    """Returns the answer's summary, escaped."""
    return shown(answer.summary, WORDS)


def numbers(values: Sequence[float], most: int = FEW) -> str:
    """Writes the first values, signed, to three decimals."""
    first = " ".join(f"{value:+.3f}" for value in values[:most])
    return first + (" ..." if len(values) > most else "")


def brackets(answer: Answer, most: int = 8) -> str:
    """Writes the first logits in brackets, escaped for rich; "" for an answer without any."""
    if not answer.logits:
        return ""
    more = ", ..." if len(answer.logits) > most else ""
    return f"  \\[{', '.join(f'{value:.3f}' for value in answer.logits[:most])}{more}]"


def status_of(answers: Iterable[Answer], *, complete: bool = True) -> int:
    """Returns the exit status (`cli.app`) of a command that gave these answers. complete: whether nothing
    that was asked for was left out."""
    all_answers = list(answers)
    if not all(answer.trusted for answer in all_answers):
        return UNTRUSTED
    return 0 if complete and not any(answer.warnings for answer in all_answers) else INCOMPLETE


def text_of(text: Text, most: int = 200) -> str:
    """Writes a text, or both of a pair, escaped."""
    return shown(" | ".join(parts_of(text)), most)
