"""Checkpoints of PyPI become model folders: tensors without PyTorch, SMILES as tokens, reactions as texts."""

from __future__ import annotations

import io
import pickle
import sys
from collections import OrderedDict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "evaluation"))

import torch_pickle  # noqa: E402
from checkpoints.tokens import smiles_tokenizer  # noqa: E402
from reactions import reactions  # noqa: E402


class Storage:
    """What a pickle of PyTorch refers to by a key."""

    def __init__(self, key: str) -> None:
        self.key = key


class Tensor:
    """Pickled as PyTorch pickles a tensor."""

    def __init__(self, storage: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.described = (Storage(storage), 1, shape, strides, False, OrderedDict())

    def __reduce__(self) -> Any:
        return sys.modules["torch._utils"]._rebuild_tensor_v2, self.described


class Pickler(pickle.Pickler):
    def persistent_id(self, found: Any) -> Any:
        kind = sys.modules["torch"].FloatStorage
        return ("storage", kind, found.key, "cpu", 9, None) if isinstance(found, Storage) else None


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Just enough of it to write a file."""

    def _rebuild_tensor_v2() -> None: ...

    names = ModuleType("torch"), ModuleType("torch._utils")
    names[0].FloatStorage = type("FloatStorage", (), {"__module__": "torch"})  # type: ignore[attr-defined]
    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    names[1]._rebuild_tensor_v2 = _rebuild_tensor_v2  # type: ignore[attr-defined]
    for module in names:
        monkeypatch.setitem(sys.modules, module.__name__, module)


def written(path: Path, tensors: Any, magic: int = torch_pickle.MAGIC) -> Path:
    """A file of these tensors on one storage "a" of the numbers 0 to 8."""
    file = io.BytesIO()
    for part in (magic, torch_pickle.PROTOCOL, {"little_endian": True}, tensors, ["a"]):
        Pickler(file, 2).dump(part)
    file.write(np.array([9], "<i8").tobytes() + np.arange(9, dtype="<f4").tobytes())
    path.write_bytes(file.getvalue())
    return path


def test_tensors_are_read_without_pytorch(torch: None, tmp_path: Path) -> None:
    found = torch_pickle.read(written(tmp_path / "w.bin", {"x": Tensor("a", (2, 3), (3, 1))}))
    assert list(found) == ["x"] and np.array_equal(found["x"], [[1, 2, 3], [4, 5, 6]])


def test_what_a_weight_file_does_not_hold_is_refused(torch: None, tmp_path: Path) -> None:
    with pytest.raises(pickle.UnpicklingError, match="print has no place"):
        torch_pickle.read(written(tmp_path / "code.bin", {"x": print}))
    with pytest.raises(ValueError, match="strides"):
        torch_pickle.read(written(tmp_path / "turned.bin", {"x": Tensor("a", (2, 3), (1, 2))}))
    with pytest.raises(ValueError, match="older format"):
        torch_pickle.read(written(tmp_path / "other.bin", {}, magic=1))


def test_reactions_are_different_and_the_same_every_time() -> None:
    found = reactions(300)
    assert len(set(found)) == 300 and found == reactions(300)
    assert all(line.count(">>") == 1 for line in found)


def test_atoms_and_bonds_are_tokens() -> None:
    found = smiles_tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "C", "Cl", "=", "O", ">>", "[Na+]"])
    assert found.encode("CCl=O>>[Na+]N").ids == [2, 4, 5, 6, 7, 8, 9, 1, 3]
