"""Nodes and float32 tensors of an ONNX file, without the onnx package.

ONNX is protobuf: a message is a row of fields, each a key (number * 8 + type) and a value. The numbers used
here are those of onnx.proto: ModelProto.graph = 7; GraphProto.node = 1, initializer = 5; NodeProto.input = 1,
output = 2, name = 3, op_type = 4; TensorProto.dims = 1, data_type = 2, name = 8, raw_data = 9.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
FLOAT = 1  # TensorProto.DataType
VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5


@dataclass(frozen=True)
class Node:
    """One operation. inputs, outputs: names of tensors. name: such as "/encoder/layer.0/mlp/fc1/MatMul"."""

    operation: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    name: str = ""


@dataclass(frozen=True)
class Graph:
    """Nodes in the order in which they run, and the stored float32 tensors by name."""

    nodes: tuple[Node, ...]
    tensors: dict[str, Array]


def read_graph(path: Path) -> Graph:
    """Raises ValueError for a file without a graph."""
    parts = [value for number, value in fields(memoryview(path.read_bytes())) if number == 7]
    if len(parts) != 1 or isinstance(parts[0], int):
        raise ValueError(f"{path}: {len(parts)} graphs")
    inside = [(number, value) for number, value in fields(parts[0]) if not isinstance(value, int)]
    tensors = dict(filter(None, (_tensor(value) for number, value in inside if number == 5)))
    return Graph(tuple(_node(value) for number, value in inside if number == 1), tensors)


def fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of each field. Raises ValueError for a type that protobuf does not have.

    >>> [(number, value if isinstance(value, int) else bytes(value)) for number, value in
    ...  fields(memoryview(bytes([8, 150, 1, 18, 2, 65, 66])))]
    [(1, 150), (2, b'AB')]
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind, size = key & 7, {EIGHT: 8, FOUR: 4}.get(key & 7)
        if kind not in (VARINT, EIGHT, BYTES, FOUR):
            raise ValueError(f"field {key >> 3} of type {kind}")
        if kind == VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if size is None:
            size, at = _varint(message, at)
        if at + size > len(message):
            raise ValueError(f"field {key >> 3} of {size} bytes, {len(message) - at} are left")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first -> number, where it ends."""
    number = shift = 0
    while at < len(message):
        byte = message[at]
        number, shift, at = number | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return number, at
    raise ValueError("a number without its end")


def _packed(message: memoryview) -> Iterator[int]:
    """Yields the numbers of a field that has several."""
    at = 0
    while at < len(message):
        number, at = _varint(message, at)
        yield number


def _node(message: memoryview) -> Node:
    found: dict[int, list[str]] = {1: [], 2: [], 3: [], 4: []}
    for number, value in fields(message):
        if number in found and not isinstance(value, int):
            found[number].append(bytes(value).decode())
    return Node(found[4][0], tuple(found[1]), tuple(found[2]), "".join(found[3]))


def _tensor(message: memoryview) -> tuple[str, Array] | None:
    """None for other than float32 numbers stored as bytes."""
    given = list(fields(message))
    sides = (value for number, value in given if number == 1)
    shape = [side for value in sides for side in ([value] if isinstance(value, int) else _packed(value))]
    one = dict(given)
    name, raw = one.get(8), one.get(9)
    if one.get(2) != FLOAT or not isinstance(name, memoryview) or not isinstance(raw, memoryview):
        return None
    return bytes(name).decode(), np.frombuffer(raw, "<f4").reshape(shape)
