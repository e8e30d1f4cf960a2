"""The price table: milliseconds of each counted operation by limbs, with all threads.

Operations that `sim` counts inside `linear` are measured inside `linear`, where babies share one mod-down:
plans that differ in one count are timed and subtracted. Times of noise-sized differences are kept at or above
zero.
"""

from __future__ import annotations

import dataclasses
import mmap
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacita import compiled
from tacita.evaluate.spill import SpillStore
from tacita.plans.prices.cost import Sizes
from tacita.resources import GB, available_memory, processor
from tacita.schemes.prices import best_ms as best_ms
from tacita.schemes.prices import kernels

if TYPE_CHECKING:
    from tacita.schemes.measure import Bench

HOIST_STEPS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
LEVELS = (1, 4, 8, 9, 13, 16)  # a digit ends at 11 limbs, which are level 8
LIMBS_AT_LEVEL_0 = 3
PERIOD = 256  # of the plaintext vectors, as in the default model
COLD = 6  # operands taken in turn
FEW = 2  # of an operation whose results alone leave the caches cold
DENSE = 32  # terms of a map, or vectors of full length
FANNED = 8  # outputs
MAPS = 5  # calls of a linear map, of which the least counts: prices of its pieces are differences
INPUTS, OUTPUTS = 64, (8, 40)  # of the matrix products
PRODUCTS = (8, 16, 4)  # rows, columns, count of attention at 128 tokens


def price_table(
    bench: Bench,
    yardstick_ms: float,
    bootstrap_ms: dict[str, dict[str, float]],
    *,
    source: str = "tacita prices",
    part: Callable[[int, int], None] = lambda _done, _total: None,
) -> dict[str, Any]:
    """The JSON content of a table that `tacita.plans.prices.cost.Prices` reads. part: told of each level.

    The highest level is timed first: what follows finds the memory that it takes in use already.
    """
    by_limbs = {}
    for done, level in enumerate(reversed(LEVELS)):
        part(done, len(LEVELS))
        by_limbs[level + LIMBS_AT_LEVEL_0] = _row(bench, level)
    rows = dict(sorted(by_limbs.items()))
    ops = next(iter(rows.values()))
    ciphertext = bench.encrypt(max(LEVELS))
    return {
        "machine": processor().name,
        "log_n": bench.params.log_n,
        "threads": bench.threads,
        "limbs_at_level_0": LIMBS_AT_LEVEL_0,
        "yardstick_ms": yardstick_ms,
        "keygen_seconds_per_gb": bench.keygen_seconds / (bench.key_bytes / 1e9),
        "touch_seconds_per_gb": touch_seconds_per_gb(),
        "spill_seconds_per_gb": spill_seconds_per_gb(bench.params, ciphertext),
        "source": source,
        "kernels": dataclasses.asdict(kernels()),
        "sizes": dataclasses.asdict(_sizes(bench)),
        "bootstrap_ms": bootstrap_ms,
        "ms": {op: {str(limbs): round(row[op], 4) for limbs, row in rows.items()} for op in ops},
    }


def bootstrap_prices(bench: Bench) -> dict[str, dict[str, float]]:
    """Milliseconds by kind: of one ciphertext with all threads, and of each of two. From one call alone of
    each kind and one of a complex and a real ciphertext together, whose time is divided as they are alone:
    four bootstraps in place of six. The matrices must have been encoded by a bootstrap before."""
    cts = {"complex": bench.encrypt(0, 3), "real": bench.encrypt(0, 4, real=True)}
    alone = {kind: best_ms(partial(bench.all.bootstrap, [ct], [kind]), 1) for kind, ct in cts.items()}
    both = best_ms(lambda: bench.all.bootstrap(list(cts.values()), list(cts)), 1)
    share = both / sum(alone.values())
    return {kind: {"alone": ms, "each": share * ms} for kind, ms in alone.items()}


