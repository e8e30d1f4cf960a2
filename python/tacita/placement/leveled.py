"""Prices of parameters without bootstrapping.

Bootstraps get an infinite price, so that placement finds a way without or says that there is none.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from tacita.placement.cost import Prices
from tacita.placement.formulas import formula_prices
from tacita.plans.plan import ParameterInfo
from tacita.plans.presets import can_bootstrap, chain_of


def prices_of(parameters: ParameterInfo, prices: Prices | None = None) -> Prices:
    """Given prices, else the package's measured table for the ring, else formulas.

    A table of another ring says nothing of this one: it is passed over, as those of the rings that "leveled"
    tries one after the other are.
    """
    prices = prices if prices is not None and prices.log_n == parameters.log_n else None
    if can_bootstrap(parameters):
        return prices or Prices.shipped(parameters.log_n) or formula_prices(parameters.log_n)
    special = chain_of(parameters).special
    table = prices or formula_prices(parameters.log_n, special=special, limbs_at_level_0=1)
    never = {kind: {"alone": inf, "each": inf} for kind in ("real", "complex")}
    none = {"bootstrap_keys_file": 0, "bootstrap_keys_memory": 0, "bootstrap_matrices": 0}
    return replace(
        table, bootstrap_ms=never, limbs_at_level_0=1, sizes=replace(table.sizes, special=special, **none)
    )
