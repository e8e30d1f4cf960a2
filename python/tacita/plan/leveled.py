"""Parameters without bootstrapping: their noise, their prices, and which of them to try.

Bootstraps get an infinite price, so that placement finds a way without or says that there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from tacita.errors import InputError
from tacita.plan.cost import Prices
from tacita.plan.formulas import formula_prices
from tacita.plan.plan import ParameterInfo
from tacita.plan.presets import LEVELED, PRESETS, can_bootstrap
from tacita.slots.noise import NoiseModel

SMALLEST = "leveled"  # stands for the smallest secure preset without bootstrapping that a circuit fits
TOY_CHAIN = 15  # log2 N of the preset whose chain the toys have


@dataclass(frozen=True)
class Chain:
    """log_scale: log2 of the scale. special: special primes, and limbs of a key-switching digit."""

    log_scale: float
    special: int


CHAINS = {  # as in the engine's presets
    13: Chain(38.0, 1),
    14: Chain(40.0, 2),
    15: Chain(39.0, 3),
    16: Chain(41.0, 6),
    17: Chain(41.0, 11),
}


def candidates(preset: str) -> Sequence[ParameterInfo]:
    """The presets that a name stands for, the smallest ring first. Raises InputError for an unknown name."""
    if preset == SMALLEST:
        return [PRESETS[f"n{log_n}_leveled"] for log_n in sorted(LEVELED)]
    if preset not in PRESETS:
        raise InputError(f"no preset {preset!r}", hint=f"one of {SMALLEST}, {', '.join(PRESETS)}")
    return [PRESETS[preset]]


def noise_of(parameters: ParameterInfo) -> NoiseModel:
    """Noise in the slots under these parameters."""
    if can_bootstrap(parameters):
        return NoiseModel(parameters.slots)
    return NoiseModel(parameters.slots, scale_bits=_chain(parameters).log_scale)


def prices_of(parameters: ParameterInfo, prices: Prices | None = None) -> Prices:
    """Given prices, else the package's measured table for the ring, else formulas."""
    if can_bootstrap(parameters):
        return prices or Prices.shipped(parameters.log_n) or formula_prices(parameters.log_n)
    special = _chain(parameters).special
    table = prices or formula_prices(parameters.log_n, special=special, limbs_at_level_0=1)
    never = {kind: {"alone": inf, "each": inf} for kind in ("real", "complex")}
    none = {"bootstrap_keys_file": 0, "bootstrap_keys_memory": 0, "bootstrap_matrices": 0}
    return replace(table, bootstrap_ms=never, limbs_at_level_0=1, sizes=replace(table.sizes, special=special, **none))


def _chain(parameters: ParameterInfo) -> Chain:
    toy = parameters.preset.startswith("insecure")
    return CHAINS[TOY_CHAIN if toy else parameters.log_n]
