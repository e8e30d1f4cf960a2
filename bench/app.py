"""Registers the benches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from bench import elsewhere
from bench.kernels import engine, gemm, leaf
from bench.models import convert, nanoguard_reference, pictures, prompts
from bench.runs import batch, dashformer, one
from bench.runs.service import command as service
from bench.runs.two_party import command as two_party
from bench.runs.two_party import generate

COMMANDS: dict[str, Callable[..., Any]] = {
    "batch": batch.batch,
    "convert": convert.convert,
    "convert-dashformer": dashformer.convert_dashformer,
    "dashformer": batch.dashformer,
    "dashformer-functions": dashformer.dashformer_functions,
    "engine": engine.engine,
    "family-vectors": elsewhere.family_vectors,
    "gemm": gemm.gemm,
    "generate": generate.generate,
    "leaf": leaf.leaf,
    "nanoguard": nanoguard_reference.nanoguard,
    "nanoguard-vectors": nanoguard_reference.nanoguard_vectors,
    "one": one.one,
    "photo-crops": pictures.photo_crops,
    "prompts": prompts.write_prompts,
    "service": service.service,
    "two-party": two_party.two_party,
}
app = typer.Typer(
    help="Measure this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, command in COMMANDS.items():
    app.command(name)(command)
