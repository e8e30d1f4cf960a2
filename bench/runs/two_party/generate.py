"""`python -m bench generate`: a text that two processes write, one core a party: the prompt, and a token
behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bench.options import Begin
from bench.runs.two_party import LINKS, measure_case, summary
from bench.runs.two_party.bench import Settings, cases
from bench.runs.two_party.command import LinkName, Links, Tls, show_operations, shown_machine, steps_shown
from tacita.cli.console import out, progress, reporting, several
from tacita.cli.options import Json, option
from tacita.errors import InputError

WORLD = "bench.runs.two_party.cases.decoders"
FOLDER = "generate"  # the case of a model's folder; the others are shapes


def generate(
    model: Annotated[Path | None, option("--model", help="Folder of a decoder, or a GGUF file.")] = None,
    shape: Annotated[
        str | None,
        option(
            "--shape",
            metavar="[gpt2-tiny|gpt2|smollm2|smollm2-layer|llama-7b-layer]",
            help="In its place: these sizes with random weights.",
        ),
    ] = None,
    prompt_tokens: Annotated[int, typer.Option("--prompt-tokens", help="Of the prompt.", min=1)] = 32,
    new_tokens: Annotated[int, typer.Option("--new-tokens", help="To be written behind it.", min=1)] = 4,
    begin: Begin = "",
    json: Json = None,
    link: Links = None,
    tls: Tls = True,
    profile: Annotated[bool, typer.Option("--profile", help="Also show what every operation took.")] = False,
) -> None:
    """Measure a text that two parties write: seconds, CPU seconds, traffic and rounds of the prompt and of a
    token, and agreement with the float model."""
    if (model is None) == (shape is None):
        raise InputError("bench generate: which model?", hint="--model DIR, or --shape NAME")
    how = Settings(tls=tls, model=model, world=WORLD, prompt=prompt_tokens, new=new_tokens, begin=begin)
    name, links = shape or FOLDER, [LINKS[one.value] for one in link or [LinkName.loopback]]
    if shape and shape not in cases(how):
        raise InputError(f"bench generate: shape {shape!r}", hint=", ".join(set(cases(how)) - {FOLDER}))
    with progress(name) as show:
        found = measure_case(name, links, how, steps_shown(show))
    report = summary(how) | {"link": links[0].name, "prompt_tokens": prompt_tokens, "case": name} | found
    with reporting(json, report):
        shown_machine(report)
        _show(report, prompt_tokens)
        if profile:
            show_operations(name, report["operations"])


def _show(report: dict[str, Any], prompt: int) -> None:
    rows = [(f"prompt of {several(prompt, 'token')}", report["prefill"]), ("a token", report["token"])]
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
