"""Envelopes and atomic files: what is written comes back, and nothing damaged or foreign is accepted."""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Iterator
from pathlib import Path

import envelopes
import pytest
from test_plan import make_plan

from tacita import resources
from tacita.errors import FileError, ResourceError
from tacita.plans import envelope
from tacita.plans.envelope import MAGIC, PREFIX
from tacita.plans.files import replacing, require, write_text
from tacita.plans.plan import TensorInfo

KEY = "ab" * 16


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    path = tmp_path / "request.ct"
    tensors = {"x": [b"first" * 20], "mask": [b"second" * 30]}
    envelopes.write(path, "request", make_plan().hash, KEY, tensors)
    return path


def test_round_trip(sent: Path) -> None:
    found = list(envelope.stream(sent, "request", make_plan(), KEY))
    assert found == [("mask", 0, b"second" * 30), ("x", 0, b"first" * 20)]


def test_a_stream_writes_the_same_file_and_reads_one_by_one(sent: Path, tmp_path: Path) -> None:
    plan = dataclasses.replace(
        make_plan(), request=(TensorInfo("x", 3, 5, "real"), TensorInfo("mask", 1, 13, "real"))
    )
    made: list[int] = []

    def ciphertexts() -> Iterator[bytes]:
        for i in range(3):
            made.append(i)
            yield bytes([i]) * 1000

    path, whole = tmp_path / "streamed.ct", tmp_path / "whole.ct"
    envelope.write_stream(path, "request", plan, KEY, {"x": ciphertexts(), "mask": iter([b"m" * 10])})
    tensors = {"x": [bytes([i]) * 1000 for i in range(3)], "mask": [b"m" * 10]}
    envelopes.write(whole, "request", plan.hash, KEY, tensors)
    assert path.read_bytes() == whole.read_bytes()
    assert made == [0, 1, 2]
    found = list(envelope.stream(path, "request", plan, KEY))
    assert found == [("mask", 0, b"m" * 10), *(("x", i, ct) for i, ct in enumerate(tensors["x"]))]


@pytest.mark.parametrize("cts", [[], [b"12", b"123"], [b"12"], [b"12", b"34", b"56"]])
def test_a_stream_that_is_not_the_plans_leaves_the_old_file(sent: Path, cts: list[bytes]) -> None:
    plan = dataclasses.replace(make_plan(), request=(TensorInfo("x", 2, 5, "real"),))
    before = sent.read_bytes()
    with pytest.raises(FileError, match="of x does not fit 2 of"):
        envelope.write_stream(sent, "request", plan, KEY, {"x": iter(cts)})
    assert sent.read_bytes() == before
    assert [entry.name for entry in sent.parent.iterdir()] == [sent.name]


def test_nothing_is_handed_out_of_a_damaged_file(sent: Path) -> None:
    whole = sent.read_bytes()
    sent.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(FileError, match="checksum"):
        next(envelope.stream(sent, "request", make_plan(), KEY))


def test_every_truncation_is_refused(sent: Path) -> None:
    whole = sent.read_bytes()
    for size in range(len(whole)):
        sent.write_bytes(whole[:size])
        with pytest.raises(FileError):
            list(envelope.stream(sent, "request", make_plan(), KEY))


def test_every_flipped_bit_is_refused(sent: Path) -> None:
    whole = sent.read_bytes()
    for index in range(len(whole)):
        sent.write_bytes(whole[:index] + bytes([whole[index] ^ (1 << index % 8)]) + whole[index + 1 :])
        with pytest.raises(FileError):
            list(envelope.stream(sent, "request", make_plan(), KEY))


def test_trailing_bytes_are_refused(sent: Path) -> None:
    sent.write_bytes(sent.read_bytes() + b"!")
    with pytest.raises(FileError, match="bytes where its header says"):
        list(envelope.stream(sent, "request", make_plan(), KEY))


def test_other_plan_key_or_kind_is_named(sent: Path) -> None:
    other = dataclasses.replace(make_plan(), tokens=64)
    with pytest.raises(FileError, match="made under plan"):
        list(envelope.stream(sent, "request", other, KEY))
    with pytest.raises(FileError, match="made with key abababababab, this is key cdcdcdcdcdcd"):
        list(envelope.stream(sent, "request", make_plan(), "cd" * 16))
    with pytest.raises(FileError, match="a request, expected a response"):
        list(envelope.stream(sent, "response", make_plan(), KEY))


def test_other_version_and_oversize_header(sent: Path) -> None:
    whole = sent.read_bytes()
    _, _, length = PREFIX.unpack(whole[: PREFIX.size])
    sent.write_bytes(PREFIX.pack(MAGIC, 9, length) + whole[PREFIX.size :])
    with pytest.raises(FileError, match="format version 9, this program reads 1"):
        list(envelope.stream(sent, "request", make_plan(), KEY))
    sent.write_bytes(PREFIX.pack(MAGIC, 1, 1 << 31) + whole[PREFIX.size :])
    with pytest.raises(FileError, match="the cap is"):
        list(envelope.stream(sent, "request", make_plan(), KEY))


def test_a_header_that_claims_too_much_is_not_allocated(tmp_path: Path) -> None:
    header = json.dumps(
        {"kind": "request", "plan": make_plan().hash, "key": KEY, "tensors": {"x": [1 << 60], "mask": [1]}}
    )
    path = tmp_path / "request.ct"
    path.write_bytes(struct.pack("<10sHI", MAGIC, 1, len(header)) + header.encode() + b"\0" * 64)
    with pytest.raises(FileError, match="bytes where its header says"):
        list(envelope.stream(path, "request", make_plan(), KEY))


def test_a_file_over_the_cap_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "request.ct"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(FileError, match="has at most"):
        list(envelope.stream(path, "request", make_plan(), KEY))


def test_missing_ciphertexts_are_named(tmp_path: Path) -> None:
    path = tmp_path / "request.ct"
    envelopes.write(path, "request", make_plan().hash, KEY, {"x": [b"1"]})
    with pytest.raises(FileError, match=r"holds \{'x': 1\} ciphertexts, the plan says \{'x': 1, 'mask': 1\}"):
        list(envelope.stream(path, "request", make_plan(), KEY))


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    write_text(path, "old")
    with pytest.raises(KeyboardInterrupt), replacing(path, mode=0o600) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["secret.key"]


def test_secret_files_are_private_from_the_first_byte(tmp_path: Path) -> None:
    with replacing(tmp_path / "secret.key", mode=0o600) as temporary:
        assert temporary.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "secret.key").stat().st_mode & 0o777 == 0o600


def test_missing_files_name_their_command(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file") as caught:
        require(tmp_path / "plan.json", "plan")
    assert caught.value.hint == "make it with `tacita plan`"


def test_too_little_memory_or_disk_is_said_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "available_memory", lambda: int(2e9))
    with pytest.raises(ResourceError, match=r"evaluate needs 11\.0 GB of memory, 2\.0 GB are available"):
        resources.require_memory(int(11e9), "evaluate")
    with pytest.raises(ResourceError, match="keygen needs"):
        resources.require_disk(tmp_path / "not" / "made" / "yet", 1 << 60, "keygen")
    resources.require_memory(int(1e9), "evaluate")
    resources.require_disk(tmp_path, 1, "keygen")
