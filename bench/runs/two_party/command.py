"""`python -m bench two-party` and `generate`: each case run by two processes over a link of this machine, one
core a party."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table

from bench.options import Begin, WeightFolder
from bench.runs.two_party.cases import models, pieces
from bench.runs.two_party.cases.accuracy import Accuracy
from bench.runs.two_party.cases.case import Case
from bench.runs.two_party.cases.generate import DECODERS
from bench.runs.two_party.cases.search import Search
from bench.runs.two_party.measure import measure_case, summary, sums_by_name
from bench.runs.two_party.session import LOOPBACK, Options
from bench.tables.two_party import COLUMNS
from tacita.cli.console import err, out, progress, reporting, several, shown, write_report
from tacita.cli.options import Json, option
from tacita.errors import InputError
from tacita.progress import Progress

CASES: dict[str, Case] = {
    case.name: case
    for case in (
        pieces.ShareTimesWeights(),
        *(pieces.ShareTimesWeights(*shape) for shape in pieces.TIMED),
        pieces.PrivateTimesPrivate(),
        pieces.PrivateEmbedding(),
        *pieces.ACTIVATIONS,
        *(pieces.Products(count) for count in (1 << 15, 1 << 20)),
        pieces.Softmax(),
        pieces.Less(),
        pieces.Ferret(),
        models.DefaultModel(),
        models.MiniLm(),
        *models.RANDOM_SHAPES,
        Accuracy(),
        Search(),
    )
}
FOLDER = "generate"  # the decoder of a model's folder; the others are shapes
STEPS = ("set-up", "warm-up", "run")
WIDTH = 100  # columns that a table needs at least, also where the output is no terminal
DEPTH = 3  # operations inside operations that --profile shows; the JSON has all
LINK_HELP = (
    "loopback, lan (1 Gbit/s, 0.5 ms), wan (400 Mbit/s, 4 ms), far (100 Mbit/s, 80 ms), or MBIT,MS: loopback "
    "with the choices of such a link; several: each is run (default: loopback)."
)
Cases = Annotated[list[str] | None, option("--case", help="May be given several times (default: all).")]
Links = Annotated[list[str] | None, option("--link", help=LINK_HELP)]
Tls = Annotated[bool, option("--tls/--plain", help="TLS 1.3, or bare TCP.")]
ModelFolder = Annotated[Path | None, option("--model", help="Folder of MiniLM-L6 for the case minilm.")]
Data = Annotated[Path | None, option("--data", help="SST-2's validation.tsv, for accuracy and search.")]
Documents = Annotated[Path | None, option("--documents", help="Index of the case search.")]
SENTENCES = "Of the cases accuracy and search, by the protocol itself; 0: all of them."
Sentences = Annotated[int, option("--sentences", help=SENTENCES, min=0, show_default=True)]
Threads = Annotated[
    int, option("--threads", help="Threads of each party; one is pinned to a core.", min=1, show_default=True)
]
Apart = Annotated[
    bool, option("--prepared", help="Of models: also with products that are made before the text.")
]
Profile = Annotated[bool, option("--profile", help="Also show what every operation took.")]


def two_party(
    case: Cases = None,
    json: Json = None,
    link: Links = None,
    tls: Tls = True,
    model: ModelFolder = None,
    data: Data = None,
    documents: Documents = None,
    sentences: Sentences = 8,
    threads: Threads = 1,
    prepared: Apart = False,
    profile: Profile = False,
) -> None:
    """Measure the two-party mode: time, CPU seconds, traffic, rounds, error and memory of both parties, case
    by case.

    Without --case, cases that cannot run here (no model folder) are left out with a line that says why, and
    the largest shapes are.
    """
    how = Options(model, data, documents, threads, sentences=sentences or None, tls=tls, prepared=prepared)
    links = link or [LOOPBACK]
    if unknown := [name for name in case or () if name not in CASES]:
        raise InputError(f"bench: no case {unknown[0]}", hint="one of " + ", ".join(CASES))
    report = summary(how) | {"link": links[0], "cases": {}}
    skipped: dict[str, str] = {}
    names = case or [name for name, one in CASES.items() if not one.named]
    for name in names:
        try:
            with progress(name) as show:
                report["cases"][name] = measure_case(CASES[name], links, how, _steps_shown(show))
        except InputError as missing:
            if case:
                raise
            skipped[name] = str(missing)
            err.print(f"left out: {shown(str(missing))}", soft_wrap=True)
        else:
            write_report(json, report | {"left_out": skipped})
    alone = report["cases"][names[0]] if len(names) == 1 else {}  # its figures are at the top as well
    with reporting(json, report | {"left_out": skipped} | alone):
        _show_cases(report)
        if profile:
            for name, figures in report["cases"].items():
                _show_operations(name, figures["operations"])


def generate(
    model: Annotated[Path | None, option("--model", help="Folder of a decoder, or a GGUF file.")] = None,
    shape: Annotated[
        str | None,
        option(
            "--shape",
            metavar=f"[{'|'.join(name for name in DECODERS if name != FOLDER)}]",
            help="In its place: these sizes with random weights.",
        ),
    ] = None,
    folder: WeightFolder = None,
    layers: Annotated[int, option("--layers", help="Of a shape; 0: as many as it has.", min=0)] = 0,
    prompt_tokens: Annotated[
        int, option("--prompt-tokens", help="Of the prompt.", min=1, show_default=True)
    ] = 32,
    new_tokens: Annotated[
        int, option("--new-tokens", help="To be written behind it.", min=1, show_default=True)
    ] = 4,
    begin: Begin = "",
    threads: Threads = 1,
    json: Json = None,
    link: Links = None,
    tls: Tls = True,
    profile: Profile = False,
) -> None:
    """Measure a text that two parties write: seconds, CPU seconds, traffic and rounds of the prompt and of a
    token, and agreement with the float model."""
    if (model is None) == (shape is None):
        raise InputError("bench generate: which model?", hint="--model DIR, or --shape NAME")
    if shape is None and (folder or layers):
        raise InputError("bench generate: --folder and --layers are of a shape", hint="--shape NAME")
    how = Options(tls=tls, model=model, threads=threads, prompt=prompt_tokens, new=new_tokens, begin=begin)
    how = replace(how, weights=folder and folder.absolute(), layers=layers)
    name, links = shape or FOLDER, link or [LOOPBACK]
    if shape and shape not in DECODERS:
        raise InputError(f"bench generate: shape {shape!r}", hint=", ".join(set(DECODERS) - {FOLDER}))
    with progress(name) as show:
        found = measure_case(DECODERS[name], links, how, _steps_shown(show))
    report = summary(how) | {"link": links[0], "prompt_tokens": prompt_tokens, "case": name} | found
    with reporting(json, report):
        _show_machine(report)
        _show_generated(report, prompt_tokens)
        if profile:
            _show_operations(name, report["operations"])


def _steps_shown(show: Callable[[Progress], None]) -> Callable[[str, str, float], None]:
    """Draws the client's steps."""
    began = time.monotonic()

    def watch(role: str, stage: str, done: float) -> None:
        if role != "client":
            return
        spent = time.monotonic() - began
        left = spent * (1.0 - done) / done if done > 0 else 0.0
        show(
            Progress(stage, STEPS.index(stage) if stage in STEPS else len(STEPS) - 1, len(STEPS), spent, left)
        )

    return watch


