"""Seconds and bytes by formula: a price table for rings that have not been measured, the working memory of
stages, and what a run takes by any table.

Units of the price table are one number-theoretic transform of one limb and one pass of multiply-accumulate
over one limb. L limbs, k special primes, D digits. Hybrid key switching with an NTT-resident
input: L inverse transforms, then D (L + k) - L forward ones, an inner product of 2 D (L + k) passes, and a
mod-down of 2 (k + L) transforms.
"""

from __future__ import annotations

import importlib
import weakref
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from math import ceil, inf
from typing import Any

from tacita.plans.plan import ParameterInfo, Plan, TensorInfo
from tacita.plans.presets import can_bootstrap, chain_of
from tacita.plans.prices.cost import Prices, Sizes
from tacita.slots.bootstraps import INPUT_LEVEL
from tacita.slots.ckks import translate
from tacita.slots.linear import LinearPlan
from tacita.slots.plain import PlainCt
from tacita.slots.sim import SimBackend, SimCt, SimProducts

# N = 2^16, one limb, one core, AVX2: 0.168 measured on the prototype, and its share of base conversion
NTT_MS = 0.19
# N = 2^16, one limb of one polynomial: a multiply-add of a matrix product that stays in cache, two halves
GEMM_MS = 0.0035
FFT_NTTS = 10  # a complex Fourier transform of all slots, in transforms of one limb
KEYGEN = 8.5  # seconds for 10^9 bytes: 5.0 on a core that takes 0.111 ms for NTT_MS's transform
PASS_MS = 0.03  # N = 2^16, one limb: a multiply-accumulate bound by memory
# transforms of one complex bootstrap; a real one has one modular reduction instead of two
BOOTSTRAP_PASSES = 26_000
LIMBS = (1, 3, 6, 9, 11, 12, 16, 19)


def formula_prices(log_n: int, *, special: int = 9, digit: int = 11, limbs_at_level_0: int = 3) -> Prices:
    """Prices of one core at ring degree 2^log_n; transforms grow as N log N, passes as N."""
    ntt = NTT_MS * 2.0 ** (log_n - 16) * log_n / 16
    one_pass = PASS_MS * 2.0 ** (log_n - 16)
    by_limbs = {limbs: _milliseconds(limbs, (special, digit), ntt, one_pass) for limbs in LIMBS}
    ms = {op: {limbs: row[op] for limbs, row in by_limbs.items()} for op in by_limbs[LIMBS[0]]}
    whole = BOOTSTRAP_PASSES * ntt
    return Prices(
        machine="formulas, one core",
        log_n=log_n,
        threads=1,
        limbs_at_level_0=limbs_at_level_0,
        yardstick_ms=1.09,
        ms=ms,
        bootstrap_ms={
            "complex": {"alone": whole, "each": whole},
            "real": {"alone": 0.62 * whole, "each": 0.62 * whole},
        },
        sizes=Sizes.of_ring(log_n),
        keygen_seconds_per_gb=KEYGEN,
        source="tacita.plans.prices.formulas",
    )


def _milliseconds(limbs: int, switching: tuple[int, int], ntt: float, one_pass: float) -> dict[str, float]:
    """Returns the price of each operation. switching: special primes, and limbs of a digit. ntt, one_pass:
    milliseconds of a transform and of a pass."""
    special, digits = switching[0], ceil(limbs / switching[1])
    hoist = digits * (limbs + special) * ntt
    inner = 2 * digits * (limbs + special) * one_pass
    key_switch = hoist + inner + 2 * (special + limbs) * ntt
    tensor, rescale = 4 * limbs * one_pass, 2 * limbs * ntt
    two_polynomials = 2 * limbs * one_pass
    return {
        "rotate": key_switch,
        "conjugate": key_switch,
        "relin": key_switch,
        "hoist": hoist,
        "rotate_hoisted": inner,
        "tensor": tensor,
        "mul": tensor + key_switch + rescale,
        "mul_plain": two_polynomials,
        "mul_lifted": 2 * (limbs + special) * one_pass,
        "lower": 2 * (special + limbs) * ntt,  # a mod-down; the last prime goes with the special ones
        "mul_scalar": two_polynomials,
        "add": two_polynomials,
        "outer": 1.5 * limbs * one_pass,  # of four passes most operands stay in cache
        "matmul": two_polynomials * GEMM_MS / PASS_MS,
        "encode": (limbs + FFT_NTTS) * ntt,
        "encode_lifted": (limbs + special + FFT_NTTS) * ntt,
        "matmul_input": two_polynomials,
        "rescale": rescale,
    }


# Working memory of each stage: ciphertexts alive at its peak, counted by a `sim` that watches its handles.
#
# Rotated copies that the engine holds inside one linear map are counted as if all babies lived at once in the
# extended basis, which is the engine's upper bound.


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
        result = super().products(left, right, onto)
        if onto is None:
            one = self._prices.sizes.ciphertext(result.level, self._prices.limbs_at_level_0)[1] * 3 // 2
            self._accumulators += result.rows * result.columns * one
            self._see(self._alive)
        return result

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


