"""Shared test settings: test folders can import each other's helpers and `bench`, and nothing that this user
keeps in a cache (prices of the machine, public parts) or as data (keys at services) is read or written.
Linear algebra has one thread, as in commands: the processes of a run share the cores."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tacita.resources import one_blas_thread

os.environ.update(one_blas_thread())  # before numpy is imported
# Where nothing compiled is written, each of the run's hundreds of processes compiles all modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
UNIT = Path(__file__).parent / "unit"
FOLDERS = [UNIT.parents[1], UNIT, *(folder for folder in sorted(UNIT.iterdir()) if folder.is_dir())]
sys.path[:0] = [str(folder) for folder in FOLDERS]


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="module", autouse=True)
def _collect_less() -> Iterator[None]:
    """Takes what the imports of a module left out of the collections below, which then cost a millisecond."""
    gc.collect()
    gc.freeze()
    yield


@pytest.fixture(autouse=True)
def _charge_leaks() -> Iterator[None]:
    """Collects what a test left open, so that its ResourceWarning fails this test and not a later one."""
    yield
    gc.collect()
