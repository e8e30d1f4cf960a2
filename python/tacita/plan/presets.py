"""Figures of the engine's presets, so that planning needs no compiled module. A test holds them equal to the engine."""

from __future__ import annotations

from tacita.plan.plan import ParameterInfo

LOG_QP = 1711.6


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


# bits of security of the same chain on rings too small to hide anything
TOYS = {8: 0, 9: 1, 10: 2, 11: 4, 12: 7, 13: 16, 14: 32, 15: 64}

PRESETS = {"n16": _preset("n16", 16, LOG_QP, 128)} | {
    f"insecure_toy_n{n}": _preset(f"insecure_toy_n{n}", n, LOG_QP, bits) for n, bits in TOYS.items()
}
