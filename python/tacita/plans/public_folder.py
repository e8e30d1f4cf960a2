r"""The public part of a model as a folder: all that a client of a CKKS scheme needs, and no weights of the
encoder.

    public.json              format, version, the sha256 of each file below, and of all of this together
    plan.json                sizes, layouts, levels, rotation keys, labels
    tokenizer.json           \ none of the two for a model that
    embedding.safetensors    / starts from hidden states

Whoever reads it may have got it from anybody. Sizes are capped before anything is read, names are ours or
refused, and bytes are hashed before they are parsed. The hashes are against accidents; that the folder is the
one that a server published is seen by comparing `Public.sha256` with what `tacita publish` printed there.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tacita.errors import CheckpointError, FileError
from tacita.plans import json_fields
from tacita.plans import plan as plans
from tacita.plans.files import replacing, require
from tacita.plans.json_fields import canonical
from tacita.plans.plan import ModelInfo, Plan
from tacita.texts.embed import MAX_TOKENIZER_BYTES, parse_tokenizer
from tacita.texts.embedding import (
    Array,
    Embedder,
    EmbeddingConfig,
    Front,
    check_tensors,
    decode,
    parse_raw,
    stored_tensor,
    table_shapes,
    to_bytes,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FORMAT, VERSION = "tacita-public", 1
MANIFEST, PLAN, TOKENIZER, EMBEDDING = "public.json", "plan.json", "tokenizer.json", "embedding.safetensors"
CAPS = {
    PLAN: plans.MAX_BYTES,
    TOKENIZER: MAX_TOKENIZER_BYTES,
    EMBEDDING: 1 << 30,
}  # BERT-large's tables: 130 MB
MAX_MANIFEST_BYTES = 1 << 16
SHA256 = re.compile(r"[0-9a-f]{64}")
REMAKE = "fetch the public folder again, or make it with `tacita publish`"


@dataclass(frozen=True)
class Public:
    """front: None for a model that starts from hidden states. sha256: of the folder's manifest, hex; empty
    for a part that was not read from a folder."""

    plan: Plan
    front: Front | None = field(repr=False)
    sha256: str = ""


def public_of(plan: Plan, model: Embedder) -> Public:
    """What may be known of a model under this plan: of a checkpoint the embedding tables alone.

    Raises CheckpointError where the plan starts from texts and the model has no tokenizer. A model of images
    needs none: the file is then empty.
    """
    plan, embeddings = replace(plan, salt=""), plan.model.embeddings
    if embeddings is None:
        return Public(plan, None)
    if model.tokenizer is None and embeddings.image is None:
        raise CheckpointError("publish: the model has no tokenizer", hint="its folder needs tokenizer.json")
    tables = {name: model.tensors[name] for name in table_shapes(embeddings, plan.model.hidden)}
    return Public(plan, Front(embeddings, MappingProxyType(tables), model.tokenizer))


def table_bytes(model: Embedder, hidden: int) -> int:
    """Returns the bytes of the tables that `public_of` publishes, without a look at their numbers: two each
    where the model's file has float16, else four."""
    shapes = table_shapes(model.config, hidden)
    stored = {name: stored_tensor(model.tensors[name]) for name in shapes}
    half = {name for name, tensor in stored.items() if tensor is not None and tensor.stored.dtype == "<f2"}
    return sum(math.prod(shape) * (2 if name in half else 4) for name, shape in shapes.items())


def write_public(public: Public, folder: Path) -> str:
    """Writes the folder, `public.json` last; returns its sha256. Raises FileError, also for a folder with
    other files.

    What is in the folder is given away, so it may hold nothing else.
    """
    require_own(folder)
    contents = _contents(public)
    for name in CAPS.keys() - contents.keys():
        (folder / name).unlink(missing_ok=True)
    for name, data in contents.items():
        with replacing(folder / name) as temporary:
            temporary.write_bytes(data)
    body = {
        "format": FORMAT,
        "version": VERSION,
        "files": {name: _sha256(data) for name, data in contents.items()},
    }
    whole = _sha256(canonical(body))
    with replacing(folder / MANIFEST) as temporary:
        temporary.write_bytes(canonical({**body, "sha256": whole}) + b"\n")
    return whole


def open_public(folder: Path) -> Public:
    """Reads and checks a folder. Raises FileError: missing, too large, of another version, altered, no plan,
    bad tables."""
    path = folder / MANIFEST
    whole, files = parse_manifest(path, _read(path, MAX_MANIFEST_BYTES))
    contents = {name: _checked(folder / name, CAPS[name], sha256) for name, sha256 in files.items()}
    plan = plans.parse(_text(folder / PLAN, contents[PLAN]), str(folder / PLAN))
    if (plan.model.embeddings is not None) != (len(files) > 1):
        raise FileError(f"{folder / MANIFEST}: {len(files)} files do not belong to this plan", hint=REMAKE)
    return Public(plan, _front(folder, plan.model, contents), whole)