def _row(bench: Bench, level: int) -> dict[str, float]:
    be, a, b = bench.all, bench.encrypt(level, 1), bench.encrypt(level, 2)
    xs, ys = ([be.neg(ct) for _ in range(COLD)] for ct in (a, b))

    def each(run: Callable[[Any, Any], object], operands: int = COLD) -> float:
        """Milliseconds of one call on operands that have left the caches meanwhile, as in a circuit."""
        pairs = list(zip(xs, ys, strict=True))[:operands]
        return best_ms(lambda: [run(x, y) for x, y in pairs], bench.repeats) / operands

    mul, add, rescale = each(be.mul), each(be.add), each(lambda x, _: be.mul_const(x, 0.5))
    tensor = (best_ms(lambda: be.dot(xs, ys), bench.repeats) - mul) / (COLD - 1)
    row = {
        "rotate": each(lambda x, _: be.rotate(x, 1)),
        "rotate_shared": (each(_many(be, 12), FEW) - each(_many(be, 4), FEW)) / 8,
        "conjugate": each(lambda x, _: be.conjugate(x)),
        "mul": mul,
        "add": add,
        "tensor": tensor,
        "relin": mul - tensor - rescale,
        "mul_scalar": add,  # as many bytes
        "rescale": rescale,
    }
    row |= _linear_row(bench, a) | _column_row(bench, a, rescale)
    return {op: max(0.0, ms) for op, ms in row.items()}


def _many(be: Any, count: int) -> Callable[[Any, Any], object]:
    return lambda x, _: be.rotate_many(x, HOIST_STEPS[:count])


def _linear_row(bench: Bench, a: Any) -> dict[str, float]:
    plain, encode, _ = _terms_row(bench, [bench.all.neg(a) for _ in range(DENSE)], 0)
    lifted, encode_lifted, one_baby = _terms_row(bench, [a], 1)
    fanned = _linear_ms(bench, [a], [1] * FANNED, outputs=FANNED)
    few_babies = _linear_ms(bench, [a], list(range(1, 5)))
    more_babies = _linear_ms(bench, [a], list(range(1, 13)))
    baby = max(0.0, (more_babies - few_babies) / 8 - lifted)
    lower = max(0.0, (fanned - one_baby) / (FANNED - 1) - lifted)
    return {
        "mul_plain": plain,
        "encode": encode,
        "mul_lifted": lifted,
        "encode_lifted": encode_lifted,
        "lower": lower,
        "rotate_hoisted": baby,
        "hoist": few_babies - 4 * (baby + lifted) - lower,
    }


def _terms_row(bench: Bench, inputs: list[Any], baby: int) -> tuple[float, float, float]:
    """Milliseconds of a term, of encoding a full vector and fetching it, and of the whole map of one term.

    inputs: one that is rotated by `baby`, whose terms take it from the caches, over the special primes; or as
    many as terms where nothing is rotated, each of which comes from memory, as where ciphertexts are masked
    and added up.
    """
    slots = bench.params.slots
    one = _linear_ms(bench, inputs[:1], [baby])
    term = max(0.0, _linear_ms(bench, inputs, [baby] * DENSE) - one) / (DENSE - 1)
    shared = _linear_ms(bench, inputs, [baby] * DENSE, slots, vectors=1)
    own = max(0.0, _linear_ms(bench, inputs, [baby] * DENSE, slots) - shared) / (DENSE - 1)
    return term, own, one


def _column_row(bench: Bench, a: Any, rescale: float) -> dict[str, float]:
    """matmul_input, matmul and outer: the operations of column packing. A block of attention's products is
    timed whole."""
    rows, columns, count = PRODUCTS
    cts = [bench.all.neg(a) for _ in range(count * (rows + columns))]  # distinct memory, as in a circuit
    narrow, wide = (_matmul_ms(bench, cts[:INPUTS], outputs) - outputs * rescale for outputs in OUTPUTS)
    per_output = (wide - narrow) / (OUTPUTS[1] - OUTPUTS[0])
    entry = max(0.0, narrow - OUTPUTS[0] * per_output) / INPUTS
    left, right = _terms(cts[: count * rows], rows), _terms(cts[count * rows :], columns)
    held = [bench.all.products(left, right, None)]
    outer = best_ms(lambda: _more(bench, left, right, held), bench.repeats) / (rows * columns * count)
    return {"matmul_input": entry, "matmul": max(0.0, per_output) / INPUTS, "outer": outer}


