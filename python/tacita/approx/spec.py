"""What an approximation is: a frozen, JSON-able `Spec` that knows its value, depth, cost and encrypted
evaluation.

Data flow: calibrated interval -> `fit` of one function's file -> Spec, stored with the plan ->
`evaluate` on any Backend. `interval` is what was asked for, `domain` the wider interval on which the error
holds: an input a few percent outside `interval` is still inside `domain`, so the result degrades and does
not explode.

Scales. The ciphertext holds x * input_scale, the result is f(x) * output_scale. The scale
`spec.free_scale()` (1 over the half-width of the domain, or that over an integer) costs no level for the
affine map to [-1, 1]; others cost one. Ranking (`cheapest`) counts levels at the free scale, which a
plan can always arrange.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

import numpy as np

from tacita.approx.fit import Array, FitError, Interval
from tacita.slots.base import Backend, Ct

MARGIN = 0.05  # share by which `domain` exceeds `interval` on each side
MAX_INT = 1 << 20  # largest |k| that Backend.mul_int accepts
EXACT = 1e-12  # relative distance at which a factor counts as an integer

_kinds: dict[str, type[Spec]] = {}


@dataclass(frozen=True)
class Spec(ABC):
    """One approximation of a function of one variable.

    function: name of the exact function. interval: requested. domain: where `error` holds.
    error: measured maximum over domain, absolute or, when `relative`, divided by |f|.
    """

    kind: ClassVar[str] = ""
    refreshes: ClassVar[bool] = False  # whether `evaluate` bootstraps its ciphertext
    function: str
    interval: Interval
    domain: Interval
    error: float
    relative: bool

    def __init_subclass__(cls) -> None:
        _kinds.setdefault(cls.kind, cls)  # no file names a class that inherits its kind

    @abstractmethod
    def depth(self, input_scale: float = 1.0) -> int:
        """Counts the levels that `evaluate` uses."""

    def free_scale(self) -> float:
        """Returns the input scale for which `evaluate` needs no level to normalise x."""
        return 1.0 / half_width(self.domain)

    @abstractmethod
    def multiplications(self) -> int:
        """Counts the ciphertext-ciphertext products (each with one relinearisation) of `evaluate`."""

    @abstractmethod
    def numpy(self, x: Array) -> Array:
        """The value that the polynomial really gives at x (float64, elementwise)."""

    @abstractmethod
    def evaluate(self, be: Backend, ct: Ct, input_scale: float = 1.0, output_scale: float = 1.0) -> Ct:
        """Maps the ciphertext of x*input_scale to that of f(x)*output_scale, depth(input_scale) levels
        lower."""

    def evaluate_all(
        self, be: Backend, cts: Sequence[Ct], input_scale: float = 1.0, output_scale: float = 1.0
    ) -> list[Ct]:
        """Evaluates each of several ciphertexts of real values."""
        return [self.evaluate(be, ct, input_scale, output_scale) for ct in cts]

    @staticmethod
    def from_plain(data: Any) -> Spec:
        """Reads a spec of any kind, as `from_dict` does. Raises TypeError for what is no mapping."""
        if not isinstance(data, Mapping):
            raise TypeError(f"expected an approximation, found {type(data).__name__}")
        return from_dict(data)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain JSON values; `from_dict` gives back an equal spec, bit for bit."""
        return {"kind": self.kind} | {f.name: _plain(getattr(self, f.name)) for f in fields(self)}


S = TypeVar("S", bound=Spec)


def from_dict(data: Mapping[str, Any]) -> Spec:
    """Rebuilds a spec from `to_dict`'s output. Errors: FitError naming an unknown kind or the missing/extra
    fields."""
    kind = data.get("kind")
    cls = _kinds.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise FitError(f"spec from_dict: unknown kind {kind!r}", hint=f"known kinds are {sorted(_kinds)}")
    names = {f.name for f in fields(cls)}
    keys = set(data) - {"kind"}
    if names != keys:
        raise FitError(
            f"spec from_dict: kind {kind!r} needs {sorted(names)} but got {sorted(keys)}",
            hint="the plan was written by another version: make it again",
        )
    return cls(**{name: _freeze(data[name]) for name in names})


def free_depth(spec: Spec) -> int:
    """Returns the depth at the free scale."""
    return spec.depth(spec.free_scale())


def half_width(domain: Interval) -> float:
    """Returns (hi - lo) / 2."""
    return 0.5 * (domain[1] - domain[0])


def normalise(be: Backend, ct: Ct, domain: Interval, input_scale: float) -> Ct:
    """Maps x * input_scale to u in [-1, 1]. Levels: map_levels(domain, input_scale)."""
    factor = 1.0 / (input_scale * half_width(domain))
    centre = -0.5 * (domain[0] + domain[1]) / half_width(domain)
    scaled = scale_by(be, ct, factor)
    return scaled if centre == 0.0 else be.add_const(scaled, centre)


def scale_by(be: Backend, ct: Ct, factor: float) -> Ct:
    """Returns ct * factor; no level when the factor is an integer up to 2^20, else one."""
    if not is_free(factor):
        return be.mul_const(ct, factor)
    return ct if round(factor) == 1 else be.mul_int(ct, round(factor))


def is_free(factor: float) -> bool:
    """Whether multiplying by `factor` takes no level."""
    return 1 <= abs(round(factor)) <= MAX_INT and abs(factor - round(factor)) <= EXACT * abs(factor)


def map_levels(domain: Interval, input_scale: float) -> int:
    """Returns 0 when the affine map of `normalise` is free, else 1."""
    return 0 if is_free(1.0 / (input_scale * half_width(domain))) else 1


def cheapest(function: str, specs: Iterable[Spec], interval: Interval, error: float, max_depth: int) -> Spec:
    """Chooses among the specs with at most `error`: least depth, then fewest multiplications. Raises FitError
    with the least error of all when there is none."""
    candidates = list(specs)
    enough = [spec for spec in candidates if spec.error <= error]
    if not enough:
        raise unreachable(function, interval, error, min(spec.error for spec in candidates), max_depth)
    return min(enough, key=lambda spec: (free_depth(spec), spec.multiplications(), spec.error))


def first(function: str, specs: Iterable[S], interval: Interval, error: float, max_depth: int) -> S:
    """The first with at most `error`, of specs in the order of their cost, each made when it is asked for.
    Raises FitError when there is none."""
    best = np.inf
    for spec in specs:
        best = min(best, spec.error)
        if spec.error <= error:
            return spec
    raise unreachable(function, interval, error, best, max_depth)


def unreachable(function: str, interval: Interval, error: float, best: float, max_depth: int) -> FitError:
    """The FitError of a fit whose stated error no candidate reaches."""
    return FitError(
        f"{function} fit: error {error:.3g} on [{interval[0]:.6g}, {interval[1]:.6g}] not reached within "
        f"{max_depth} levels (best {best:.3g})",
        hint="allow more levels, a larger error or a narrower interval",
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Spec):
        return value.to_dict()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _freeze(value: Any) -> Any:
    if isinstance(value, Mapping):
        return from_dict(value)
    return tuple(_freeze(item) for item in value) if isinstance(value, list | tuple) else value