def _contents(public: Public) -> dict[str, bytes]:
    plan = {PLAN: public.plan.to_text().encode()}
    if public.front is None:
        return plan
    tokenizer = public.front.tokenizer
    return {
        **plan,
        TOKENIZER: tokenizer.to_str().encode() if tokenizer else b"",
        EMBEDDING: to_bytes(public.front.tensors),
    }


def require_own(folder: Path) -> None:
    """Raises FileError for a folder that holds other files."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if foreign := sorted(names - {MANIFEST, *CAPS}):
        raise FileError(
            f"{folder}: holds {foreign[0]!r:.60}, which is no part of a public folder",
            hint="choose an empty --output",
        )


def parse_manifest(path: Path, content: bytes) -> tuple[str, dict[str, str]]:
    """(sha256 of the whole, sha256 of each file). Raises FileError, whatever the content is."""
    data = _parsed(path, content)
    if data.pop("format", None) != FORMAT:
        raise FileError(
            f"{path}: not a public folder's list", hint="expected a file made by `tacita publish`"
        )
    if (version := data.pop("version", None)) != VERSION:
        raise FileError(f"{path}: version {version!s:.20}, this program reads {VERSION}", hint=REMAKE)
    whole, files = data.pop("sha256", None), data.pop("files", None)
    if data or not isinstance(files, dict) or set(files) not in ({PLAN}, set(CAPS)):
        raise FileError(f"{path}: lists other files or fields than those of a public folder", hint=REMAKE)
    if not all(isinstance(value, str) and SHA256.fullmatch(value) for value in (whole, *files.values())):
        raise FileError(f"{path}: holds something that is no sha256", hint=REMAKE)
    if _sha256(canonical({"format": FORMAT, "version": VERSION, "files": files})) != whole:
        raise FileError(f"{path}: content does not match its hash", hint=REMAKE)
    return whole, files


def _parsed(path: Path, data: bytes) -> dict[str, Any]:
    try:
        content = json_fields.loads(_text(path, data))
    except ValueError as error:
        raise FileError(f"{path}: not JSON ({error!s:.200})", hint=REMAKE) from error
    if not isinstance(content, dict):
        raise FileError(f"{path}: holds no object", hint=REMAKE)
    return content


def _checked(path: Path, cap: int, sha256: str) -> bytes:
    data = _read(path, cap)
    if _sha256(data) != sha256:
        raise FileError(f"{path}: content does not match its hash in {MANIFEST}", hint=REMAKE)
    return data


def _read(path: Path, cap: int) -> bytes:
    require(path, "publish")
    try:
        with path.open("rb") as file:
            data = file.read(cap + 1)
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error})", hint=REMAKE) from error
    if len(data) > cap:
        raise FileError(f"{path}: more than {cap} bytes", hint="is this another file?")
    return data


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: not text ({error})", hint=REMAKE) from error


def _front(folder: Path, model: ModelInfo, contents: Mapping[str, bytes]) -> Front | None:
    if model.embeddings is None:
        return None
    try:
        tokenizer = _tokenizer(folder / TOKENIZER, model.embeddings, contents[TOKENIZER])
        tables = parse_tables(
            str(folder / EMBEDDING), contents[EMBEDDING], table_shapes(model.embeddings, model.hidden)
        )
    except CheckpointError as error:
        raise FileError(str(error), hint=REMAKE) from error
    return Front(model.embeddings, tables, tokenizer)


def _tokenizer(path: Path, config: EmbeddingConfig, content: bytes) -> Tokenizer | None:
    """Reads the tokenizer; None for a model of images, whose file is empty. Raises CheckpointError,
    FileError."""
    if config.image is None:
        return parse_tokenizer(_text(path, content), config.vocab, str(path))
    if content:
        raise FileError(f"{path}: {len(content)} bytes, of a model of images", hint=REMAKE)
    return None


def parse_tables(where: str, data: bytes, shapes: Mapping[str, tuple[int, ...]]) -> Mapping[str, Array]:
    """Reads exactly these tensors. Raises CheckpointError, whatever the data is."""
    raw = parse_raw(data, where)
    if set(raw) != set(shapes):
        raise CheckpointError(f"{where}: {len(raw)} tensors, the plan has {len(shapes)} others", hint=REMAKE)
    for name, shape in shapes.items():  # before they are widened to float64
        if tuple(raw[name]["shape"]) != shape:
            raise CheckpointError(f"{where}: tensor {name} has another shape than the plan says", hint=REMAKE)
    tables = {name: decode(where, name, raw[name]) for name in shapes}
    check_tensors(where, tables, shapes)
    return MappingProxyType(tables)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
