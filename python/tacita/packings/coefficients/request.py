"""What the client encrypts for one text: that of rows. A packing's plan says by it what the circuit is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tacita.packings.rows.request import RowsRequest


@dataclass(frozen=True)
class CoefficientRequest(RowsRequest):
    """See `RowsRequest`."""

    tag: ClassVar[str] = "coefficients"
