"""Registers the benches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from bench import elsewhere, reproduce
from bench.freeze import command as freeze
from bench.kernels import correlations, engine, leaf, lpn, polynomials
from bench.models import convert, nanoguard_reference, pictures
from bench.runs import adversarial, arion, batch, dashformer, families, margins, one
from bench.runs.service import command as service
from bench.runs.two_party import command as two_party
from bench.runs.two_party import load
from bench.tables import estimates, figures, papers, part_estimates
from bench.tables import families as families_page
from bench.tables import two_party as two_party_figures

COMMANDS: dict[str, Callable[..., Any]] = {
    "adversarial-texts": adversarial.adversarial_texts,
    "arion": arion.arion,
    "batch": batch.batch,
    "batch-estimates": estimates.batch_estimates,
    "convert": convert.convert,
    "correlation-prices": correlations.correlation_prices,
    "dashformer": batch.dashformer,
    "dashformer-functions": dashformer.dashformer_functions,
    "decoder-estimates": estimates.decoder_estimates,
    "engine": engine.engine,
    "families": families.families,
    "families-page": families_page.families_page,
    "family-vectors": elsewhere.family_vectors,
    "figures": figures.figures,
    "freeze": freeze.freeze,
    "generate": two_party.generate,
    "lattice": elsewhere.lattice,
    "leaf": leaf.leaf,
    "lpn-security": lpn.lpn_security,
    "nanoguard": nanoguard_reference.nanoguard,
    "nanoguard-vectors": nanoguard_reference.nanoguard_vectors,
    "noise-margins": margins.noise_margins,
    "one": one.one,
    "paper": papers.paper,
    "part-estimates": part_estimates.part_estimates,
    "photo-crops": pictures.photo_crops,
    "prompts": nanoguard_reference.write_prompts,
    "reproduce": reproduce.reproduce,
    "serve-under-load": load.serve_under_load,
    "service": service.service,
    "silent-errors": margins.silent_errors,
    "two-party": two_party.two_party,
    "two-party-figures": two_party_figures.two_party_figures,
    "two-party-polynomials": polynomials.two_party_polynomials,
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
