"""The float32 weights and the nodes of an ONNX file, without the packages of ONNX and without running it.

An ONNX file is one message of protocol buffers (onnx.proto of the ONNX project): a sequence of fields, each a
number and a value. Of all fields these are read: the graph (7 of a model), its nodes (1) with their inputs
(1), outputs (2) and names (3), and its tensors (5) with their sides (1), type (2), name (8) and bytes (9).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
GRAPH = 7  # of a model
NODE, TENSOR = 1, 5  # of a graph
INPUT, OUTPUT, NODE_NAME = 1, 2, 3
DIMENSION, TYPE, TENSOR_NAME, BYTES = 1, 2, 8, 9
FLOAT32 = 1
VARINT, EIGHT_BYTES, COUNTED, FOUR_BYTES = 0, 1, 2, 5  # how a value is written


@dataclass(frozen=True)
class Node:
    """name: a path such as "/encoder/layer.0/mlp/fc1/MatMul". inputs, outputs: names of tensors."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def read(path: Path) -> tuple[list[Node], dict[str, Array]]:
    """Nodes in the graph's order, and the tensors by name; those of integers are left out. Raises ValueError
    for a damaged file."""
    (graph,) = _all(memoryview(path.read_bytes()), GRAPH)
    nodes = [_node(value) for value in _all(graph, NODE)]
    return nodes, dict(filter(None, map(_tensor, _all(graph, TENSOR))))


def _node(message: memoryview) -> Node:
    (name,) = _texts(message, NODE_NAME)
    return Node(name, _texts(message, INPUT), _texts(message, OUTPUT))


def _tensor(message: memoryview) -> tuple[str, Array] | None:
    """Name and numbers; None for integers."""
    (name,) = _texts(message, TENSOR_NAME)
    shape: list[int] = []
    kind, data = 0, memoryview(b"")
    for field, value in _fields(message):
        if field == DIMENSION:
            shape += [value] if isinstance(value, int) else _packed(value)
        elif field == TYPE and isinstance(value, int):
            kind = value
        elif field == BYTES and not isinstance(value, int):
            data = value
    return (name, np.frombuffer(data, "<f4").reshape(shape)) if kind == FLOAT32 else None


def _texts(message: memoryview, field: int) -> tuple[str, ...]:
    return tuple(str(value, "utf-8") for value in _all(message, field))


def _all(message: memoryview, field: int) -> list[memoryview]:
    """The values of a field that are counted bytes."""
    return [value for found, value in _fields(message) if found == field and not isinstance(value, int)]


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of every field: an integer, or the bytes of a text, a message or a number."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        field, written = key >> 3, key & 7
        if written == VARINT:
            value, at = _varint(message, at)
            yield field, value
            continue
        size, at = _size(message, at, written)
        if at + size > len(message):
            raise ValueError(f"field {field} of {size} bytes, where {len(message) - at} are left")
        yield field, message[at : at + size]
        at += size


def _size(message: memoryview, at: int, written: int) -> tuple[int, int]:
    """Bytes of a value, and where it begins."""
    if written == COUNTED:
        return _varint(message, at)
    if written not in (EIGHT_BYTES, FOUR_BYTES):
        raise ValueError(f"a value written in way {written}: not an ONNX file")
    return (8 if written == EIGHT_BYTES else 4), at


def _packed(message: memoryview) -> list[int]:
    found, at = [], 0
    while at < len(message):
        value, at = _varint(message, at)
        found.append(value)
    return found


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first, and where it ends."""
    value = shift = 0
    while at < len(message) and shift < 70:
        byte = message[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at
    raise ValueError("a number that does not end: not an ONNX file")
