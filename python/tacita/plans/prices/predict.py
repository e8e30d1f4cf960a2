"""The length of a file of evaluation keys, as the engine counts it before a key is made.

A key's bytes follow from its kind and level alone: residues are stored at their primes' bit lengths and not
compressed, and of the uniform half every key carries a seed. So all clients' files of a plan have one length.
Planning asks here, and so do the parties that check a disk or an upload.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from tacita.plans.plan import ParameterInfo, Plan, TensorInfo
from tacita.plans.prices.cost import Prices
from tacita.plans.prices.formulas import prices_of
from tacita.slots.bootstraps import INPUT_LEVEL
from tacita.slots.ckks import translate


def key_file_bytes(
    info: ParameterInfo, rotations: Sequence[tuple[int, int]], tokens: int | None = None
) -> int | None:
    """Bytes of `evaluation.keys`, exactly; None where the engine was not built.

    rotations: (step, highest level). tokens: of coefficient products, whose keys come with the others. Raises
    ShapeError for a level above the top. Cost: under a millisecond.
    """
    try:
        native = importlib.import_module("tacita._native")
    except ImportError:
        return None
    params = native.Parameters.preset(info.preset, allow_insecure=True)  # its figures only
    try:
        return int(native.EvaluationKeys.file_bytes(params, list(rotations), tokens))
    except native.TacitaError as error:
        raise translate(native, error) from error


# Seconds and bytes of every step of a run, from its placement, its keys and a price table.

COEFFICIENT_KEYS = 34  # of slots-to-coefficients 32, in place of smaller ones, and the small ring's
CONJUGATION_AND_RELINEARISATION = 2  # keys at the top level beside the rotations


def evaluation_key_bytes(
    info: ParameterInfo, rotations: Sequence[tuple[int, int]], prices: Prices, tokens: int | None = None
) -> tuple[int, int]:
    """(file, memory) bytes of all evaluation keys, those of bootstrapping included. tokens: of coefficient
    products, where there are any.

    The file's are exact, as the engine counts them. The memory's are an upper bound by the table's sizes:
    keys that a circuit shares with bootstrapping count twice, and all primes as 50 bits. Where the engine was
    not built, the file's are of the table, too, and some percent off.
    """
    sizes, base = prices.sizes, prices.limbs_at_level_0
    keys = [sizes.key(level, base) for _, level in rotations]
    if tokens is not None:  # the small ring's are less than two of these
        keys += [sizes.key(INPUT_LEVEL, base)] * COEFFICIENT_KEYS
    keys += [sizes.key(info.max_level, base)] * CONJUGATION_AND_RELINEARISATION
    file = key_file_bytes(info, rotations, tokens) or sizes.bootstrap_keys_file + sum(f for f, _ in keys)
    return file, sizes.bootstrap_keys_memory + sum(m for _, m in keys)


def ciphertext_bytes(tensors: Sequence[TensorInfo], prices: Prices) -> tuple[int, int]:
    """(file, memory) bytes of these tensors' ciphertexts."""
    one = [(t.count, prices.sizes.ciphertext(t.level, prices.limbs_at_level_0)) for t in tensors]
    return sum(n * f for n, (f, _) in one), sum(n * m for n, (_, m) in one)


def run_bytes(
    info: ParameterInfo,
    rotations: Sequence[tuple[int, int]],
    request: Sequence[TensorInfo],
    response: Sequence[TensorInfo],
    working: int,
    prices: Prices,
    tokens: int | None = None,
) -> dict[str, int]:
    """Files (evaluation_keys, request, response) and peak memory (server_memory, client_memory).

    working: bytes of the ciphertexts that the server holds at its peak. tokens: see `evaluation_key_bytes`;
    the matrices of coefficient products are taken for as large as a bootstrap's, an upper bound.
    """
    sizes = prices.sizes
    keys_file, keys_memory = evaluation_key_bytes(info, rotations, prices, tokens)
    matrices = sizes.bootstrap_matrices * (1 if tokens is None else 2)
    keygen = (
        4 * 2 * 35 * 4 * sizes.limb_memory
    )  # of one bootstrapping key, held before it is streamed to disk
    return {
        "evaluation_keys": keys_file,
        "request": ciphertext_bytes(request, prices)[0] // 2,  # fresh ciphertexts carry a seed for one half
        "response": ciphertext_bytes(response, prices)[0],
        "server_memory": sizes.process + keys_memory + matrices + working,
        "client_memory": sizes.process + keygen + ciphertext_bytes(request, prices)[1],
    }


def file_bytes(plan: Plan) -> dict[str, int]:
    """Sizes of evaluation_keys (exact), request and response from parameters, keys and tensors of the plan,
    by this program's own figures: what a party checks its disk and an upload with, since nothing holds a
    plan's prediction to the truth."""
    info, tensors = plan.parameters, (plan.request, plan.response)
    sizes = run_bytes(info, plan.rotations, *tensors, 0, prices_of(info), plan.coefficients)
    return {name: sizes[name] for name in ("evaluation_keys", "request", "response")}


def run_seconds(keys: int, evaluate: float, working: int, prices: Prices) -> dict[str, float]:
    """Seconds of steps here: keygen, which writes a file of so many bytes of keys at a measured rate, and
    evaluate (warm: in memory that the process has touched before).

    Where the table prices them, also touch and spill: seconds that a new process takes for touching its
    working memory, and that a request would take if all of it went to disk and back once. What a stage has of
    them follows from its bytes: `schemes.ciphertexts.stage_estimates`.
    """
    seconds = {"keygen": keys / 1e9 * prices.keygen_seconds_per_gb, "evaluate": evaluate}
    extra = {"touch": prices.touch_seconds_per_gb, "spill": prices.spill_seconds_per_gb}
    seconds |= {name: working / 1e9 * per_gb for name, per_gb in extra.items() if per_gb}
    return {name: prices.scale * value for name, value in seconds.items()}
