"""The compiled module is loaded when it is asked for; where it cannot be, the error says what to do."""

from __future__ import annotations

import sys

import pytest

from tacita.errors import TacitaError
from tacita.protocol import compiled


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
