"""Working memory of each stage: ciphertexts alive at its peak, counted by a `sim` that watches its handles.

Rotated copies that the engine holds inside one linear map are counted as if all babies lived at once in the
extended basis, which is the engine's upper bound.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from tacita.placement.cost import Prices
from tacita.slots.linear import LinearPlan
from tacita.slots.plain import PlainCt
from tacita.slots.sim import SimBackend, SimCt, SimProducts


class MemorySim(SimBackend):
    """Counts operations as `sim` does, and bytes alive. stage_bytes: stage -> peak."""

    def __init__(self, slots: int, max_level: int, prices: Prices) -> None:
        super().__init__(slots, max_level)
        self.stage_bytes: defaultdict[str, int] = defaultdict(int)
        self._prices = prices
        self._alive = 0
        self._accumulators = 0

    def linear(self, xs: Sequence[SimCt], plan: LinearPlan) -> list[SimCt]:
        entry = min(x.level for x in xs)
        special = self._prices.sizes.special
        babies = sum(len(steps) for steps in plan.babies.values())
        lifted = self._prices.sizes.ciphertext(entry + special, self._prices.limbs_at_level_0)[1]
        self._see(self._alive + babies * lifted)
        return super().linear(xs, plan)

    def products(
        self,
        left: Sequence[Sequence[SimCt]],
        right: Sequence[Sequence[SimCt]],
        onto: SimProducts | None = None,
    ) -> SimProducts:
        found = super().products(left, right, onto)
        if onto is None:
            one = self._prices.sizes.ciphertext(found.level, self._prices.limbs_at_level_0)[1] * 3 // 2
            self._accumulators += found.rows * found.columns * one
            self._see(self._alive)
        return found

    def relinearise(self, products: SimProducts) -> list[list[SimCt]]:
        self._accumulators = 0  # each is freed as its ciphertext is made, and at most one set is alive
        return super().relinearise(products)

    def drop_to(self, a: SimCt, level: int) -> SimCt:
        return a if level == a.level else self._held(super().drop_to(a, level))

    def _map(self, op: str, a: SimCt, *args: Any) -> SimCt:
        return self._held(super()._map(op, a, *args))

    def _out(
        self, level: int, grown: float, fresh: float, plain: PlainCt | None, *, refresh: bool = False
    ) -> SimCt:
        return self._held(super()._out(level, grown, fresh, plain, refresh=refresh))

    def _held(self, ct: SimCt) -> SimCt:
        size = self._prices.sizes.ciphertext(ct.level, self._prices.limbs_at_level_0)[1]
        self._alive += size
        weakref.finalize(ct, self._free, size)
        self._see(self._alive)
        return ct

    def _free(self, size: int) -> None:
        self._alive -= size

    def _see(self, alive: int) -> None:
        stage = self._stage.partition("/")[0]
        self.stage_bytes[stage] = max(self.stage_bytes[stage], alive + self._accumulators)
