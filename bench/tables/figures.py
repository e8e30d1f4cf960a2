"""Writes the first tables of docs/benchmarks.md from the JSON files of `python -m bench engine` and
`tacita demo`.

    python -m bench figures --engine engine.json --demo demo.json [--accuracy accuracy.json]

Of several engine files the first is the one that all other figures go with; those after it, made under
TACITA_SIMD=avx2 and scalar, are compared with it. Replaces the lines between the two markers in
docs/benchmarks.md. `make figures` measures and calls this.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from bench.options import markdown
from bench.tables import pages
from tacita.cli.options import option
from tacita.resources import processor

OPERATIONS = {  # field of the report -> name, how many Y were asked
    "ntt": ("NTT, one limb", 0.18),
    "rotate": ("rotate, 12 limbs", 15),
    "mul_relin": ("multiply, relinearise, 12 limbs", 14),
    "rescale": ("rescale, 12 limbs", None),
}
BOOTSTRAPS = "bootstrap, 32768 complex slots"
BOOTSTRAP, SHARE = 3000, 0.6  # Y of one thread; of that with two threads


def figures(
    engine: Annotated[list[Path], option("--engine", help="Of `bench engine --json`; may be several.")],
    demo: Annotated[Path, option("--demo", help="Of `tacita demo --json`.")],
    accuracy: Annotated[Path | None, option("--accuracy", help="Of `tacita accuracy --json`.")] = None,
) -> None:
    """Write the first tables of docs/benchmarks.md from measured files."""
    first, *others = (json.loads(path.read_text()) for path in engine)
    answers = json.loads(accuracy.read_text()) if accuracy else None
    lines = [
        *table(first, json.loads(demo.read_text()), answers),
        *(paths([first, *others]) if others else ()),
    ]
    pages.write(pages.DOCS / "benchmarks.md", "figures", lines)


def table(
    engine: Mapping[str, Any], demo: Mapping[str, Any], accuracy: Mapping[str, Any] | None
) -> Iterator[str]:
    """Markdown lines."""
    y, boot = engine["yardstick_ms"], engine["bootstrap"]
    yield f"Machine: {processor().name}, {demo['threads']} cores; kernels {engine['simd']}; Y = {y:.2f} ms.\n"
    yield from markdown(("engine, one thread, N = 2^16", "ms", "Y", "asked for"), _speeds(engine))
    yield ""
    yield from _moved(engine["memory"])
    yield (
        f"Bootstrapping: {boot['bits_average']:.1f} bits average, {boot['bits_worst']:.1f} worst, "
        f"{boot['levels_left']} levels left below 2^{boot['log_scale']:.0f}, log2 QP {boot['log_qp']:.0f}, "
        f"keys {boot['keys_gb']:.1f} GB; two ciphertexts on two threads take "
        f"{boot['two_ciphertexts_ratio_one_thread']:.2f} times one on one.\n"
    )
    yield from _demo(demo)
    if accuracy is not None:
        yield (
            f"\nAccuracy on {accuracy['sentences']} validation sentences ({accuracy['backend']}): "
            f"{100 * accuracy['accuracy']:.1f} %, float model {100 * accuracy['reference_accuracy']:.1f} %, "
            f"same label {100 * accuracy['agreement']:.1f} %, largest error of a logit "
            f"{accuracy['max_abs_error']:.4f}."
        )


def _speeds(engine: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    y, boot = engine["yardstick_ms"], engine["bootstrap"]
    for op, (name, limit) in OPERATIONS.items():
        ms = engine[f"{op}_ms"]
        yield name, f"{ms:.2f}", f"{ms / y:.2f}", _asked(ms / y, limit)
    one, both = 1e3 * boot["seconds"], 1e3 * boot["seconds_all_threads"]
    yield BOOTSTRAPS, f"{one:.0f}", f"{one / y:.0f}", _asked(one / y, BOOTSTRAP)
    share = f"{SHARE} of one thread's time; {both / one:.2f}"
    yield f"the same on {boot['all_threads']} threads", f"{both:.0f}", f"{both / y:.0f}", share


def _asked(got: float, limit: float | None) -> str:
    if limit is None:
        return ""
    return f"{limit:,} Y" + (": missed" if got > limit else "")


def _moved(memory: Mapping[str, Any]) -> Iterator[str]:
    yield f"A large copy moves {memory['copy_gb_per_second']:.0f} GB/s on one thread.\n"
    rows = memory["operations"]
    moved = (f"{row['bytes'] / 1e6:,.0f} MB" for row in rows.values())
    shares = (f"{100 * row['share_of_copy']:.0f} %" for row in rows.values())
    yield from markdown(
        ("one thread", *rows), (("moved, counted", *moved), ("of a copy's bandwidth", *shares))
    )
    yield ""


def paths(engines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The same operations by the kernels of each run, in ms and in that run's Y."""
    times = {name: [engine[f"{op}_ms"] for engine in engines] for op, (name, _) in OPERATIONS.items()}
    times[BOOTSTRAPS] = [1e3 * engine["bootstrap"]["seconds"] for engine in engines]
    rows = (
        (
            name,
            *(
                f"{_digits(ms)} ms, {_digits(ms / e['yardstick_ms'])} Y"
                for ms, e in zip(row, engines, strict=True)
            ),
        )
        for name, row in times.items()
    )
    yield ""
    yield from markdown(("N = 2^16, one thread, kernels", *(engine["simd"] for engine in engines)), rows)


def _digits(value: float) -> str:
    """Three that count, or all before the point."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _demo(demo: Mapping[str, Any]) -> Iterator[str]:
    p, sizes = demo["parameters"], demo["bytes"]
    seconds = demo["seconds"] | demo["results"][0]["seconds"]  # of the first sentence
    peaks = demo["peak_rss_gb_by_step"]
    client = max(peaks[step] for step in ("keygen", "encrypt", "decrypt"))
    cells = {
        f"one sentence, {p['security_bits']} bits": "cold",
        **{step: f"{seconds[step]:.1f} s" for step in ("plan", "keygen", "encrypt", "evaluate", "decrypt")},
        "bootstraps": str(demo["bootstraps"]),
        "keys": f"{sizes['evaluation_keys'] / 1e9:.2f} GB",
        "request, response": f"{sizes['request'] / 1e6:.1f} MB, {sizes['response'] / 1e6:.1f} MB",
        "memory, server, client": f"{peaks['evaluate']:.1f} GB, {client:.1f} GB",
        "error": f"{max(r['max_abs_error'] for r in demo['results']):.4f}",
    }
    yield from markdown(list(cells), [list(cells.values())])
