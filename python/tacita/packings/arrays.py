"""Names for the arrays that circuits are built from."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]
Diagonal = dict[tuple[int, int, int], Array]  # (output, input, rotation) -> vector
