"""Registers the benches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from bench import elsewhere
from bench.freeze import command as freeze
from bench.kernels import batch_pieces, correlations, engine, gemm, leaf, lpn, polynomials
from bench.models import convert, nanoguard_reference, pictures
from bench.runs import (
    adversarial,
    arion,
    batch,
    dashformer,
    decoders,
    families,
    images,
    layers,
    margins,
    neighbours,
    one,
    packings,
)
from bench.runs.service import command as service
from bench.runs.two_party import command as two_party
from bench.runs.two_party import generate, load, peer, websocket
from bench.tables import block_options, choices, circuits, estimates, figures, functions, refresh_functions
from bench.tables import families as families_page
from bench.tables import two_party as two_party_figures

COMMANDS: dict[str, Callable[..., Any]] = {
    "adversarial-texts": adversarial.adversarial_texts,
    "arion": arion.arion,
    "batch": batch.batch,
    "batch-estimates": estimates.batch_estimates,
    "batch-pieces": batch_pieces.batch_pieces,
    "block-options": block_options.block_options,
    "choice-agreement": decoders.choice_agreement,
    "choices": choices.choices,
    "circuit-building": circuits.circuit_building,
    "convert": convert.convert,
    "correlation-prices": correlations.correlation_prices,
    "dashformer": batch.dashformer,
    "dashformer-functions": dashformer.dashformer_functions,
    "decoder-agreement": decoders.decoder_agreement,
    "decoder-estimates": estimates.decoder_estimates,
    "deeper-chains": circuits.deeper_chains,
    "engine": engine.engine,
    "families": families.families,
    "families-page": families_page.families_page,
    "family-vectors": elsewhere.family_vectors,
    "figures": figures.figures,
    "freeze": freeze.freeze,
    "functions": functions.functions,
    "gemm": gemm.gemm,
    "generate": generate.generate,
    "image-vectors": images.image_vectors,
    "kept-rows": decoders.kept_rows,
    "lattice": elsewhere.lattice,
    "layers": layers.layers,
    "leaf": leaf.leaf,
    "lpn-security": lpn.lpn_security,
    "nanoguard": nanoguard_reference.nanoguard,
    "nanoguard-vectors": nanoguard_reference.nanoguard_vectors,
    "neighbours": neighbours.neighbours,
    "noise-margins": margins.noise_margins,
    "one": one.one,
    "packings": packings.packings,
    "photo-crops": pictures.photo_crops,
    "prompts": nanoguard_reference.write_prompts,
    "refresh-functions": refresh_functions.refresh_functions,
    "serve-under-load": load.serve_under_load,
    "service": service.service,
    "silent-errors": margins.silent_errors,
    "two-party": two_party.two_party,
    "two-party-figures": two_party_figures.two_party_figures,
    "two-party-peer": peer.two_party_peer,
    "two-party-polynomials": polynomials.two_party_polynomials,
    "two-party-step": peer.two_party_step,
    "two-party-websocket": websocket.two_party_websocket,
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
