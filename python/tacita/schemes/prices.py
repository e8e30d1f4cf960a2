"""The prices of this machine: measured once, when asked for, and kept for this processor and thread count.

    $XDG_CACHE_HOME/tacita/prices/n16-2threads-0.1.0-1f0c9a55e0b7d3aa.json    (by default under ~/.cache)

The name has ring, threads, release and processor, so that another of these finds nothing there. Until prices
are measured, predictions are the shipped table's times two factors: how long a key switch takes here beside
there, by its arithmetic in the caches and by a copy, and how long a copy does. Both are used by the commands;
`PlanRequest.prices` is the shipped table unless it is told otherwise, so that plans made in Python are the
same on every machine.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from tacita import compiled
from tacita.client.store import cache_folder
from tacita.errors import FileError, PlanError, TacitaError
from tacita.plans.files import replacing
from tacita.plans.json_fields import canonical
from tacita.plans.presets import can_bootstrap, candidates
from tacita.plans.prices.cost import Prices, Sizes
from tacita.resources import Processor, processor, threads
from tacita.two_party.program.cost import NTT_MS
from tacita.version import __version__

FORMAT, VERSION = "tacita-prices", 1
MOST_BYTES = 1 << 20
YARDSTICKS, TRANSFORMS = 6, 4  # the best of so many runs of so many transforms
TIMED, TIMED_LEVEL, SWITCHES = "insecure_toy_leveled_n11", 11, 100  # a ring in the caches, 12 limbs, calls
COPIED = 1 << 27  # bytes, read and written
AGAIN = "measure again: `tacita prices`; or delete the file; or [plan] prices = 'shipped'"


def prices_here(preset: str) -> Prices | None:
    """What predictions for a preset are made of on this machine: measured prices, else the shipped ones
    scaled by some kernels, else None (a ring without either, parameters without bootstrapping: formulas).

    Raises FileError for measured prices that cannot be read: other ones would be used in silence otherwise.
    """
    info, *others = candidates(preset)
    if others or not can_bootstrap(info):
        return None
    return measured_prices(info.log_n) or scaled(Prices.shipped(info.log_n))


def describe_prices(prices: Prices) -> str:
    """Describes the prices in one line for people, without its full stop.

    >>> describe_prices(Prices.shipped(16))
    'prices: AMD EPYC, 2 threads'
    """
    if prices.scale != 1.0:
        return f"prices: {prices.origin} by this machine's kernels; `tacita prices` measures its own"
    return f"prices: {prices.origin or f'{prices.machine}, {prices.threads} threads'}"


def scaled(shipped: Prices | None) -> Prices | None:
    """Shipped prices with the factors of this machine, by its kernels, and by counts where it has another
    number of threads; without an engine as they are, and so where their machine's kernels are not known. The
    pace of two parties is that of the engine's own transform: their work uses a processor's vectors too."""
    if shipped is None or not shipped.kernels:
        return shipped
    try:
        here = kernels()
    except TacitaError:  # not built: plans can be made, nothing can be run
        return shipped
    of_table = Kernels(**shipped.kernels)
    work, streams, counted = here.switch / of_table.switch, here.copy / of_table.copy, ""
    if (cores := threads()) != (there := shipped.threads):
        phases = switch_phases(12, shipped.sizes)
        work *= share(phases, cores, cores) / share(phases, there, there)
        streams *= bandwidth(there) / bandwidth(cores)
        counted = f" and counted for {cores} threads"
    factor = round(HOT * work + (1.0 - HOT) * streams, 2)
    origin = f"shipped, scaled by {factor:.2f}{counted}"
    pace = round(here.transform / NTT_MS, 2)
    return replace(shipped, scale=factor, streams=round(streams, 2), pace=pace, origin=origin)


Phases = tuple[tuple[int, int, bool], ...]  # (transforms, limbs that they concern, of a conversion's targets)


def switch_phases(limbs: int, sizes: Sizes) -> Phases:
    """Returns the phases of a key switch: digits into coefficients, the special limbs of all digits and their
    way back, the limbs that stay with theirs. A digit's own limbs are there."""
    digits, special, back = ceil(limbs / sizes.digit), sizes.special, 2 * sizes.special
    last = (digits - 1) * limbs + 2 * limbs
    return (limbs, limbs, False), (digits * special + back, special, True), (last, limbs, True)


def share(phases: Phases, cores: int, pool: int) -> float:
    """Returns what of one core's arithmetic is left to wait for on so many cores of a pool of threads: a core
    takes whole tasks, which the engine counts."""
    tasks = [compiled.native.limb_tasks(limbs, 16, pool, of) for _, limbs, of in phases]
    waits = (n * ceil(count / cores) / count for (n, *_), count in zip(phases, tasks, strict=True))
    return sum(waits) / sum(n for n, *_ in phases)


