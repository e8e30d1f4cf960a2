"""Prints the table of docs/decisions/0022: bootstraps through a function beside bootstraps and polynomials.

    python -m bench refresh-functions

Both take a real ciphertext at level 0 to f of its slots. Errors are the largest on 32768 slots spread over
the domain: of the approximation alone (`plain`), and with the noise of preset n16 (`sim`). Seconds are those
of the shipped prices, for one ciphertext alone. "beyond" is the largest error on an input a fifth of the
domain's width outside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.options import markdown, shipped_prices
from tacita.approx import exp, fourier
from tacita.approx.activations import WIDE, gelu, gelu_refreshed
from tacita.approx.fit import Array, Interval
from tacita.approx.spec import Spec
from tacita.packings.encoding import Argument, apply, output_bound
from tacita.plans.presets import PRESETS, noise_of
from tacita.plans.prices.cost import Prices
from tacita.slots.base import Backend, Ct
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend

PRESET, SEED = PRESETS["n16"], 1
OVER = 0.2  # of a domain's width
HEADS = ("function", "by", "harmonics or degree", "level after", "products", "seconds", "error")


@dataclass(frozen=True)
class Row:
    """One way to compute one function."""

    function: str
    by: str
    exact: Callable[[Array], Array]
    spec: Spec


def rows() -> Iterator[Row]:
    """GELU where most models have it and where BERT-base has it, exp on 28 nats; the whole range of leaf."""
    for low, high, error in ((-8.0, 8.0, 2e-3), (-61.0, 108.0, 2e-3)):
        name, on = f"GELU [{low:g}, {high:g}]", (low, high)
        yield Row(name, "polynomial", gelu.exact, gelu.fit(on, error))
        yield Row(name, "refresh", gelu.exact, fourier.fit("gelu", gelu.exact, on, on, error))
    wide: Interval = WIDE
    name = f"GELU [{wide[0]:g}, {wide[1]:g}]"
    yield Row(name, "refresh", gelu.exact, gelu_refreshed.fit((-8.0, 8.0), 2e-3))
    nats = (-28.0, 0.0)
    yield Row("exp [-28, 0]", "polynomial", np.exp, exp.fit(nats, 1e-4, shift=0.0))
    yield Row("exp [-28, 0]", "refresh", np.exp, fourier.fit("exp", np.exp, nats, nats, 1e-4))


def computed(be: Backend, ct: Ct, spec: Spec) -> Ct:
    """f / its largest value: by the refresh, or after one."""
    fresh = ct if spec.refreshes else be.bootstrap([ct], ["real"])[0]
    return apply(be, fresh, spec, 1.0 / output_bound(spec))


def errors(row: Row) -> tuple[float, float]:
    """Without noise and with that of the engine."""
    x, form = np.linspace(*row.spec.domain, PRESET.slots), Argument.of(row.spec)
    backends = (
        PlainBackend(PRESET.slots, PRESET.max_level),
        SimBackend(PRESET.slots, PRESET.max_level, inject=True, noise=noise_of(PRESET), seed=SEED),
    )
    found = []
    for be in backends:
        out = computed(be, be.encrypt((x - form.centre) * form.scale, 0), row.spec)
        found.append(np.max(np.abs(np.real(be.decrypt(out)) * output_bound(row.spec) - row.exact(x))))
    return float(found[0]), float(found[1])


def cost(spec: Spec, prices: Prices) -> tuple[int, int, float]:
    """Level of the result, products, seconds."""
    be = SimBackend(PRESET.slots, PRESET.max_level)
    out = computed(be, be.input(0), spec)
    products = sum(n for (op, _, _), n in be.counts.items() if op == "mul")
    plain = 0.0 if spec.refreshes else prices.bootstrap_seconds(("real",))
    return be.level(out), products, prices.total(be.counts) + plain


def beyond(row: Row) -> float:
    """What an input outside the domain gives."""
    low, high = row.spec.domain
    x = np.array([low - OVER * (high - low), high + OVER * (high - low)])
    return float(np.max(np.abs(row.spec.numpy(x) - row.exact(x))))


def refresh_functions() -> None:
    """Bootstraps through a function beside bootstraps and polynomials: the table of decision 22."""
    prices = shipped_prices(PRESET.log_n)
    print(f"Prices: {prices.machine}, {prices.threads} threads.\n")
    heads = (*HEADS, "with noise", "beyond")
    print(*markdown(heads, (_cells(row, prices) for row in rows())), sep="\n")


def _cells(row: Row, prices: Prices) -> tuple[object, ...]:
    series: Any = getattr(row.spec, "cosines", None) or getattr(row.spec, "coefficients", ())
    level, products, seconds = cost(row.spec, prices)
    errors_of = (f"{error:.1e}" for error in (*errors(row), beyond(row)))
    return row.function, row.by, len(series) - 1, level, products, f"{seconds:.2f}", *errors_of
