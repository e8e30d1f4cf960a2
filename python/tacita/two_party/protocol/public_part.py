"""What a server publishes of its model to every client of the two-party mode, as bytes.

The program of the plan, the tokenizer and, when the embedding is published, the embedding tables with their
LayerNorm: with these the client turns a text into hidden states by itself. When it is hidden, the word table
encrypted under a key of the server instead, from which the client chooses without telling what. Layout,
little endian:

    magic (10) | program length u32 | tokenizer length u32 | length of the encrypted table u64
    | table count u16 | bytes an element u8 for each table | program, canonical JSON | tokenizer.json
    | encrypted table | tables, floats, in alphabetical order

Names and shapes of the tables follow from the program. Everything comes from a peer: lengths are capped
before they are used.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tacita.errors import CheckpointError, FileError
from tacita.texts.embed import MAX_TOKENIZER_BYTES, parse_tokenizer
from tacita.texts.embedding import Embedder, Front, narrowest
from tacita.texts.embedding import table_shapes as shapes_of
from tacita.two_party.program.program import MAX_BYTES as MAX_PROGRAM_BYTES
from tacita.two_party.program.program import Program
from tacita.two_party.program.program import decode as decode_program
from tacita.two_party.program.program import encode as encode_program

Array = NDArray[np.float64]

MAGIC = b"TACITA-PP\1"
HEAD = struct.Struct("<10sIIQH")
MAX_BYTES = 1 << 30  # of the whole part; BERT-large's tables in float32 are 130 MB
TABLE_KEYS, TOKENIZER = 1_460_000, 32  # bytes of a hidden table's keys; of tokenizer.json for each word
ELEMENT = {2: "<f2", 4: "<f4", 8: "<f8"}
HINT = "the server is not a tacita server of this release, or the copy is damaged"


@dataclass(frozen=True)
class PublicPart:
    """A published part, decoded. plan: what a client knows of it; tokenizer: content of tokenizer.json, empty
    of a model of images; tables: embedding tensors by Hugging Face's names, none when they are hidden.

    encrypted: the word table as the engine encrypts it, when it is hidden.
    """

    plan: Program
    tokenizer: str
    tables: Mapping[str, Array]
    encrypted: bytes = field(default=b"", repr=False)

    @cached_property
    def front(self) -> Front:
        """The client's part of the model: tokenizer and embedding, no encoder. Raises FileError for a bad
        tokenizer."""
        config = self.plan.front
        if config.image is not None:
            return Front(config, MappingProxyType(dict(self.tables)), None)
        try:
            tokenizer = parse_tokenizer(self.tokenizer, config.vocab, "the server's tokenizer")
        except CheckpointError as error:
            raise FileError(str(error), hint=HINT) from None
        return Front(config, MappingProxyType(dict(self.tables)), tokenizer)


def public_part(plan: Program, checkpoint: Embedder, encrypted: bytes = b"") -> PublicPart:
    """Collects what the plan says is published of this checkpoint. Raises CheckpointError when it has no
    tokenizer.

    encrypted: the word table, for a plan that hides it.
    """
    if checkpoint.tokenizer is None and plan.front.image is None:
        raise CheckpointError(
            "two-party mode: the model has no tokenizer", hint="its folder needs tokenizer.json"
        )
    tables = {name: checkpoint.tensors[name] for name in table_shapes(plan)}
    tokenizer = checkpoint.tokenizer.to_str() if checkpoint.tokenizer else ""
    return PublicPart(plan, tokenizer, tables, encrypted)


def table_shapes(plan: Program) -> dict[str, tuple[int, ...]]:
    """Returns name -> shape of each published table, in alphabetical order."""
    return {} if plan.hides else dict(sorted(shapes_of(plan.front, plan.hidden).items()))


def most_bytes(plan: Program, ring: int = 0) -> int:
    """Bounds the bytes of a part of whose model only the plan is known: tables as float32, or the table of
    words encrypted, in a ring of so many bits; and about what a tokenizer takes."""
    tables = 4 * sum(math.prod(shape) for shape in table_shapes(plan).values())
    if plan.hides:
        tables = TABLE_KEYS + plan.vocab * plan.hidden * (ring + 2) // 8
    return tables + len(encode_program(plan)) + (0 if plan.front.image else TOKENIZER * plan.vocab)


def encode(part: PublicPart) -> bytes:
    """Returns the bytes that are sent and hashed. Floats take the fewest bytes that keep them exactly."""
    plan, tokenizer = encode_program(part.plan), part.tokenizer.encode()
    tables = [narrowest(part.tables[name]) for name in table_shapes(part.plan)]
    head = HEAD.pack(MAGIC, len(plan), len(tokenizer), len(part.encrypted), len(tables))
    sizes = bytes(table.dtype.itemsize for table in tables)
    return b"".join([head, sizes, plan, tokenizer, part.encrypted, *(table.tobytes() for table in tables)])


def digest(data: bytes) -> bytes:
    """Returns the sha256 of an encoded part."""
    return hashlib.sha256(data).digest()


def decode(data: bytes) -> PublicPart:
    """Decodes what `encode` returns. Raises FileError on anything else."""
    if len(data) < HEAD.size or len(data) > MAX_BYTES:
        raise _damaged(f"{len(data)} bytes")
    magic, plan_length, tokenizer_length, table_length, count = HEAD.unpack_from(data)
    if magic != MAGIC or plan_length > MAX_PROGRAM_BYTES or tokenizer_length > MAX_TOKENIZER_BYTES:
        raise _damaged("not a public part")
    reader = _Reader(data, HEAD.size)
    sizes = reader.take(count)
    plan = decode_program(reader.take(plan_length))
    shapes = table_shapes(plan)
    if len(shapes) != count or not set(sizes) <= set(ELEMENT):
        raise _damaged(f"{count} tables, the plan has {len(shapes)}")
    if bool(table_length) != plan.hides:
        raise _damaged(f"an encrypted table of {table_length} bytes, of a plan without or with one")
    tokenizer = reader.text(tokenizer_length)
    encrypted = reader.take(table_length)
    tables = {
        name: reader.table(shape, size) for (name, shape), size in zip(shapes.items(), sizes, strict=True)
    }
    reader.end()
    return PublicPart(plan, tokenizer, MappingProxyType(tables), encrypted)


class _Reader:
    """Takes pieces from the front; a piece that is not there is an error."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    def take(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise _damaged(f"it ends after {len(self._data)} bytes")
        self._at += count
        return self._data[self._at - count : self._at]

    def text(self, count: int) -> str:
        try:
            return self.take(count).decode()
        except UnicodeDecodeError as error:
            raise _damaged(f"the tokenizer is not text ({error})") from None

    def table(self, shape: tuple[int, ...], size: int) -> Array:
        raw = np.frombuffer(self.take(math.prod(shape) * size), ELEMENT[size])
        if not np.isfinite(raw).all():
            raise _damaged("an embedding table holds NaN or infinity")
        table = raw.astype(np.float64).reshape(shape)
        table.flags.writeable = False
        return table

    def end(self) -> None:
        if self._at != len(self._data):
            raise _damaged(f"{len(self._data) - self._at} bytes too many")


def _damaged(what: str) -> FileError:
    return FileError(f"public part of the model: {what}", hint=HINT)
