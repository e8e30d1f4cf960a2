"""What sentence-transformers' files say about a folder: how a text's vector is read from the last hidden
states.

`modules.json` lists the modules in their order. Ours are Transformer (the encoder itself), Pooling, whose
`config.json` names exactly one way of pooling, and Normalize, which divides the vector by its length; a
cross-encoder has the first alone. Everything else that changes the vector is refused by name: another module
(Dense), a prompt in front of every text, a folder of its own for the encoder.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

from tacita.errors import CheckpointError, InputError
from tacita.models.fields import Fields, read_json, read_objects

MODULES, SETTINGS = "modules.json", "config_sentence_transformers.json"
PACKAGE = "sentence_transformers"
ORDERS = (("Transformer", "Pooling"), ("Transformer", "Pooling", "Normalize"))
ALONE = ("Transformer",)
MODE = "pooling_mode"  # older files have a flag for each way, such as pooling_mode_cls_token
MODES = ("cls", "mean")
REFUSED = {
    "max": "a maximum over encrypted tokens takes a comparison for each of them, in every feature",
    "mean_sqrt_len": "its divisor is the square root of the length; masks of requests hold 1/length",
    "weightedmean": "its weights grow with the position; masks of requests weigh all real tokens alike",
    "lasttoken": "which token is the last is hidden, so all of them would have to be computed and one "
    "selected",
}
SIZES, PROMPT = ("embedding_dimension", "word_embedding_dimension"), "include_prompt"
VECTOR, PLACES = "sentence_embedding", ("module_input_name", "module_output_name")  # of Normalize


@dataclass(frozen=True)
class Sentences:
    """What a folder of sentence-transformers says. pooling: "cls" or "mean". normalise: whether the vector is
    divided by its length."""

    pooling: str
    normalise: bool


def read_sentences(
    folder: Path, hidden: int, asked: str | None = None, orders: Collection[tuple[str, ...]] = ORDERS
) -> Sentences | None:
    """What the files of `folder` say, None where they say nothing of a vector. hidden: size of the model's
    hidden states. orders: of modules that are read.

    asked: the user's pooling, which then stands and whose file is not read; the other modules hold all the
    same. Raises CheckpointError naming file, field, value and the reason.
    """
    path = folder / MODULES
    if not path.is_file():
        _refuse_half(folder, asked)
        return None
    modules = _modules(path, orders)
    if modules["Transformer"]:
        raise CheckpointError(
            f"{path}: the encoder is in the folder {modules['Transformer']!r}",
            hint="only models at the top are read",
        )
    _refuse_changes(folder)
    if "Pooling" not in modules:
        return None
    if normalise := "Normalize" in modules:
        _require_division_by_length(_inside(folder, modules["Normalize"]) / "config.json")
    return Sentences(
        asked or _pooling(_inside(folder, modules["Pooling"]) / "config.json", hidden), normalise
    )


def _refuse_half(folder: Path, pooling: str | None) -> None:
    """Other files without modules.json: what comes after them, and whether they are used, is not known."""
    for name in ("1_Pooling/config.json", SETTINGS):
        if pooling is None and (folder / name).is_file():
            raise CheckpointError(
                f"{folder}: {name} without {MODULES}", hint="copy the whole folder, or say --pooling cls|mean"
            )


def _modules(path: Path, orders: Collection[tuple[str, ...]]) -> dict[str, str]:
    """Maps each kind of module to its folder, in the order of the file."""
    listed = read_objects(path)
    kinds = tuple(_kind(path, module) for module in listed)
    if kinds not in orders:
        known = " or ".join(", ".join(order) for order in orders)
        raise CheckpointError(
            f"{path}: modules {', '.join(kinds)}", hint=f"supported: {known}, in this order"
        )
    return {kind: str(module.get("path", "")) for kind, module in zip(kinds, listed, strict=True)}


def _kind(path: Path, module: Mapping[str, Any]) -> str:
    """Returns the kind of a module, such as Transformer for `sentence_transformers.models.Transformer`; a
    module of another package keeps its whole name."""
    name = str(module.get("type"))
    parts = name.split(".")
    kind = parts[-1] if parts[0] == PACKAGE else name
    if kind not in ORDERS[-1]:
        raise CheckpointError(
            f"{path}: module {name!r} is not implemented: it would change the vector",
            hint=f"supported: {', '.join(ORDERS[-1])}; without {MODULES}, --pooling says what the encoder "
            "alone gives",
        )
    return kind


def _inside(folder: Path, name: str) -> Path:
    """The module's own folder. Raises CheckpointError for one that is not inside the model's, once links are
    followed (files of a hub's cache are links to elsewhere, as config.json itself may be)."""
    parts, top = PurePosixPath(name), folder.resolve()
    place = (folder / parts).resolve()
    inside = place.is_relative_to(top) and place != top
    if not name or parts.is_absolute() or ".." in parts.parts or "\\" in name or not inside:
        raise CheckpointError(
            f"{folder / MODULES}: the path {name!r} is not inside the model's folder",
            hint="such as 1_Pooling",
        )
    return folder / parts


def _pooling(path: Path, hidden: int) -> str:
    """Returns the one way of pooling that the file names."""
    f = Fields(path, read_json(path))
    for name in f.data:
        if not name.startswith(MODE) and name not in (*SIZES, PROMPT):
            raise CheckpointError(
                f"{path}: unknown field {name!r}", hint="made by another version of the library?"
            )
    size = SIZES[0] if SIZES[0] in f.data else SIZES[1]
    if f.data.get(size) != hidden:
        f.refuse(size, f"the model has {hidden}: another model's?")
    f.only(PROMPT, True)
    flags = [name for name in f.data if name.startswith(f"{MODE}_") and f.flag(name, False)]
    ways = f.data.get(MODE, flags)
    ways = ways if isinstance(ways, list) else [ways]
    if len(ways) != 1:
        raise CheckpointError(
            f"{path}: {len(ways)} poolings are set {ways!s:.200}", hint="exactly one is supported"
        )
    way = str(ways[0]).removeprefix(f"{MODE}_").removesuffix("_tokens").removesuffix("_token")
    if way not in MODES:
        reason = REFUSED.get(way, "it is not known")
        raise CheckpointError(
            f"{path}: {ways[0]!s:.80} is not supported: {reason}", hint=f"supported: {', '.join(MODES)}"
        )
    return way


def _require_division_by_length(path: Path) -> None:
    """Raises CheckpointError where Normalize states another option than that it takes the vector."""
    stated = read_json(path) if path.is_file() else {}
    if unknown := sorted(
        name for name, value in stated.items() if name not in PLACES or value not in (None, VECTOR)
    ):
        raise CheckpointError(f"{path}: unknown fields {unknown}", hint="it divides the vector by its length")


CHANGES = (
    (SETTINGS, "default_prompt_name", "write the prompt before your texts yourself"),
    (SETTINGS, "truncate_dim", "take as many numbers of a vector yourself"),
    # older ones are called by the model's type, as sentence_roberta_config.json
    ("sentence_*_config.json", "do_lower_case", "let the tokenizer do it (normalizer, lowercase)"),
)


def _refuse_changes(folder: Path) -> None:
    """Raises CheckpointError where the library would change every text or vector in a further way."""
    for name, field, instead in CHANGES:
        for path in sorted(folder.glob(name)):
            if value := read_json(path).get(field):
                raise CheckpointError(f"{path}: {field} is {value!r}", hint=f"remove the field and {instead}")


# Sentences to calibrate on: a file of them, those that came with a model, or the package's.

FILE = "calibration.txt"  # also in a model's folder: texts of the kind that it was made for
MAX_TEXT_BYTES = 16 << 20


def load_texts(path: str | Path | None = None) -> tuple[str, ...]:
    """Reads one text a line, `#` lines left out; default: the shipped file. Errors: InputError (absent, too
    large, empty)."""
    shipped = resources.files("tacita.data").joinpath(FILE)
    content = shipped.read_text(encoding="utf-8") if path is None else _read(Path(path))
    lines = content.split("\n")  # as editors and `--file` count them
    texts = tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    if not texts:
        raise InputError(f"load_texts: {path} holds no text", hint="one text a line")
    return texts


def _read(path: Path) -> str:
    if not path.is_file() or path.stat().st_size > MAX_TEXT_BYTES:
        raise InputError(
            f"load_texts: {path} is absent or over {MAX_TEXT_BYTES} bytes", hint="one text a line"
        )
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"load_texts: {path} is not UTF-8 ({error.reason})", hint="save it as UTF-8"
        ) from None


def own_texts(folder: Path) -> tuple[str, ...]:
    """Returns the texts that came with the model of this folder; none without the file. Raises
    CheckpointError."""
    path = folder / FILE
    try:
        return load_texts(path) if path.is_file() else ()
    except InputError as error:
        raise CheckpointError(str(error), hint=error.hint) from None