def bandwidth(cores: int) -> float:
    """Returns GB a second that so many cores copy: 28 and 39 on one and two of an EPYC, and never more than
    eight channels of memory move."""
    return 28.0 if cores == 1 else min(200.0, 19.5 * cores)


@dataclass(frozen=True)
class Kernels:
    """Processor milliseconds of one thread. switch: a rotation and a product at 12 limbs whose operands and
    keys stay in the caches, scaled to N = 2^16; copy: of 10^8 bytes from memory to memory, read and written;
    transform: one limb at N = 2^16."""

    switch: float
    copy: float
    transform: float


HOT = 0.78  # of a switch: what its caches would leave of its time (decision 76)


@lru_cache(maxsize=1)
def kernels() -> Kernels:
    """Times this machine's kernels: 0.4 s and 130 MB, once a process. Processor time, so that others who use
    the machine change it little. Raises TacitaError where the engine was not built."""
    native, rotations = compiled.native, [(1, TIMED_LEVEL)]
    params = native.Parameters.preset(TIMED, allow_insecure=True)  # nothing is encrypted but zeros
    with tempfile.TemporaryDirectory(prefix="tacita-prices-") as folder:
        secret, public = f"{folder}/secret.key", f"{folder}/evaluation.keys"
        native.keygen(params, rotations, secret, public, lambda done, total: None)
        keys = native.EvaluationKeys.load(public, params, rotations)
        x = native.encrypt(native.SecretKey.load(secret, params), np.zeros(1, np.complex128), TIMED_LEVEL)
    one = native.Evaluator(params, keys, 1)
    calls: list[Callable[[], object]] = [lambda: one.rotate(x, 1), lambda: one.mul(x, x)]
    switch = sum(best_ms(call, SWITCHES, time.process_time) for call in calls)
    source, target = np.ones(COPIED // 16), np.empty(COPIED // 16)
    copy = best_ms(lambda: np.copyto(target, source), YARDSTICKS, time.process_time) * 1e8 / COPIED
    transform = min(native.ntt_ms(16, TRANSFORMS) for _ in range(YARDSTICKS))
    return Kernels(switch * (1 << 16) / (2 * params.slots), copy, transform)


def best_ms(
    action: Callable[[], object], repeats: int = 3, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Returns the least milliseconds of `repeats` calls, after none to warm up: the first is one of them."""
    taken = []
    for _ in range(repeats):
        began = clock()
        action()
        taken.append(clock() - began)
    return 1e3 * min(taken)


def path_of(log_n: int, folder: Path | None = None, here: Processor | None = None) -> Path:
    """Where this machine's prices for rings of degree 2^log_n are kept."""
    key = (here or processor()).key
    name = f"n{log_n}-{threads()}threads-{__version__}-{key}.json"
    return (folder or cache_folder("prices")) / name


def keep(table: Mapping[str, Any], folder: Path | None = None, today: date | None = None) -> Path:
    """Writes a table of `prices.price_table`, readable by this user alone, in one step; returns its path.
    Raises FileError where that is not possible."""
    path = path_of(table["log_n"], folder)
    data = {
        "format": FORMAT,
        "version": VERSION,
        "measured": (today or date.today()).isoformat(),
        "processor": asdict(processor()),
        "sha256": _digest(table),
        "table": table,
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise FileError(
            f"{path.parent}: the folder cannot be made ({error})", hint="set XDG_CACHE_HOME to another one"
        ) from error
    with replacing(path, mode=0o600) as temporary:
        temporary.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return path


def measured_prices(log_n: int, folder: Path | None = None) -> Prices | None:
    """The prices that were measured here, or None. Raises FileError for a file that is damaged or was not
    written by this release on a machine like this."""
    path = path_of(log_n, folder)
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileError(f"{path}: measured prices cannot be read ({error})", hint=AGAIN) from error
    try:
        return _parsed(text, log_n)
    except (PlanError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise FileError(f"{path}: not this machine's prices ({error!s:.200})", hint=AGAIN) from error


def _parsed(text: bytes, log_n: int) -> Prices:
    if len(text) > MOST_BYTES:
        raise ValueError(f"longer than {MOST_BYTES} bytes")
    data = json.loads(text)
    if (data["format"], data["version"]) != (FORMAT, VERSION):
        raise ValueError(f"format {data['format']!s:.20}, version {data['version']!s:.20}")
    if data["sha256"] != _digest(data["table"]):
        raise ValueError("the checksum does not match")
    prices, measured = Prices.from_json(data["table"]), date.fromisoformat(data["measured"])
    if (prices.log_n, prices.threads) != (log_n, threads()):
        raise ValueError(f"of N = 2^{prices.log_n!s:.8} and {prices.threads!s:.8} threads")
    shipped = Prices.shipped(16)
    if shipped is not None and (missing := set(shipped.ms) - set(prices.ms)):
        raise ValueError(f"without a price of {min(missing)}")
    return replace(prices, origin=f"measured on this machine {measured.isoformat()}")


def _digest(table: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(table)).hexdigest()
