"""The figures of a run as JSON fields and as a table; the same names in every command that reports a run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from tacita.api import Answer
from tacita.cli.console import duration, out, several, size
from tacita.errors import FileError
from tacita.plan.plan import Plan
from tacita.plan.scheme import scheme_of

STEPS = ("plan", "keygen", "encrypt", "evaluate", "decrypt")


@dataclasses.dataclass(frozen=True)
class Classified:
    """One text with its encrypted (or plain, or simulated) answer beside the float model's.

    seconds: of the steps of its request, which the texts of a batch share. line: in the file, from 1. request: from 1.
    """

    text: str
    answer: Answer
    reference: tuple[float, ...]
    seconds: Mapping[str, float]
    line: int = 1
    request: int = 1

    @property
    def max_abs_error(self) -> float:
        """Largest distance between an answer's logit and the float model's."""
        return max(abs(a - b) for a, b in zip(self.answer.logits, self.reference, strict=True))

    @property
    def agrees(self) -> bool:
        """Whether the largest logit is the float model's."""
        return _largest(self.answer.logits) == _largest(self.reference)

    def to_json(self) -> dict[str, Any]:
        """The fields of one result."""
        return {
            "line": self.line,
            "request": self.request,
            "text": self.text,
            "label": self.answer.label,
            "logits": list(self.answer.logits),
            "reference_logits": list(self.reference),
            "max_abs_error": self.max_abs_error,
            "seconds": dict(self.seconds),
            "warnings": list(self.answer.warnings),
        }


def run_report(
    plan: Plan,
    results: Sequence[Classified],
    *,
    backend: str,
    seconds: Mapping[str, float],
    sizes: Mapping[str, int],
    peak_rss_gb: float,
    threads: int,
) -> dict[str, Any]:
    """The report of a whole run: the first result's fields on top, all results below `results`.

    seconds: of the first request. wall_seconds: encrypt, evaluate and decrypt of all requests.
    """
    requests = {result.request: sum(result.seconds.values()) for result in results}
    return {
        **results[0].to_json(),
        "backend": backend,
        "scheme": scheme_of(plan),
        "tokens": plan.tokens,
        "inputs": len(results),
        "requests": len(requests),
        "texts_per_request": plan.batch,
        "wall_seconds": sum(requests.values()),
        "seconds_per_input": sum(requests.values()) / len(results),
        "agreement": sum(result.agrees for result in results) / len(results),
        "max_abs_error": max(result.max_abs_error for result in results),
        "plan_hash": plan.hash,
        "seconds": {step: float(seconds.get(step, 0.0)) for step in STEPS},
        "bytes": {name: int(sizes.get(name, 0)) for name in ("evaluation_keys", "request", "response")},
        "peak_rss_gb": peak_rss_gb,
        "parameters": parameters(plan),
        "bootstraps": plan.bootstraps,
        "threads": threads,
        "results": [result.to_json() for result in results],
    }


def parameters(plan: Plan) -> dict[str, Any]:
    """The parameters that a reader needs to judge the security of a run."""
    p = plan.parameters
    return {
        "preset": p.preset,
        "log_n": p.log_n,
        "log_qp": p.log_qp,
        "security_bits": p.security_bits,
        "secret": p.secret,
        "failure_log2": p.failure_log2,
    }


def show_results(results: Sequence[Classified]) -> None:
    """Label and logits beside the float model's, one text per row, warnings below."""
    table = Table("text", "label", "logits", "float model", "error")
    for result in results:
        logits, reference = _numbers(result.answer.logits), _numbers(result.reference)
        table.add_row(_short(result.text), result.answer.label or "-", logits, reference, f"{result.max_abs_error:.4f}")
    out.print(table)
    for result in results:
        for warning in result.answer.warnings:
            out.print(f"[yellow]warning:[/yellow] {_short(result.text)}: {warning}", soft_wrap=True)


def show_lines(results: Sequence[Classified]) -> None:
    """One line for each line of the file: number, label, logits, warnings."""
    for result in results:
        warnings = "".join(f"   [yellow]warning:[/yellow] {warning}" for warning in result.answer.warnings)
        label = escape(result.answer.label or "-")
        out.print(f"{result.line}: {label}   {_numbers(result.answer.logits)}{warnings}", soft_wrap=True)


def show_run(report: Mapping[str, Any]) -> None:
    """Time, memory and bytes of a run."""
    table = Table(show_header=False, box=None)
    for step, seconds in report["seconds"].items():
        table.add_row(step, duration(seconds))
    for name, count in report["bytes"].items():
        table.add_row(name.replace("_", " "), size(count))
    if report["inputs"] > 1:
        share = f"{report['seconds_per_input']:.2f} s a text, {several(report['requests'], 'request')} of up to "
        table.add_row("all texts", f"{duration(report['wall_seconds'])}, {share}{report['texts_per_request']}")
    table.add_row("peak memory", f"{report['peak_rss_gb']:.2f} GB")
    table.add_row("security", security_line(report["parameters"]))
    table.add_row("bootstraps", f"{report['bootstraps']} on {report['threads']} threads")
    out.print(table)


def security_line(p: Mapping[str, Any]) -> str:
    """One line: bits, ring, modulus, secret, failure."""
    ring = f"N = 2^{p['log_n']}, log2 QP = {p['log_qp']:.0f}, {p['secret']}"
    return f"{p['security_bits']} bits ({ring}; failure <= 2^{p['failure_log2']:.0f})"


def read_report(path: Path) -> dict[str, Any]:
    """A JSON report that another step of the same run wrote."""
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: not a report ({error})", hint="did the step finish?") from error


def _largest(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def _numbers(values: Sequence[float]) -> str:
    shown = " ".join(f"{value:+.3f}" for value in values[:4])
    return shown + (" ..." if len(values) > 4 else "")


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
