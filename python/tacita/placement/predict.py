"""Seconds and bytes of every step of a run, from its placement, its keys and a price table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tacita.placement.cost import Prices, Sizes
from tacita.placement.leveled import prices_of
from tacita.plans.plan import Plan, TensorInfo
from tacita.slots.bootstraps.coefficients import INPUT_LEVEL

COEFFICIENT_KEYS = 34  # of slots-to-coefficients 32, in place of smaller ones, and the small ring's
CONJUGATION_AND_RELINEARISATION = 2  # keys at the top level beside the rotations


def evaluation_key_bytes(
    rotations: Iterable[tuple[int, int]], top: int, prices: Prices, *, coefficients: bool = False
) -> tuple[int, int]:
    """(file, memory) bytes of all evaluation keys, those of bootstrapping included. coefficients: whether
    those of coefficient products, too."""
    sizes, base = prices.sizes, prices.limbs_at_level_0
    keys = [sizes.key(level, base) for _, level in rotations]
    if coefficients:  # the small ring's are less than two of these
        keys += [sizes.key(INPUT_LEVEL, base)] * COEFFICIENT_KEYS
    keys += [sizes.key(top, base)] * CONJUGATION_AND_RELINEARISATION
    file = sizes.bootstrap_keys_file + sum(f for f, _ in keys)
    return file, sizes.bootstrap_keys_memory + sum(m for _, m in keys)


def ciphertext_bytes(tensors: Sequence[TensorInfo], prices: Prices) -> tuple[int, int]:
    """(file, memory) bytes of these tensors' ciphertexts."""
    one = [(t.count, prices.sizes.ciphertext(t.level, prices.limbs_at_level_0)) for t in tensors]
    return sum(n * f for n, (f, _) in one), sum(n * m for n, (_, m) in one)


def run_bytes(
    rotations: Sequence[tuple[int, int]],
    request: Sequence[TensorInfo],
    response: Sequence[TensorInfo],
    top: int,
    working: int,
    prices: Prices,
    *,
    coefficients: bool = False,
) -> dict[str, int]:
    """Files (evaluation_keys, request, response) and peak memory (server_memory, client_memory).

    working: bytes of the ciphertexts that the server holds at its peak. coefficients: see
    `evaluation_key_bytes`; its matrices are taken for as large as a bootstrap's, an upper bound.
    """
    sizes = prices.sizes
    keys_file, keys_memory = evaluation_key_bytes(rotations, top, prices, coefficients=coefficients)
    matrices = sizes.bootstrap_matrices * (2 if coefficients else 1)
    return {
        "evaluation_keys": keys_file,
        "request": ciphertext_bytes(request, prices)[0] // 2,  # fresh ciphertexts carry a seed for one half
        "response": ciphertext_bytes(response, prices)[0],
        "server_memory": sizes.process + keys_memory + matrices + working,
        "client_memory": sizes.process + _keygen_memory(sizes) + ciphertext_bytes(request, prices)[1],
    }


def file_bytes(plan: Plan) -> dict[str, int]:
    """Sizes of evaluation_keys, request and response from parameters, keys and tensors of the plan, by this
    program's own table: what a party checks its disk with, since nothing holds a plan's prediction to the
    truth."""
    info = plan.parameters
    tensors, more = (plan.request, plan.response), plan.coefficients is not None
    found = run_bytes(plan.rotations, *tensors, info.max_level, 0, prices_of(info), coefficients=more)
    return {name: found[name] for name in ("evaluation_keys", "request", "response")}


def keygen_seconds(rotations: Iterable[tuple[int, int]], top: int, prices: Prices) -> float:
    """Key generation writes at a measured rate."""
    return evaluation_key_bytes(rotations, top, prices)[0] / 1e9 * prices.keygen_seconds_per_gb


def run_seconds(
    rotations: Iterable[tuple[int, int]], top: int, evaluate: float, working: int, prices: Prices
) -> dict[str, float]:
    """Seconds of steps here: keygen, evaluate (warm: in memory that the process has touched before).

    Where the table prices them, also touch and spill: seconds that a new process takes for touching its
    working memory, and that a request would take if all of it went to disk and back once. What a stage has of
    them follows from its bytes: `ciphertext_estimate.stage_estimates`.
    """
    seconds = {"keygen": keygen_seconds(rotations, top, prices), "evaluate": evaluate}
    seconds |= {
        name: working / 1e9 * per_gb
        for name, per_gb in (("touch", prices.touch_seconds_per_gb), ("spill", prices.spill_seconds_per_gb))
        if per_gb
    }
    return {name: prices.scale * value for name, value in seconds.items()}


def _keygen_memory(sizes: Sizes) -> int:
    """One bootstrapping key at a time is held before it is streamed to disk."""
    return 4 * 2 * 35 * 4 * sizes.limb_memory
