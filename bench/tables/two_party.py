"""Writes the two-party tables of docs/benchmarks.md and docs/benchmarks/two-party.md from measured JSON.

    python -m bench two-party --json two-party.json
    python -m bench two-party-peer --python DIR/bin/python --json peer.json
    python -m bench two-party-figures --bench two-party.json [--peer peer.json]

Replaces the lines between the markers of both pages: the first has a short table, the second all cases and
columns, and the peer. A case that was not measured has no row; without --peer the peer's table stays.
`make two-party` does the first and last.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from bench.tables import pages
from tacita.cli.options import option

TITLES = {
    "matmul_128_768_768": "(128 x 768) shares times (768 x 768) weights",
    "matmul_1_50257_768": "(1 x 50257) of the client times (50257 x 768) of the server",
    "gelu_65536": "GELU, 2^16 values",
    "softmax_960_180": "softmax, 960 rows of 180",
    "less_65536": "2^16 exact 64-bit comparisons",
    "default_model": "sst2-tiny, 128 tokens",
    "tiny_shape": "2 whole layers, hidden 128, 128 tokens",
    "minilm": "MiniLM-L6, real weights, 128 tokens",
    "bert_base_shape": "BERT-base's shape, random weights, 128 tokens",
}
SHORT = ("matmul_128_768_768", "gelu_65536", "softmax_960_180", "default_model", "minilm", "bert_base_shape")
ASKED = {
    "matmul_128_768_768": "2 CPU-s, 5.0 MB, 0.5 GB",
    "matmul_1_50257_768": "2 CPU-s, 1.4 MB",
    "gelu_65536": "1.5 CPU-s a party, 26 MB, 2e-2",
    "softmax_960_180": "4 CPU-s a party, 150 MB, 1e-2",
    "less_65536": "4 MB",
    "default_model": "10 s, 120 MB, 0.02",
    "minilm": "120 s, 1600 MB",
    "bert_base_shape": "paper: 6400 MB",
}


def two_party_figures(
    bench: Annotated[Path, option("--bench", help="Of `bench two-party --json`.")],
    peer: Annotated[Path | None, option("--peer", help="Of `bench two-party-peer --json`.")] = None,
) -> None:
    """Write the two-party tables of both pages of benchmarks from measured files."""
    report, every = json.loads(bench.read_text()), pages.DOCS / "benchmarks" / "two-party.md"
    pages.write(pages.DOCS / "benchmarks.md", "two-party", short(report))
    pages.write(every, "two-party", ours(report))
    if peer:
        pages.write(every, "peer", beside(json.loads(peer.read_text())))


def short(report: Mapping[str, Any]) -> Iterator[str]:
    """Markdown lines of our own figures: the columns that the first page has."""
    cases = report["cases"]
    yield (
        f"{report['machine']}, {report['cores']} cores, a process a party, {report['transport']} over "
        f"loopback; Y = {report['yardstick_ms']:.2f} ms. LAN: 1 Gbit/s, 0.5 ms; WAN: 400 Mbit/s, 4 ms; "
        "computed, and measured where a second figure stands.\n"
    )
    yield "| case | seconds | MB | rounds | error | LAN, WAN s | asked for |"
    yield "|---|---|---|---|---|---|---|"
    for name in SHORT:
        if name in cases:
            cells = _cells_of(name, cases[name])
            yield f"| {' | '.join(cells[i] for i in (0, 1, 3, 4, 5, 7, 8))} |"
    if "accuracy" in cases:
        f = cases["accuracy"]
        yield (
            f"\nBy the protocol itself {100 * f['protocol_agreement']:.2f} % of {f['protocol_sentences']} "
            f"validation sentences have the label of float, logits within {f['max_abs_error']:.4f}."
        )


def ours(report: Mapping[str, Any]) -> Iterator[str]:
    """Markdown lines of our own figures, all columns."""
    cases = report["cases"]
    yield (
        f"{report['machine']}, {report['cores']} cores; a process a party, {report['threads']} thread(s) "
        "each, "
        f"{report['transport']} over loopback; Y = {report['yardstick_ms']:.2f} ms. MB in both directions. "
        "LAN (1 Gbit/s, 0.5 ms) and "
        "WAN (400 Mbit/s, 4 ms) by bytes and rounds, and measured with the throttled channel where a "
        "second figure stands.\n"
    )
    yield (
        "| case | seconds | CPU s client, server | MB | rounds | error | GB client, server | LAN, WAN s | "
        "asked for |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for name in TITLES:
        if name in cases:
            yield f"| {' | '.join(_cells_of(name, cases[name]))} |"
    if "ferret" in cases:
        f = cases["ferret"]
        yield (
            f"\nCorrelated transfers, as sessions take them: {f['session_cots_per_second'] / 1e6:.1f} "
            "million a second a core at "
            f"{f['bytes_per_cot']:.2f} bytes each "
            "(asked for: 12 million, 0.5 bytes)."
        )
    if "accuracy" in cases:
        yield "\n" + _accuracy(cases["accuracy"])


def beside(report: Mapping[str, Any]) -> Iterator[str]:
    """Markdown lines of the comparison, for rows in which both ran."""
    yield (
        "| same cores, same run, bare TCP | ours: s; CPU s; MB; error | spu 0.9.5 | CPU s, times less | "
        "MB, times less |"
    )
    yield "|---|---|---|---|---|"
    for row in report["rows"]:
        mine, theirs = row["ours"], row["peer"]
        if mine and theirs:
            less = (sum(theirs["cpu_seconds"]) / sum(mine["cpu_seconds"]), _carried(theirs) / _carried(mine))
            title = TITLES.get(row["case"], row["case"]) + (f" ({row['note']})" if row["note"] else "")
            yield f"| {title} | {_cells(mine)} | {_cells(theirs)} | {less[0]:.1f} | {less[1]:.1f} |"


def _cells_of(name: str, f: Mapping[str, Any]) -> list[str]:
    return [
        TITLES[name],
        f"{f['wall_seconds']:.2f}",
        "{:.2f}, {:.2f}".format(*f["cpu_seconds"]),
        f"{f['megabytes']:.2f}",
        str(f["rounds"]),
        f"{f['max_abs_error']:.1e}",
        "{:.2f}, {:.2f}".format(*f["peak_rss_gb"]),
        ", ".join(_link(f, link) for link in ("lan", "wan")),
        ASKED.get(name, "-"),
    ]


def _link(f: Mapping[str, Any], link: str) -> str:
    computed, measured = f.get(f"{link}_seconds"), f.get(f"{link}_measured_seconds")
    return " / ".join(f"{seconds:.1f}" for seconds in (computed, measured) if seconds is not None)


def _accuracy(f: Mapping[str, Any]) -> str:
    return (
        f"Accuracy on {f['sentences']} validation sentences: {100 * f['accuracy']:.2f} % with the "
        "protocol's fixed-point arithmetic, "
        f"{100 * f['reference_accuracy']:.2f} % in float, same label {100 * f['agreement']:.2f} %, logits "
        "within "
        f"{f['fixed_max_abs_error']:.4f}; {f['protocol_sentences']} of them by the protocol itself (padded "
        "to "
        f"32, 64 or 128 tokens): {100 * f['protocol_accuracy']:.2f} %, same label "
        f"{100 * f['protocol_agreement']:.2f} %, "
        f"logits within {f['max_abs_error']:.4f} of float."
    )


def _cells(f: Mapping[str, Any]) -> str:
    client, server = f["cpu_seconds"]
    return f"{f['wall_seconds']:.2f}; {client:.2f}, {server:.2f}; {_carried(f):.2f}; {f['max_abs_error']:.1e}"


def _carried(f: Mapping[str, Any]) -> float:
    """Megabytes that went over the loopback device, headers of TCP and IP included."""
    return float(f.get("loopback_megabytes", f["megabytes"]))
