"""What a process holds of the machine."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from tacita.resources import BLAS, freed_memory_kept, in_threads, resident_bytes, trim


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


@pytest.mark.skipif(sys.platform != "linux", reason="only its C library is asked")
def test_freed_memory_stays_for_the_next_array_until_the_end() -> None:
    sizes = list[int | None]()
    with freed_memory_kept():
        for _ in range(2):
            sizes += [resident_bytes() for _ in [np.ones(1 << 24)]]
            sizes.append(resident_bytes())
    sizes.append(resident_bytes())
    first, kept, second, _, left = (size or 0 for size in sizes)
    assert first - kept < 1e6 and second - kept < 1e6 and kept - left > 120e6


PRODUCT = """
import os
from tacita.cli import main
main(["token", "--help"])
import numpy as np
np.ones((400, 400)) @ np.ones((400, 400))
print(len(os.listdir("/proc/self/task")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in its /proc")
@pytest.mark.parametrize("chosen", [None, "2"])
def test_a_command_multiplies_on_one_thread_unless_the_user_says_otherwise(chosen: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in BLAS}
    environment |= {"OPENBLAS_NUM_THREADS": chosen} if chosen else {}
    done = subprocess.run([sys.executable, "-c", PRODUCT], capture_output=True, text=True, env=environment)
    cores = len(os.sched_getaffinity(0))
    assert done.stdout.split()[-1] == ("1" if chosen is None else str(min(2, cores))), done.stderr


def test_threads_keep_the_order_of_their_items_and_the_context_of_their_caller() -> None:
    with np.errstate(over="ignore"):
        assert list(in_threads(np.exp, [1e4, 0.0, 2e4], 3)) == [np.inf, 1.0, np.inf]
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        list(in_threads(np.exp, [0.0, 1e4], 2))
    assert list(in_threads(lambda x: 2 * x, iter([3, 1, 2]), 1)) == [6, 2, 4]


def test_threads_take_only_so_many_items_ahead() -> None:
    items, ended = iter(range(9)), []
    doubled = in_threads(lambda x: 2 * x, items, 2, ahead=3)
    assert [next(doubled), next(doubled)] == [0, 2]
    assert next(items) == 4  # two were handed out, two more are under way
    assert list(doubled) == [4, 6, 10, 12, 14, 16]
    with pytest.raises(ZeroDivisionError):
        list(in_threads(lambda x: ended.append(1 // x), [1, 0, *range(2, 99)], 2, ahead=2))
    assert len(ended) <= 3  # what was not begun is never done
