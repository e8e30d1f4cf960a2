"""Which approximation stands for which function of a plan: ours by default, MOAI's, ARION's, THOR's, or a
mixture by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tacita.approx import activations, arion, exp, inverse, moai, rsqrt
from tacita.approx.activations import WIDE, elu, gelu, gelu_tanh, relu, relu_squared, silu, tanh
from tacita.approx.fit import Interval
from tacita.approx.softmax import MOST_ROUNDS
from tacita.approx.spec import Spec
from tacita.errors import InputError, PlanError, nearest

Fit = Callable[..., Spec]

EITHER = "either"
REFRESHED: Mapping[str, Fit] = {name: by.fit for name, by in activations.REFRESHED.items()}
OURS: Mapping[str, Fit] = {"exp": exp.fit, "inverse": inverse.fit, "rsqrt": rsqrt.fit, "gelu": gelu.fit}
FITS: Mapping[str, Mapping[str, Fit]] = {
    "tacita": OURS,
    "moai": {"exp": moai.exp, "inverse": moai.inverse, "rsqrt": moai.rsqrt, "gelu": moai.gelu},
    "arion": {"exp": arion.exp, "inverse": arion.inverse, "rsqrt": arion.rsqrt, "gelu": arion.gelu},
    # an activation that is computed by the bootstrap of its argument (LEAF, ePrint 2025/956)
    "leaf": {**OURS, **REFRESHED},
    EITHER: OURS,  # and beside them what LEAF has: the placement takes the cheaper one
    "thor": OURS,  # with every softmax in rounds (`approx.softmax`)
}
# in none of the papers' models: one approximation in all variants
KINKED = relu, relu_squared
SHARED: Mapping[str, Fit] = {
    **{f.name: f.fit for f in (tanh, silu, elu, gelu_tanh)},
    **{f.name: f.fit_density for f in KINKED},
}
WEIGHTED = frozenset(f.name for f in KINKED)  # their fits ask for the density of the inputs


@dataclass(frozen=True)
class Functions:
    """The variant of each function: "tacita" (least depth of all that we know), "moai", "arion", "leaf"
    (activations by a bootstrap), "either" (of ours and leaf's what placement finds cheaper) or "thor"
    (every softmax in rounds). Errors: InputError."""

    exp: str = "tacita"
    inverse: str = "tacita"
    rsqrt: str = "tacita"
    activation: str = "tacita"

    def __post_init__(self) -> None:
        for field in fields(self):
            variant = getattr(self, field.name)
            if variant not in FITS:
                raise InputError(
                    f"functions: no variant {variant!r} of {field.name}", hint=nearest(variant, FITS)
                )

    @staticmethod
    def of(variant: str) -> Functions:
        """Returns all functions of one variant."""
        return Functions(variant, variant, variant, variant)

    @property
    def rounds(self) -> tuple[int, int]:
        """The fewest and the most rounds in which softmax is found; not every packing can. An exponential of
        another paper has none."""
        return int(self.exp == "thor"), 0 if self.exp in ("moai", "arion") else MOST_ROUNDS

    @staticmethod
    def named(functions: str | Functions) -> Functions:
        """Returns the functions of a variant's name, or the given ones."""
        return Functions.of(functions) if isinstance(functions, str) else functions

    def reach(self, name: str) -> Interval | None:
        """Where a function is right whatever calibration says; None where only calibration says so."""
        return WIDE if self.activation == "leaf" and name in REFRESHED else None

    def refreshed(self, name: str) -> Fit | None:
        """The fit of a function by a bootstrap, where the placement is to choose."""
        return REFRESHED.get(name) if self.activation == EITHER else None

    def fit(self, name: str, *args: Any, **options: Any) -> Spec:
        """The approximation of a function in `FITS` or `SHARED` to the given interval and error, and to the
        density for those in `WEIGHTED`.

        The field `activation` chooses the variant of all functions that have no field of their own. Errors:
        FitError, and PlanError for another function.
        """
        variant = getattr(self, name) if name in OWN else self.activation
        fits = {**SHARED, **FITS[variant]}
        if name not in fits:
            raise PlanError(
                f"functions: no approximation of {name!r} in variant {variant}",
                hint=f"there are {', '.join(fits)}",
            )
        return fits[name](*args, **options)


OWN = frozenset(field.name for field in fields(Functions)) - {"activation"}
