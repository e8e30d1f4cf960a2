"""Figures of the engine's presets, so that planning needs no compiled module. A test holds them equal to the engine."""

from __future__ import annotations

from tacita.plan.plan import ParameterInfo


def _preset(name: str, log_n: int, log_qp: float, security_bits: int) -> ParameterInfo:
    return ParameterInfo(
        preset=name,
        log_n=log_n,
        slots=1 << (log_n - 1),
        max_level=13,
        log_qp=log_qp,
        security_bits=security_bits,
        secret="uniform ternary",
        failure_log2=-128.0,
    )


TOYS = range(8, 16)  # the same chain on rings too small to hide anything

PRESETS = {"n16": _preset("n16", 16, 1746.0, 128)} | {
    f"insecure_toy_n{n}": _preset(f"insecure_toy_n{n}", n, 1746.0, 0) for n in TOYS
}
