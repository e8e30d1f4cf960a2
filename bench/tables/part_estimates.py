"""`python -m bench part-estimates`: products, softmaxes, norms and layers that papers time alone, counted on
`sim` and priced by the shipped table.

    python -m bench part-estimates --only softmax --encrypt n16

also computes the softmax of rows on ciphertexts of this ring, in 5 GB at full size: its error is measured, of
as many rows as a ciphertext has, and its bootstraps are the engine's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from bench.kernels.leaf import Machine
from bench.options import PRESET_DEFAULT, Insecure, emit_rows, shipped_prices
from bench.tables import layers, parts
from tacita import compiled
from tacita.cli.console import write_report
from tacita.cli.options import Json, option
from tacita.errors import InputError
from tacita.layouts.columns import BatchShape
from tacita.layouts.multidiagonal import Features
from tacita.planning.fitting import Accuracy
from tacita.plans.engine import describe, parameters
from tacita.plans.plan import ParameterInfo
from tacita.plans.prices.cost import Prices
from tacita.resources import require_memory
from tacita.slots.ckks import CkksBackend

THOR = -44.19, 50.25  # the scores of its Table 5, and the precision that it states
BITS = Accuracy(exp=2.0**-14.189, inverse=2.0**-14.189)
KEYS = 128  # of a row
LENGTHS = 32, 64, 128, 256
KINDS = "levels", "heads", "softmax", "columns", "norm", "layers", "operations"


def part_estimates(
    only: Annotated[str, option("--only", metavar=f"[{'|'.join(KINDS)}]", help="Parts of one kind.")] = "",
    encrypt: Annotated[
        str, option("--encrypt", metavar="PRESET", help="Compute the softmax of rows on this ring too.")
    ] = "",
    allow_insecure: Insecure = False,
    json: Json = None,
) -> None:
    """Count the operations of parts that papers time alone, and estimate their seconds."""
    if only and only not in KINDS:
        raise InputError(f"bench part-estimates: no parts {only!r:.40}", hint=", ".join(KINDS))
    prices, ring = shipped_prices(), describe(PRESET_DEFAULT)
    layout, slots, top = Features.hidden(ring.slots, 128, 12, 64), ring.slots, ring.max_level
    kinds: dict[str, Callable[[], Iterable[parts.Row]]] = {
        "levels": lambda: parts.by_level(layout, top, prices),
        "heads": lambda: parts.of_heads(layout, top, prices),
        "softmax": lambda: softmaxes(
            encrypt or PRESET_DEFAULT, prices, bool(encrypt), allow_insecure=allow_insecure
        ),
        "columns": lambda: chain.from_iterable(
            parts.attention_in_columns(BatchShape(slots, n), 64, prices) for n in LENGTHS
        ),
        "norm": lambda: [parts.norm_in_columns(BatchShape(slots, 128), 768, prices)],
        "layers": lambda: layers.of_papers(slots, prices),
        "operations": lambda: parts.operations(prices),
    }
    rows: Any = []
    for row in chain.from_iterable(kinds[kind]() for kind in KINDS if only in ("", kind)):
        rows.append(row)
        emit_rows([row])
    write_report(json, rows)


def softmaxes(preset: str, prices: Prices, encrypts: bool, *, allow_insecure: bool) -> Iterator[parts.Row]:
    """Softmaxes of a ciphertext's rows on THOR's range of scores, whose largest scores are alike and are not.
    encrypts: also on ciphertexts, as `log2_error_encrypted`. Raises PlanError for a preset that is unknown or
    insecure and not asked for, ResourceError where its keys do not fit."""
    ring = describe(preset)
    for least in (1.0, 0.5):
        values = parts.sampled(THOR, ring.slots // KEYS, KEYS, least)
        one = parts.softmax_of_rows(ring, values, THOR, prices, BITS)
        found = (
            {"log2_error_encrypted": encrypted(one, ring, allow_insecure=allow_insecure)} if encrypts else {}
        )
        yield one.row | found


def encrypted(one: parts.SoftmaxOfRows, ring: ParameterInfo, *, allow_insecure: bool) -> list[float]:
    """Runs it on ciphertexts under new keys; returns its errors as on `sim`."""
    params = parameters(ring, allow_insecure=allow_insecure)
    require_memory(2 * params.bootstrap_key_bytes, f"a softmax on {ring.preset}")
    with tempfile.TemporaryDirectory(prefix="tacita-bench-") as folder:
        machine = Machine.generate(params, sorted(one.rotations.items()), Path(folder))

    def encrypt(slots: Any, level: int) -> Any:
        return compiled.native.encrypt(machine.secret, slots.astype(np.complex128), level)

    return one.run(CkksBackend(machine.evaluator), encrypt, machine.secret.decrypt)
