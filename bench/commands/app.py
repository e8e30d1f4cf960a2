"""Registers the benches."""

from __future__ import annotations

import typer

from bench.commands import batch, engine, generate, leaf, one, service, two_party

app = typer.Typer(
    help="Measure this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("batch")(batch.batch)
app.command("dashformer")(batch.dashformer)
app.command("generate")(generate.generate)
app.command("leaf")(leaf.leaf)
app.command("one")(one.one)
app.command("service")(service.service)
app.command("two-party")(two_party.two_party)
app.command("engine")(engine.engine)
app.command("gemm")(engine.gemm)