def _terms(cts: list[Any], size: int) -> list[list[Any]]:
    return [cts[first : first + size] for first in range(0, len(cts), size)]


def _more(bench: Bench, left: Any, right: Any, held: list[Any]) -> None:
    """Adds to the accumulators, which every call takes over."""
    held[0] = bench.all.products(left, right, held[0])


def _matmul_ms(bench: Bench, inputs: list[Any], outputs: int) -> float:
    weights = np.random.default_rng(1).uniform(-1.0, 1.0, (outputs, len(inputs), 1))
    return best_ms(lambda: bench.all.matmul(inputs, weights, None), bench.repeats)


def _linear_ms(
    bench: Bench,
    inputs: list[Any],
    babies: list[int],
    period: int = PERIOD,
    *,
    vectors: int = 0,
    outputs: int = 1,
) -> float:
    """A term for each baby, the terms dealt out to inputs, to vectors (one for each, or so many) and to
    outputs."""
    count = vectors or len(babies)
    stored = np.random.default_rng(0).uniform(-1.0, 1.0, (count, period)).astype(np.complex128)
    dealt = [(i % outputs, 0, i % len(inputs), baby, i % count) for i, baby in enumerate(babies)]
    terms = np.array(dealt, dtype=np.int32)
    return best_ms(lambda: bench.all.linear(inputs, stored, terms, outputs, 0), MAPS)


def _sizes(bench: Bench) -> Sizes:
    """Formulas, with the bootstrapping keys as this engine has them."""
    sizes = Sizes.of_ring(bench.params.log_n)
    memory = int(bench.params.bootstrap_key_bytes)
    file = compiled.native.EvaluationKeys.file_bytes(bench.params, [])
    return dataclasses.replace(sizes, bootstrap_keys_file=file, bootstrap_keys_memory=memory)


# What bytes cost beside arithmetic: memory that is touched for the first time, ciphertexts that go to disk.
#
# A process that grows by a gigabyte waits for the system to find and clear its pages; on a virtual machine
# whose memory nobody has used yet that takes many times as long as on one that has been up for a day.

TOUCHED = 1 << 30  # bytes; of a machine with less, a quarter of what is free
PAGE = 4096
SPILLED = 24  # ciphertexts


def touch_seconds_per_gb() -> float:
    """Seconds for 10^9 bytes that this process has never used, in pages as the engine asks for them."""
    free = available_memory()
    size = min(TOUCHED, TOUCHED if free is None else free // 4) // PAGE * PAGE
    with mmap.mmap(-1, max(size, PAGE)) as memory:
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        first, again = _written(memory), _written(memory)
        return max(0.0, first - again) / (len(memory) / GB)


def _written(memory: mmap.mmap) -> float:
    began = time.perf_counter()
    for at in range(0, len(memory), PAGE):
        memory[at] = 1
    return time.perf_counter() - began


def spill_seconds_per_gb(params: Any, ciphertext: Any) -> float:
    """Seconds for 10^9 bytes of ciphertexts in memory: packed, written with a checksum, read and unpacked, as
    an evaluation within a limit does it, on the disk of temporary files. What the system keeps in its cache
    between the two is kept there in a run as well."""
    with tempfile.TemporaryDirectory(prefix="tacita-bench-") as place:
        store = SpillStore(Path(place) / "spill")
        began = time.perf_counter()
        files = [store.write(ciphertext.to_bytes()) for _ in range(SPILLED)]
        for file in files:
            compiled.native.Ciphertext.from_bytes(params, store.load(file))
            store.remove(file)
        seconds = time.perf_counter() - began
        store.close(keep=False)
    return float(seconds / (SPILLED * ciphertext.nbytes / GB))
