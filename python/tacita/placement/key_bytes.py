"""The length of a file of evaluation keys, as the engine counts it before a key is made.

A key's bytes follow from its kind and level alone: residues are stored at their primes' bit lengths and not
compressed, and of the uniform half every key carries a seed. So all clients' files of a plan have one length.
Planning asks here, and so do the parties that check a disk or an upload.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from tacita.plans.plan import ParameterInfo
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
