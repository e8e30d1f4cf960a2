"""Weights in shards and in files of torch.save; what such files may hold, and what is refused before anything
is built."""

from __future__ import annotations

import json
import os
import pickle
import runpy
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder
from safetensors.numpy import load_file, save_file
from test_families import folder_of

from tacita.checkpoint import load, pickles
from tacita.checkpoint.pickles import REBUILD, Described, Storage, described
from tacita.checkpoint.weights import PLANES, SafetensorsFile, TorchFile
from tacita.errors import CheckpointError
from tacita.texts.embedding import decode

ROOT = Path(__file__).parents[3]
DATA = Path(__file__).parents[2] / "vectors" / "torch"  # written by torch 1.13.1
STATE = DATA / "state.bin"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(make_random_checkpoint(layers=1), tmp_path)
    return tmp_path


def tensor(shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0, count: Any = 6) -> bytes:
    """The pickle of {"w": a tensor of a float storage with so many numbers}, as torch writes it."""
    persistent = _literal("storage") + b"ctorch\nFloatStorage\n" + _literal("0") + _literal("cpu")
    storage = b"(" + persistent + _literal(count) + b"tQ"
    arguments = storage + _literal(offset) + _literal(shape) + _literal(strides) + b"\x89" + b")"
    call = f"c{REBUILD.replace(' ', chr(10))}\n".encode() + b"(" + arguments + b"t"
    return b"\x80\x02}" + _literal("w") + call + b"Rs."


def _literal(value: Any) -> bytes:
    if isinstance(value, str):
        return b"X" + struct.pack("<I", len(value)) + value.encode()
    if isinstance(value, tuple):
        return b"(" + b"".join(map(_literal, value)) + b"t"
    return b"\x8a\x08" + struct.pack("<q", value)


def zipped(path: Path, data: bytes, storage: bytes = bytes(24), **options: Any) -> Path:
    with zipfile.ZipFile(path, "w", **options) as file:
        file.writestr("archive/data.pkl", data)
        file.writestr("archive/data/0", storage)
    return path


@pytest.mark.parametrize(
    "name",
    ["intermediate.dense.weight_scale", "output.dense.lora_A.default.weight", "output.LayerNorm.shift"],
)
def test_tensors_of_a_module_that_is_read_are_not_ignored(folder: Path, name: str) -> None:
    tensors = load_file(folder / "model.safetensors")
    other = {"bert.embeddings.position_ids": np.zeros(4), "cls.seq_relationship.weight": np.zeros((2, 16))}
    save_file({**tensors, **other}, folder / "model.safetensors")
    load(folder)
    save_file({**tensors, f"bert.encoder.layer.0.{name}": np.ones(3)}, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=f"layer.0.{name} would be ignored"):
        load(folder)


def test_biases_that_the_configuration_does_not_mention_are_refused(tmp_path: Path) -> None:
    place = folder_of("llama-next", tmp_path)
    tensors, name = load_file(place / "model.safetensors"), "model.layers.0.self_attn.q_proj"
    bias = np.ones(len(tensors[f"{name}.weight"]), np.float16)
    save_file({**tensors, f"{name}.bias": bias}, place / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"q_proj\.bias would be ignored"):
        load(place)


def test_torchs_own_file_is_read_exactly() -> None:
    expected, stored = json.loads((DATA / "state.json").read_text()), TorchFile(STATE)
    assert set(stored.names) == {*expected, "position_ids"}
    for name, entry in stored.read(expected).items():
        assert np.array_equal(decode("state", name, entry), np.array(expected[name])), name
    with pytest.raises(CheckpointError, match="tensor position_ids has type I64"):
        decode("state", "position_ids", stored.read(["position_ids"])["position_ids"])


def test_a_tensor_is_read_by_offset_and_strides(tmp_path: Path) -> None:
    numbers = np.arange(6, dtype="<f4")
    path = zipped(tmp_path / "w.bin", tensor((2, 2), (1, 2), 1), numbers.tobytes())
    found = decode("w", "w", TorchFile(path).read(["w"])["w"])
    assert np.asarray(found).tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_numbers_of_another_byte_order_are_refused(tmp_path: Path) -> None:
    for order in ("little", "big"):
        path = zipped(tmp_path / f"{order}.bin", tensor((6,), (1,)))
        with zipfile.ZipFile(path, "a") as file:
            file.writestr("archive/byteorder", order)
    assert set(TorchFile(tmp_path / "little.bin").names) == {"w"}
    with pytest.raises(CheckpointError, match="upper bytes first"):
        _ = TorchFile(tmp_path / "big.bin").names


