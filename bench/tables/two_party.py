"""Writes the two-party tables of docs/benchmarks.md and docs/benchmarks/two-party.md from measured JSON.

    python -m bench two-party --json two-party.json
    python -m bench two-party-figures --bench two-party.json

Replaces the lines between the markers of both pages: the first has a short table, the second all cases and
columns. A case that was not measured has no row. `make two-party` calls both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from bench.options import markdown
from bench.tables import pages
from tacita.cli.options import option

Figures = Mapping[str, Any]
CASES = {  # name -> title, what was asked for
    "matmul_128_768_768": ("(128 x 768) shares times (768 x 768) weights", "2 CPU-s, 5.0 MB, 0.5 GB"),
    "matmul_1_50257_768": ("(1 x 50257) of the client times (50257 x 768) of the server", "2 CPU-s, 1.4 MB"),
    "gelu_65536": ("GELU, 2^16 values", "1.5 CPU-s a party, 26 MB, 2e-2"),
    "gelu_1048576": ("GELU, 2^20 values", "paper: 0.40 GB"),
    "products_32768": ("2^15 products of shares, 64 bits", "paper: 3.61 MB"),
    "products_1048576": ("2^20 products of shares, 64 bits", "paper: 105.93 MB"),
    "softmax_960_180": ("softmax, 960 rows of 180", "4 CPU-s a party, 150 MB, 1e-2"),
    "less_65536": ("2^16 exact 64-bit comparisons", "4 MB"),
    "default_model": ("sst2-tiny, 128 tokens", "10 s, 120 MB, 0.02"),
    "tiny_shape": ("2 whole layers, hidden 128, 128 tokens", "-"),
    "minilm": ("MiniLM-L6, real weights, 128 tokens", "120 s, 1600 MB"),
    "bert_base_shape": ("BERT-base's shape, random weights, 128 tokens", "paper: 6400 MB"),
}
APART = ("before", "after")  # of a text whose products with weights are prepared
COLUMNS: dict[str, Callable[[Figures], str]] = {
    "seconds": lambda f: f"{f['wall_seconds']:.2f}",
    "CPU s client, server": lambda f: "{:.2f}, {:.2f}".format(*f["cpu_seconds"]),
    "MB": lambda f: f"{f['megabytes']:.2f}",
    "rounds": lambda f: str(f["rounds"]),
    "error": lambda f: f"{f['max_abs_error']:.1e}",
    "GB client, server": lambda f: "{:.2f}, {:.2f}".format(*f["peak_rss_gb"]),
    "before + after s": lambda f: " + ".join(f"{f[part]['wall_seconds']:.2f}" for part in APART if part in f),
    "LAN, WAN, far s": lambda f: ", ".join(filter(None, (_link(f, link) for link in ("lan", "wan", "far")))),
}
SHORT = ("matmul_128_768_768", "gelu_65536", "softmax_960_180", "default_model", "minilm", "bert_base_shape")
SHORT_COLUMNS = ("seconds", "before + after s", "MB", "rounds", "error", "LAN, WAN, far s")


def two_party_figures(bench: Annotated[Path, option("--bench", help="Of `bench two-party --json`.")]) -> None:
    """Write the two-party tables of both pages of benchmarks from a measured file."""
    report = json.loads(bench.read_text())
    pages.write(pages.DOCS / "benchmarks.md", "two-party", short(report))
    pages.write(pages.DOCS / "benchmarks" / "two-party.md", "two-party", ours(report))


def short(report: Figures) -> Iterator[str]:
    """Markdown lines of the cases and columns that the first page has."""
    yield (
        f"{report['machine']}, {report['cores']} cores, a process a party, {report['transport']} over "
        f"loopback; Y = {report['yardstick_ms']:.2f} ms. LAN: 1 Gbit/s, 0.5 ms; WAN: 400 Mbit/s, 4 ms; far: "
        "100 Mbit/s, 80 ms; computed, and measured where a second figure stands.\n"
    )
    yield from _table(report["cases"], SHORT, SHORT_COLUMNS)
    if f := report["cases"].get("accuracy"):
        yield (
            f"\nBy the protocol itself {100 * f['protocol_agreement']:.2f} % of {f['protocol_sentences']} "
            f"validation sentences have the label of float, logits within {f['max_abs_error']:.4f}."
        )


def ours(report: Figures) -> Iterator[str]:
    """Markdown lines of all cases and columns."""
    yield (
        f"{report['machine']}, {report['cores']} cores; a process a party, {report['threads']} thread(s) "
        f"each, {report['transport']} over loopback; Y = {report['yardstick_ms']:.2f} ms. MB in both "
        "directions. LAN (1 Gbit/s, 0.5 ms), WAN (400 Mbit/s, 4 ms) and far (100 Mbit/s, 80 ms) by bytes and "
        "rounds, and measured with the throttled channel where a second figure stands.\n"
    )
    yield from _table(report["cases"], CASES, COLUMNS)
    if f := report["cases"].get("ferret"):
        yield (
            f"\nCorrelated transfers, as sessions take them: {f['session_cots_per_second'] / 1e6:.1f} "
            f"million a second a core at {f['bytes_per_cot']:.2f} bytes each (asked for: 12 million, 0.5 "
            "bytes)."
        )
    if f := report["cases"].get("accuracy"):
        yield (
            f"\nAccuracy on {f['sentences']} validation sentences: {100 * f['accuracy']:.2f} % with the "
            f"protocol's fixed-point arithmetic, {100 * f['reference_accuracy']:.2f} % in float, same label "
            f"{100 * f['agreement']:.2f} %, logits within {f['fixed_max_abs_error']:.4f}; "
            f"{f['protocol_sentences']} of them by the protocol itself (padded to 32, 64 or 128 tokens): "
            f"{100 * f['protocol_accuracy']:.2f} %, same label {100 * f['protocol_agreement']:.2f} %, logits "
            f"within {f['max_abs_error']:.4f} of float."
        )


def _table(cases: Mapping[str, Figures], names: Iterable[str], columns: Iterable[str]) -> Iterator[str]:
    """Yields the lines of a table of the cases that were measured."""
    shown, rows = list(columns), []
    for name in names:
        if name in cases:
            title, asked = CASES[name]
            rows.append((title, *(COLUMNS[column](cases[name]) for column in shown), asked))
    return markdown(("case", *shown, "asked for"), rows)


def _link(f: Figures, link: str) -> str:
    """Returns the seconds over a link: computed, and measured."""
    own = f["wall_seconds"] if f.get("link") == link else None
    computed, measured = f.get(f"{link}_seconds"), f.get(f"{link}_measured_seconds", own)
    return " / ".join(f"{seconds:.1f}" for seconds in (computed, measured) if seconds is not None)