def _show_cases(report: dict[str, Any]) -> None:
    _show_machine(report)
    table = Table("case", *COLUMNS, box=None, pad_edge=False)
    for name, figures in report["cases"].items():
        table.add_row(name, *(cell(figures) for cell in COLUMNS.values()))
    _wide(table)
    out.print("LAN, WAN and far: by bytes and rounds / measured.", soft_wrap=True)


def _show_machine(report: dict[str, Any]) -> None:
    """Processor, threads, transport and yardstick."""
    out.print(
        f"{report['machine']}, {report['threads']} thread(s) a party, {report['transport']}, Y = "
        f"{report['yardstick_ms']:.2f} ms",
        soft_wrap=True,
    )


def _wide(table: Table) -> None:
    Console(highlight=False, width=max(out.width, WIDTH)).print(table)


def _show_operations(name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Tables of them, with their seconds, bytes and rounds: by path, and by name."""
    _show_rows(f"{name}, by operation (those inside others are in both):", rows)
    _show_rows(f"{name}, by name, wherever it ran:", sums_by_name(rows))


def _show_rows(title: str, rows: Sequence[dict[str, Any]]) -> None:
    out.print(title, soft_wrap=True)
    columns = ("operation", "calls", "s", "CPU s", "sent MB", "received MB", "rounds")
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        if row["operation"].count("/") >= DEPTH:
            continue
        table.add_row(
            row["operation"],
            str(row["calls"]),
            f"{row['seconds']:.3f}",
            f"{row['client_cpu_seconds']:.3f}/{row['server_cpu_seconds']:.3f}",
            f"{row['sent'] / 1e6:.3f}",
            f"{row['received'] / 1e6:.3f}",
            str(row["rounds"]),
        )
    _wide(table)


def _show_generated(report: dict[str, Any], prompt: int) -> None:
    rows = [(f"prompt of {several(prompt, 'token')}", report["prefill"]), ("a token", report.get("token"))]
    rows += [(f"  of it {part} it is known", report.get(f"token_{part}")) for part in ("before", "after")]
    for title, figures in rows:
        if figures:
            out.print(
                f"{title}: {figures['wall_seconds']:.2f} s, CPU {figures['cpu_seconds'][0]:.2f} s and "
                f"{figures['cpu_seconds'][1]:.2f} s (client, server), {figures['megabytes']:.1f} MB, "
                f"{figures['rounds']:.0f} rounds (mean of {figures['steps']})",
                soft_wrap=True,
            )
    client, server = report["peak_rss_gb"]
    out.print(
        f"tokens as in float: {100 * report['agreement']:.0f} %, KL {report['kl']:.1e}, logits within "
        f"{report['max_abs_error']:.1e}; {client:.2f} GB at the client, {server:.2f} GB at the server",
        soft_wrap=True,
    )