def test_a_folder_with_torchs_file_is_the_same_model(folder: Path) -> None:
    expected, tensors = load(folder), load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w") as file:
        file.writestr("archive/data.pkl", _state(tensors))
        for number, values in enumerate(tensors.values()):
            file.writestr(f"archive/data/{number}", values.astype("<f4").tobytes())
    assert load(folder).sha256 == expected.sha256


def _state(tensors: dict[str, np.ndarray]) -> bytes:
    made = b"\x80\x02}("
    for number, (name, values) in enumerate(tensors.items()):
        strides = tuple(step // values.itemsize for step in values.strides)
        one = tensor(values.shape, strides, 0, values.size)
        body = one.removeprefix(b"\x80\x02}" + _literal("w")).removesuffix(b"s.")
        made += _literal(name) + body.replace(_literal("0"), _literal(str(number)), 1)
    return made + b"u."


def test_a_folder_with_planes_of_bytes_is_the_same_model(folder: Path) -> None:
    path = folder / "model.safetensors"
    save_file({name: values.astype(np.float16) for name, values in load_file(path).items()}, path)
    expected = load(folder)
    split = runpy.run_path(str(ROOT / "training" / "planes.py"))["main"]
    split(folder)
    assert load_file(path) and all(values.dtype == np.uint8 for values in load_file(path).values())
    assert load(folder).sha256 == expected.sha256
    with pytest.raises(SystemExit, match="uint8, not float16"):
        split(folder)


@pytest.mark.parametrize("wrong", [np.zeros((2, 4), np.float16), np.zeros((3, 4), np.uint8)])
def test_planes_that_are_none_are_refused(tmp_path: Path, wrong: np.ndarray) -> None:
    save_file({"w": wrong}, tmp_path / "w.safetensors", metadata=PLANES)
    with pytest.raises(CheckpointError, match="w: no planes of bytes"):
        SafetensorsFile(tmp_path / "w.safetensors").read(["w"])


class Command:
    """Pickled, it asks its reader to run a command."""

    def __reduce__(self) -> Any:
        return os.system, ("echo should never run > /dev/null",)


def test_a_pickle_that_runs_a_command_is_refused_by_its_name() -> None:
    for protocol in (2, 4):
        with pytest.raises(CheckpointError, match=r"the name 'posix system'") as caught:
            described(pickle.dumps({"w": Command()}, protocol), "file")
        assert "state_dict" in caught.value.hint


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (tensor((2, 3), (3, 1), 1), "outside its storage"),
        (tensor((2, 3), (4, 1)), "outside its storage"),
        (tensor((2, 3), (-3, 1)), "outside its storage"),
        (tensor((1 << 30, 1 << 30), (0, 0)), "outside its storage"),
        (tensor((1 << 50,), (1,), 0, 1 << 50), "a storage of unknown kind, name or size"),
        (tensor((1,) * 9, (1,) * 9), "outside its storage"),
        (tensor((2, 3), (3,)), "outside its storage"),
        (tensor((6,), (1,), 0, -6), "a storage of unknown kind"),
        (b"\x80\x02}.junk"[:2], "a damaged pickle"),
        (b"\x80\x02]X\x01\x00\x00\x00wa.", r"the instruction b\'\]\'"),
        (b"\x80\x02K\x01.", "holds a int"),
        (b"\x80\x02}K\x01K\x02s.", "keys are no names"),
        (b"\x80\x02ccollections\nOrderedDict\nK\x01\x85R.", "makes no tensor"),
        (b"\x80\x02K\x01Q.", "persistent id that is no storage"),
        (b"\x80\x02j\xff\xff\xff\x7f.", "a damaged pickle"),
        (b"R.", "a damaged pickle"),
        (b"", "a damaged pickle"),
        (pickle.dumps({"w": np.zeros(3)}, 2), "the name 'numpy"),
        (pickle.dumps({"w": 1.5 + 2j}, 2), "the name '__builtin__ complex'"),
        (pickle.dumps({"w": {1, 2}}, 4), r"the instruction b\'.x8f\'"),
    ],
)
def test_other_pickles_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        described(data, "file")


