"""What a process holds of the machine."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tacita.run.resources import resident_bytes, trim


@pytest.mark.skipif(sys.platform != "linux", reason="only its C library is asked")
def test_freed_memory_goes_back_when_asked() -> None:
    """Every hundredth block stays, so that the heap cannot shrink from its end."""
    blocks = [np.ones(10_000) for _ in range(4_000)]
    kept = blocks[::100]
    held = resident_bytes()
    del blocks
    trim()
    left = resident_bytes()
    assert held is not None and left is not None and len(kept) == 40
    assert held - left > 200e6
