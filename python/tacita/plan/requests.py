"""One face for circuits of one text and of a batch: samples -> slot vectors, slot vectors -> answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tacita.packings.response import Answer
from tacita.packings.rows.circuit import RequestLayout
from tacita.plan.calibrate import Sample
from tacita.slots.stage import Stage

Array = npt.NDArray[np.float64]


class AnyCircuit(Protocol):
    """What planning and the parties need of a circuit.

    request: has `counts` and `pack`; of one (hidden, mask) for one text, of a sequence of them for a batch.
    response: has `count` and `read`, to one answer or to a list of them.
    """

    @property
    def stages(self) -> tuple[Stage, ...]: ...

    @property
    def request(self) -> Any: ...

    @property
    def response(self) -> Any: ...


def counts(circuit: AnyCircuit) -> Mapping[str, int]:
    """Ciphertexts of each tensor of the request."""
    return dict(circuit.request.counts)


def pack(circuit: AnyCircuit, samples: Sequence[Sample]) -> dict[str, list[Array]]:
    """(hidden, mask) pairs, one or as many as fit, -> tensor name -> slot vectors."""
    single = isinstance(circuit.request, RequestLayout)
    packed: dict[str, list[Array]] = circuit.request.pack(*samples[0]) if single else circuit.request.pack(samples)
    return packed


def read(circuit: AnyCircuit, slots: Sequence[Array]) -> list[Answer]:
    """Decoded response -> one answer for each place of the batch."""
    found = circuit.response.read(slots)
    return [found] if isinstance(found, Answer) else list(found)
