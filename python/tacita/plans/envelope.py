"""Requests and responses on disk: named tensors of ciphertexts, bound to one plan and one key.

Layout, little endian:  magic (10) | version u16 | header length u32 | header, canonical JSON | ciphertexts,
tensors in alphabetical order | sha256 of all that precedes (32).  The header names kind, plan hash, key id
and, for each tensor, the byte lengths of its ciphertexts. Everything is capped and compared with the plan
before a ciphertext is parsed; the ciphertexts themselves carry their own header, which the engine checks
against the parameters.

Where a text is asked row by row (`Plan.kept`), the header of a request also says `after`: the sha256 of the
request before it, empty in the first. A request's own sha256 thereby stands for all of its text so far. The
`after` of a response is the sha256 of the request that it answers; one of an earlier release has none.

A batch is gigabytes: `write_stream` takes ciphertexts as they are made, `stream` hands them out one by one.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

from tacita.errors import FileError
from tacita.plans.files import replacing
from tacita.plans.json_fields import canonical
from tacita.plans.plan import ParameterInfo, Plan, TensorInfo

MAGIC = b"TACITA-CT\0"
VERSION = 1
HEADER_CAP = 1 << 20
CIPHERTEXT_OVERHEAD = 1 << 16  # headers of one ciphertext, with room
PREFIX = struct.Struct("<10sHI")
CHUNK = 1 << 20  # bytes hashed at a time
Kind = Literal["request", "response"]
KINDS = get_args(Kind)
HEX = re.compile(r"[0-9a-f]{8,64}")  # hash of a plan, id of a key
AFTER = "after"
SHA256_OR_NONE = re.compile(r"([0-9a-f]{64})?")
NAME = re.compile(r"[a-z_]{1,32}")  # of a tensor
MOST_TENSORS = 16


def write_stream(
    path: Path, kind: Kind, plan: Plan, key: str, tensors: Mapping[str, Iterator[bytes]], after: str = ""
) -> None:
    """Writes the file in one step, with ciphertexts made meanwhile: the first of each tensor is in memory,
    and one more. after: of a response, and of a request of a plan that keeps rows, see the module.

    A tensor is at one level, so the first of its ciphertexts tells the length of all. Raises FileError when
    one has another length or when the plan's counts are not met; the old file, if any, then stays.
    """
    counts = {tensor.name: tensor.count for tensor in _expected(kind, plan)}
    firsts = {name: next(cts, b"") for name, cts in sorted(tensors.items())}
    lengths = {name: [len(first)] * counts.get(name, 0) for name, first in firsts.items()}
    bodies = {name: chain([first], tensors[name]) for name, first in firsts.items()}
    checked = {name: _of_lengths(path, name, cts, lengths[name]) for name, cts in bodies.items()}
    write(path, kind, plan.hash, key, lengths, checked, after if after or _ordered(kind, plan) else None)


def stream(path: Path, kind: Kind, plan: Plan, key: str) -> Iterator[tuple[str, int, bytes]]:
    """(tensor, index, ciphertext) one after the other, tensors in alphabetical order; raises FileError
    saying how the file differs from plan and key.

    A first pass over the file checks header, size and checksum, so nothing is handed out of a damaged file.
    """
    with _open_file(path, kind) as file:
        lengths = _checked(file, path, kind, plan, key)
        for name, row in sorted(lengths.items()):
            for index, length in enumerate(row):
                yield name, index, file.read(length)


def key_of(path: Path, kind: Kind) -> str:
    """The id of the key that a file says it was made with; `stream` checks the rest. Raises FileError for a
    file without a whole header."""
    with _open_file(path, kind) as file:
        return str(_header(file, path, hashlib.sha256())["key"])


def after_of(path: Path, kind: Kind = "request") -> str:
    """The sha256 of the request that a file says it follows or answers, hex; empty for the first of a text,
    for one of a plan that keeps nothing, and for a response of an earlier release. `stream` checks the rest.
    Raises FileError as `key_of`."""
    with _open_file(path, kind) as file:
        return str(_header(file, path, hashlib.sha256()).get(AFTER, ""))


def most_bytes(kind: Kind, plan: Plan) -> int:
    """Largest size that a file of this plan can have: who receives one takes no more."""
    return _cap(_expected(kind, plan), plan.parameters)


def write(
    path: Path,
    kind: Kind,
    plan: str,
    key: str,
    lengths: Mapping[str, Sequence[int]],
    tensors: Mapping[str, Iterable[bytes]],
    after: str | None = None,
) -> None:
    """Writes the file in one step. plan: its hash. lengths: of the ciphertexts of each tensor."""
    fields = {"kind": kind, "plan": plan, "key": key, "tensors": lengths}
    header = canonical(fields if after is None else {**fields, AFTER: after})
    digest = hashlib.sha256()
    with replacing(path) as temporary, temporary.open("wb") as file:
        for part in _parts(header, tensors):
            digest.update(part)
            file.write(part)
        file.write(digest.digest())


def _parts(header: bytes, tensors: Mapping[str, Iterable[bytes]]) -> Iterator[bytes]:
    yield PREFIX.pack(MAGIC, VERSION, len(header))
    yield header
    for name in sorted(tensors):
        yield from tensors[name]


def _of_lengths(path: Path, name: str, cts: Iterable[bytes], lengths: Sequence[int]) -> Iterator[bytes]:
    """The ciphertexts, refused when the header, already written, would be wrong about them."""
    count = 0
    for count, ct in enumerate(cts, 1):
        if count > len(lengths) or len(ct) != lengths[count - 1] or not ct:
            break
        yield ct
    else:
        if count == len(lengths):
            return
    raise FileError(
        f"{path}: ciphertext {count} of {name} does not fit {len(lengths)} of {lengths[:1]} bytes",
        hint="the tensors must be those of the plan, each at one level",
    )


def _ordered(kind: Kind, plan: Plan) -> bool:
    """Whether a file says what it follows."""
    return kind == "request" and bool(plan.kept)


def _expected(kind: Kind, plan: Plan) -> tuple[TensorInfo, ...]:
    match kind:
        case "request":
            return plan.request
        case "response":
            return plan.response
        case _:
            raise FileError(f"a file of kind {kind!r}", hint="a request or a response")


def _cap(tensors: Sequence[TensorInfo], parameters: ParameterInfo) -> int:
    """Largest size that a file with these tensors can have: unpacked residues at the top level, and
    headers."""
    limbs = parameters.max_level + 3
    one = 2 * limbs * 8 * (1 << parameters.log_n) + CIPHERTEXT_OVERHEAD
    return HEADER_CAP + sum(tensor.count for tensor in tensors) * one


@contextmanager
def _open_file(path: Path, kind: Kind) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error})", hint=f"is it the {kind} file?") from error


def _checked(file: BinaryIO, path: Path, kind: Kind, plan: Plan, key: str) -> dict[str, list[int]]:
    """Lengths of the ciphertexts of a whole and fitting file, which is left where the first of them
    begins."""
    expected, size = _expected(kind, plan), path.stat().st_size
    if size > (cap := most_bytes(kind, plan)):
        raise FileError(f"{path}: {size} bytes, a {kind} of this plan has at most {cap}", hint="wrong file?")
    digest = hashlib.sha256()
    header = _header(file, path, digest)
    _check_header(header, path, kind, plan, key, expected)
    if kind == "request" and (AFTER in header) != _ordered(kind, plan):
        raise FileError(f"{path}: damaged header (fields)", hint="copy it again")
    lengths: dict[str, list[int]] = header["tensors"]
    begin = file.tell()
    body = sum(sum(row) for row in lengths.values())
    if (whole := begin + body + digest.digest_size) != size:
        raise FileError(
            f"{path}: {size} bytes where its header says {whole}", hint="truncated; copy it again"
        )
    for at in range(0, body, CHUNK):
        _take(file, min(CHUNK, body - at), digest)
    if file.read() != digest.digest():
        raise FileError(f"{path}: checksum does not match", hint="damaged on the way; copy it again")
    file.seek(begin)
    return lengths


def _header(file: BinaryIO, path: Path, digest: Any) -> dict[str, Any]:
    prefix = _take(file, PREFIX.size, digest)
    if len(prefix) < PREFIX.size or prefix[: len(MAGIC)] != MAGIC:
        raise FileError(
            f"{path}: not a ciphertext file", hint="expected a file made by `tacita encrypt` or `evaluate`"
        )
    _, version, length = PREFIX.unpack(prefix)
    if version != VERSION:
        raise FileError(
            f"{path}: format version {version}, this program reads {VERSION}", hint="use one release"
        )
    if length > HEADER_CAP:
        raise FileError(f"{path}: header of {length} bytes, the cap is {HEADER_CAP}", hint="damaged file")
    try:
        header = json.loads(_take(file, length, digest))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: damaged header ({type(error).__name__})", hint="copy it again") from error
    if not _well_formed(header):
        raise FileError(f"{path}: damaged header (fields)", hint="copy it again")
    return dict(header)


def _well_formed(header: Any) -> bool:
    """Types, and only characters that may be shown in an error: whoever wrote the file chose them."""
    if not isinstance(header, dict) or set(header) - {AFTER} != {"kind", "plan", "key", "tensors"}:
        return False
    if not (isinstance(before := header.get(AFTER, ""), str) and SHA256_OR_NONE.fullmatch(before)):
        return False
    if header["kind"] not in KINDS or not isinstance(header["tensors"], dict):
        return False
    hashes = all(isinstance(header[field], str) and HEX.fullmatch(header[field]) for field in ("plan", "key"))
    names = len(header["tensors"]) <= MOST_TENSORS and all(map(NAME.fullmatch, header["tensors"]))
    rows = header["tensors"].values()
    return (
        hashes
        and names
        and all(isinstance(row, list) and all(type(n) is int and n > 0 for n in row) for row in rows)
    )


def _check_header(
    header: Mapping[str, Any], path: Path, kind: Kind, plan: Plan, key: str, expected: Sequence[TensorInfo]
) -> None:
    if header["kind"] != kind:
        raise FileError(f"{path}: a {header['kind']}, expected a {kind}", hint="the files were mixed up")
    if header["plan"] != plan.hash:
        raise FileError(
            f"{path}: made under plan {header['plan'][:12]}, this is {plan.hash[:12]}", hint="use one plan"
        )
    if header["key"] != key:
        raise FileError(
            f"{path}: made with key {header['key'][:12]}, this is key {key[:12]}", hint="another client's?"
        )
    counts = {name: len(row) for name, row in header["tensors"].items()}
    wanted = {tensor.name: tensor.count for tensor in expected}
    if counts != wanted:
        raise FileError(
            f"{path}: holds {counts} ciphertexts, the plan says {wanted}", hint="encrypt it again"
        )


def _take(file: BinaryIO, length: int, digest: Any) -> bytes:
    data = file.read(length)
    digest.update(data)
    return data