# Prices of parameters without bootstrapping.
#
# Bootstraps get an infinite price, so that placement finds a way without or says that there is none.


def prices_of(parameters: ParameterInfo, prices: Prices | None = None) -> Prices:
    """Given prices, else the package's measured table for the ring, else formulas.

    A table of another ring says nothing of this one: it is passed over, as those of the rings that "leveled"
    tries one after the other are.
    """
    prices = prices if prices is not None and prices.log_n == parameters.log_n else None
    if can_bootstrap(parameters):
        return prices or Prices.shipped(parameters.log_n) or formula_prices(parameters.log_n)
    special = chain_of(parameters).special
    table = prices or formula_prices(parameters.log_n, special=special, digit=special, limbs_at_level_0=1)
    never = {kind: {"alone": inf, "each": inf} for kind in ("real", "complex")}
    none = {"bootstrap_keys_file": 0, "bootstrap_keys_memory": 0, "bootstrap_matrices": 0}
    return replace(
        table,
        bootstrap_ms=never,
        limbs_at_level_0=1,
        sizes=replace(table.sizes, special=special, digit=special, **none),
    )


# The length of a file of evaluation keys, as the engine counts it before a key is made.
#
# A key's bytes follow from its kind and level alone: residues are stored at their primes' bit lengths and not
# compressed, and of the uniform half every key carries a seed. So all clients' files of a plan have one
# length. Planning asks here, and so do the parties that check a disk or an upload.


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
BOOTSTRAPPING_KEY = 3 * 39  # limbs of a polynomial of the largest
AT_ONCE = 8  # ciphertexts of a request that a client makes on all threads beside writing


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
    tables: int = 0,
) -> dict[str, int]:
    """Files (evaluation_keys, request, response) and peak memory (server_memory, client_memory).

    working: bytes of the ciphertexts that the server holds at its peak. tokens: see `evaluation_key_bytes`;
    the matrices of coefficient products are taken for as large as a bootstrap's, an upper bound. tables:
    bytes of the embedding's, which the client holds, and twice while it reads their file.
    """
    sizes = prices.sizes
    keys_file, keys_memory = evaluation_key_bytes(info, rotations, prices, tokens)
    matrices = sizes.bootstrap_matrices * (1 if tokens is None else 2)
    holds = _client_bytes(info, request, response, prices)
    return {
        "evaluation_keys": keys_file,
        "request": ciphertext_bytes(request, prices)[0] // 2,  # fresh ciphertexts carry a seed for one half
        "response": ciphertext_bytes(response, prices)[0],
        "server_memory": sizes.process + keys_memory + matrices + working,
        "client_memory": sizes.process + tables + max(tables, holds),
    }


def _client_bytes(
    info: ParameterInfo, request: Sequence[TensorInfo], response: Sequence[TensorInfo], prices: Prices
) -> int:
    """What a client holds beside tables, of its three steps the most: a key, and as much while it is made;
    the numbers of a request, thrice, and AT_ONCE ciphertexts; twice the numbers of a response."""
    sizes, base, number = prices.sizes, prices.limbs_at_level_0, 8 * info.slots
    limbs = sizes.key(info.max_level, base)[0] // sizes.limb_file
    limbs = max(limbs, BOOTSTRAPPING_KEY) if sizes.bootstrap_keys_file else limbs
    sent, read = (sum(tensor.count for tensor in tensors) for tensors in (request, response))
    one = sizes.ciphertext(max(tensor.level for tensor in request), base)[1] + 2 * number
    encrypting = 3 * sent * number + min(sent, AT_ONCE) * one
    return max(2 * 2 * limbs * sizes.limb_memory, encrypting, 2 * read * 2 * number)


def file_bytes(plan: Plan) -> dict[str, int]:
    """Sizes of evaluation_keys (exact), request and response from parameters, keys and tensors of the plan,
    by this program's own figures: what a party checks its disk and an upload with, since nothing holds a
    plan's prediction to the truth."""
    info, tensors = plan.parameters, (plan.request, plan.response)
    sizes = run_bytes(info, plan.rotations, *tensors, 0, prices_of(info), plan.coefficients)
    return {name: sizes[name] for name in ("evaluation_keys", "request", "response")}


def run_seconds(keys: int, evaluate: float, working: int, prices: Prices) -> dict[str, float]:
    """Seconds of steps here: keygen, which writes a file of so many bytes of keys at a measured rate, and
    evaluate, as given (warm: in memory that the process has touched before).

    Where the table prices them, also touch and spill: seconds that a new process takes for touching its
    working memory, and that a request would take if all of it went to disk and back once. What a stage has of
    them follows from its bytes: `schemes.ciphertexts.stage_estimates`.
    """
    seconds = {"keygen": prices.scale * keys / 1e9 * prices.keygen_seconds_per_gb, "evaluate": evaluate}
    extra = {"touch": prices.touch_seconds_per_gb, "spill": prices.spill_seconds_per_gb}
    return seconds | {
        name: prices.streams * working / 1e9 * per_gb for name, per_gb in extra.items() if per_gb
    }