def test_what_is_no_tensor_is_left_out() -> None:
    assert described(pickle.dumps({"epoch": 3, "name": "x"}, 2), "file") == {}
    found = described(tensor((2, 3), (3, 1)), "file")
    assert found == {"w": Described(Storage("F32", "0", 6), 0, (2, 3), (3, 1))}


def test_archives_are_checked_before_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, path = tensor((2, 3), (3, 1)), tmp_path / "w.bin"
    for storage in (bytes(20), bytes(28)):
        with pytest.raises(CheckpointError, match=f"{len(storage)} bytes for 6 numbers"):
            TorchFile(zipped(path, good, storage)).read(["w"])
    with pytest.raises(CheckpointError, match="compressed, or of"):
        TorchFile(zipped(path, good, compression=zipfile.ZIP_DEFLATED)).read(["w"])
    path.write_bytes(b"not a zip")
    with pytest.raises(CheckpointError, match=r"not a file of torch\.save"):
        _ = TorchFile(path).names
    monkeypatch.setattr("tacita.checkpoint.weights.MAX_PICKLE_BYTES", 10)
    with pytest.raises(CheckpointError, match=r"'data\.pkl': compressed, or of"):
        _ = TorchFile(zipped(path, good)).names


def test_a_damaged_archive_raises_nothing_else(tmp_path: Path) -> None:
    data, path = STATE.read_bytes(), tmp_path / "w.bin"
    rng = np.random.default_rng(0)
    for _ in range(300):
        changed = bytearray(data)
        for at in rng.integers(0, len(data), 3):
            changed[at] = rng.integers(0, 256)
        path.write_bytes(changed)
        try:
            stored = TorchFile(path)
            stored.read(stored.names)
        except CheckpointError:
            pass


def sharded(folder: Path, suffix: str = ".safetensors") -> dict[str, Any]:
    """The folder's weights in two files; returns the index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    files = {name: f"model-0000{1 + n % 2}-of-00002{suffix}" for n, name in enumerate(tensors)}
    for file in set(files.values()):
        save_file({name: values for name, values in tensors.items() if files[name] == file}, folder / file)
    return {"metadata": {}, "weight_map": files}


def test_shards_are_the_same_model(folder: Path) -> None:
    expected, index = load(folder), sharded(folder)
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert load(folder).sha256 == expected.sha256
    next(folder.glob("*00002-of-00002.safetensors")).unlink()
    with pytest.raises(CheckpointError, match="no such file"):
        load(folder)


@pytest.mark.parametrize(
    "file", ["../model.safetensors", "/etc/passwd", "a/b.safetensors", "..\\x.safetensors", "x.pkl", ".bin"]
)
def test_shards_outside_the_folder_are_refused(folder: Path, file: str) -> None:
    index = sharded(folder)
    index["weight_map"]["classifier.weight"] = file
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="is no file of this folder"):
        load(folder)


def test_an_index_that_lies_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index, path = sharded(folder), folder / "model.safetensors.index.json"
    swapped = {"model-00001-of-00002.safetensors": "model-00002-of-00002.safetensors"}
    lying = {name: swapped.get(file, file) for name, file in index["weight_map"].items()}
    path.write_text(json.dumps({"weight_map": lying}))
    with pytest.raises(CheckpointError, match=r"tensor .* is missing"):
        load(folder)
    path.write_text(json.dumps({"weight_map": [1]}))
    with pytest.raises(CheckpointError, match="no weight_map"):
        load(folder)
    path.write_text(json.dumps({"weight_map": {f"t{n}": f"{n}.bin" for n in range(1001)}}))
    with pytest.raises(CheckpointError, match="1001 shards"):
        load(folder)
    path.write_text(json.dumps(index))
    monkeypatch.setattr("tacita.checkpoint.weights.MAX_WEIGHT_BYTES", 1000)
    with pytest.raises(CheckpointError, match=r"shards of \d+ bytes"):
        load(folder)


def test_the_names_that_a_pickle_may_mention_are_these() -> None:
    assert REBUILD == "torch._utils _rebuild_tensor_v2" and pickles.ORDERED == "collections OrderedDict"
    assert all(name.startswith("torch ") and name.endswith("Storage") for name in pickles.STORAGES)
