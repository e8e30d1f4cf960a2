"""The compiled module is loaded when it is asked for; where it cannot be, the error says what to do."""

from __future__ import annotations

import subprocess
import sys

import pytest
from interrupts import interrupts

from tacita import compiled
from tacita.errors import TacitaError


def test_a_module_that_was_not_built_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tacita._native", None)  # what import takes for absent
    with pytest.raises(TacitaError, match="not built") as found:
        _ = compiled.native
    assert found.value.hint == "run `make setup`"


def test_a_module_that_does_not_start_is_said_so_with_its_own_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise ImportError(f"{name}: no such instructions; hint: unset TACITA_SIMD")

    monkeypatch.setattr("importlib.import_module", refuse)
    with pytest.raises(TacitaError, match=r"does not start: .*: no such instructions") as found:
        _ = compiled.native
    assert found.value.hint == "unset TACITA_SIMD"


@pytest.mark.native
def test_it_is_the_module_itself() -> None:
    built = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    assert compiled.native is built


def test_nothing_else_is_found_there() -> None:
    with pytest.raises(AttributeError, match="nativ'"):
        _ = compiled.nativ


INTERRUPTED_IMPORT = """
import signal, sys
import numpy.lib

class Interrupting(numpy.lib.NumpyVersion):
    def __init__(self, version):
        signal.raise_signal(signal.SIGINT)
        super().__init__(version)

numpy.lib.NumpyVersion = Interrupting
try:
    from tacita import _native
    print("imported")
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.native
def test_an_interrupt_while_numpy_is_looked_up_is_no_panic() -> None:
    """The module asks for numpy's version when it looks for the C interface."""
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    with interrupts():
        command = [sys.executable, "-c", INTERRUPTED_IMPORT]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")
