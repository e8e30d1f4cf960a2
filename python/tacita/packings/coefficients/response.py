"""Where the answer is: as in rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tacita.packings.rows.response import RowsResponse


@dataclass(frozen=True)
class CoefficientResponse(RowsResponse):
    """See `RowsResponse`."""

    tag: ClassVar[str] = "coefficients"
