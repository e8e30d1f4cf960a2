"""The door to the native engine for client and server: presets, and one translation of its errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from tacita import compiled
from tacita.errors import (
    FileError,
    GoneError,
    KeyMissingError,
    LateError,
    LevelError,
    PeerError,
    PlanError,
    TacitaError,
)
from tacita.plans.plan import ParameterInfo, TensorInfo

if TYPE_CHECKING:
    from tacita._native import Ciphertext, Parameters

MIN_SECURITY_BITS = 128
SAME_SCALE = 1e-9  # log2: what the evaluator takes for equal when it adds


def describe(preset: str) -> ParameterInfo:
    """The figures of a preset as they go into a plan. Raises PlanError for an unknown one."""
    with translated(PlanError, f"preset {preset}"):
        p = compiled.native.Parameters.preset(preset, allow_insecure=True)  # its figures only
    return ParameterInfo(
        preset=preset,
        log_n=p.log_n,
        slots=p.slots,
        max_level=p.max_level,
        log_qp=round(float(p.log_qp), 1),
        security_bits=int(p.security_bits),
        secret=p.secret,
        failure_log2=float(p.failure_log2),
    )


def parameters(info: ParameterInfo, *, allow_insecure: bool = False) -> Parameters:
    """The engine's parameters of a plan; raises PlanError when they differ or are insecure and not asked
    for."""
    require_secure(info, allow_insecure=allow_insecure)
    if (here := describe(info.preset)) != info:
        names = [f.name for f in fields(info) if getattr(here, f.name) != getattr(info, f.name)]
        changed = ", ".join(f"{n} {getattr(info, n)}, engine {getattr(here, n)}" for n in names)
        raise PlanError(
            f"preset {info.preset}: plan says {changed}", hint="make the plan again with this release"
        )
    with translated(PlanError, f"preset {info.preset}"):
        return compiled.native.Parameters.preset(info.preset, allow_insecure=allow_insecure)


def require_secure(info: ParameterInfo, *, allow_insecure: bool) -> None:
    """Refuses parameters below 128 bits unless they were asked for."""
    if info.security_bits < MIN_SECURITY_BITS and not allow_insecure:
        raise PlanError(
            f"preset {info.preset} has {info.security_bits} bits of security, {MIN_SECURITY_BITS} are "
            "required",
            hint="for tests only: --allow-insecure, or [run] allow_insecure",
        )


def require_level_and_scale(path: Path, tensor: TensorInfo, ct: Ciphertext, params: Parameters) -> None:
    """Raises FileError unless a ciphertext of this file is at the level that the plan gives its tensor, and
    at the canonical scale of that level."""
    if ct.level != tensor.level:
        raise FileError(
            f"{path}: {tensor.name} is at level {ct.level}, the plan says {tensor.level}",
            hint="both sides must use one plan and one release; ask again",
        )
    scale = params.log_scale_at(tensor.level)
    if not abs(ct.log_scale - scale) <= SAME_SCALE:  # so that NaN is refused too
        raise FileError(
            f"{path}: {tensor.name} has a scale of 2^{ct.log_scale:.6g}, level {tensor.level} has "
            f"2^{scale:.6g}",
            hint="both sides must use one plan and one release; ask again",
        )


@contextmanager
def translated(kind: type[TacitaError] = FileError, what: str = "") -> Iterator[None]:
    """Turns the engine's errors into ours, with `what` (a path, a step) in front."""
    module = compiled.native
    try:
        yield
    except module.TacitaError as error:
        prefix = f"{what}: " if what else ""
        text, _, hint = str(error).partition("; hint: ")
        raise _kind(error, kind)(f"{prefix}{text}", hint=hint) from error


def _kind(error: Exception, default: type[TacitaError]) -> type[TacitaError]:
    native = compiled.native
    ours: dict[type[Exception], type[TacitaError]] = {
        native.LevelError: LevelError,
        native.KeyMissingError: KeyMissingError,
        native.FormatError: FileError,
        native.LateError: LateError,  # before the PeerError that it is as well
        native.GoneError: GoneError,
        native.PeerError: PeerError,
    }
    return next((kind for theirs, kind in ours.items() if isinstance(error, theirs)), default)
