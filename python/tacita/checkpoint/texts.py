"""What sentence-transformers' files say about a folder: how a text's vector is read from the last hidden
states.

`modules.json` lists the modules in their order. Ours are Transformer (the encoder itself), Pooling, whose
`config.json` names exactly one way of pooling, and Normalize, which divides the vector by its length.
Everything else that changes the vector is refused by name: another module (Dense), a prompt in front of every
text, a folder of its own for the encoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

from tacita.errors import CheckpointError, InputError
from tacita.models.fields import read_json, read_objects

MODULES = "modules.json"
PACKAGE = "sentence_transformers"
ORDERS = (("Transformer", "Pooling"), ("Transformer", "Pooling", "Normalize"))
FLAG = "pooling_mode_"
MODES = {f"{FLAG}cls_token": "cls", f"{FLAG}mean_tokens": "mean"}  # -> names of poolings
REFUSED = {
    f"{FLAG}max_tokens": "a maximum over encrypted tokens takes a comparison for each of them, in every "
    "feature",
    f"{FLAG}mean_sqrt_len_tokens": "its divisor is the square root of the length; masks of requests hold "
    "1/length",
    f"{FLAG}weightedmean_tokens": "its weights grow with the position; masks of requests weigh all real "
    "tokens alike",
    f"{FLAG}lasttoken": "which token is the last is hidden, so all of them would have to be computed and "
    "one selected",
}
SIZE, PROMPT = "word_embedding_dimension", "include_prompt"


@dataclass(frozen=True)
class Sentences:
    """What a folder of sentence-transformers says. pooling: "cls" or "mean". normalise: whether the vector is
    divided by its length."""

    pooling: str
    normalise: bool


def read_sentences(folder: Path, hidden: int, asked: str | None = None) -> Sentences | None:
    """What the files of `folder` say, None where there are none. hidden: size of the model's hidden states.

    asked: the user's pooling, which then stands and whose file is not read; the other modules hold all the
    same. Raises CheckpointError naming file, field, value and the reason.
    """
    path = folder / MODULES
    if not path.is_file():
        _refuse_half(folder, asked)
        return None
    modules = _modules(path)
    if modules["Transformer"]:
        raise CheckpointError(
            f"{path}: the encoder is in the folder {modules['Transformer']!r}",
            hint="only models at the top are read",
        )
    _texts_as_they_are(folder)
    normalise = "Normalize" in modules and _normalises(_inside(folder, modules["Normalize"]))
    return Sentences(
        asked or _pooling(_inside(folder, modules["Pooling"]) / "config.json", hidden), normalise
    )


def _refuse_half(folder: Path, pooling: str | None) -> None:
    """1_Pooling without modules.json: what comes after it, and whether it is used at all, is not known."""
    if pooling is None and (folder / "1_Pooling" / "config.json").is_file():
        raise CheckpointError(
            f"{folder}: 1_Pooling/config.json without {MODULES}",
            hint="copy the whole folder, or say --pooling cls|mean",
        )


def _modules(path: Path) -> dict[str, str]:
    """Maps each kind of module to its folder, in the order of the file."""
    listed = read_objects(path)
    kinds = tuple(_kind(path, module) for module in listed)
    if kinds not in ORDERS:
        orders = " or ".join(", ".join(order) for order in ORDERS)
        raise CheckpointError(
            f"{path}: modules {', '.join(kinds)}", hint=f"supported: {orders}, in this order"
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
    """The module's own folder. Raises CheckpointError for one that is not inside the model's."""
    parts = PurePosixPath(name)
    place = folder / parts
    if not name or parts.is_absolute() or ".." in parts.parts or "\\" in name or not _contains(folder, place):
        raise CheckpointError(
            f"{folder / MODULES}: the path {name!r} is not inside the model's folder",
            hint="such as 1_Pooling",
        )
    return place


def _contains(folder: Path, place: Path) -> bool:
    """Whether the place lies inside the folder, once links are followed (files of a hub's cache are links to
    elsewhere, as config.json itself may be)."""
    return place.resolve().is_relative_to(folder.resolve()) and place.resolve() != folder.resolve()


def _pooling(path: Path, hidden: int) -> str:
    data = read_json(path)
    for name in data:
        if not name.startswith(FLAG) and name not in (SIZE, PROMPT):
            raise CheckpointError(
                f"{path}: unknown field {name!r}", hint="made by another version of the library?"
            )
    if data.get(SIZE) != hidden or isinstance(data[SIZE], bool):
        raise CheckpointError(
            f"{path}: {SIZE} is {data.get(SIZE)!r}, the model has {hidden}", hint="another model's?"
        )
    if data.get(PROMPT, True) is not True:
        raise CheckpointError(
            f"{path}: {PROMPT} is {data[PROMPT]!r}", hint="prompts left out of the mean are not read"
        )
    return _mode(path, {name: value for name, value in data.items() if name.startswith(FLAG)})


def _mode(path: Path, flags: Mapping[str, Any]) -> str:
    """The one way of pooling whose flag is set."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise CheckpointError(f"{path}: {name} is {value!r}", hint="it must be true or false")
    chosen = [name for name, value in flags.items() if value]
    if len(chosen) != 1:
        raise CheckpointError(
            f"{path}: {len(chosen)} poolings are set {chosen}", hint="exactly one is supported"
        )
    if chosen[0] in MODES:
        return MODES[chosen[0]]
    reason = REFUSED.get(chosen[0], "it is not known")
    raise CheckpointError(
        f"{path}: {chosen[0]} is not supported: {reason}", hint=f"supported: {', '.join(MODES)}"
    )


def _normalises(place: Path) -> bool:
    """Returns True: the module has no options. Raises CheckpointError where its folder states some."""
    path = place / "config.json"
    if path.is_file() and (data := read_json(path)):
        raise CheckpointError(
            f"{path}: unknown fields {sorted(data)}", hint="Normalize has none: it divides by length"
        )
    return True


def _texts_as_they_are(folder: Path) -> None:
    """Raises CheckpointError where the library would change every text before the tokenizer sees it."""
    changes = {
        "config_sentence_transformers.json": (
            "default_prompt_name",
            "write the prompt before your texts yourself",
        ),
        "sentence_*_config.json": ("do_lower_case", "let the tokenizer do it (normalizer, lowercase)"),
    }  # older ones are called by the model's type, as sentence_roberta_config.json
    for name, (field, instead) in changes.items():
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
    texts = tuple(line.strip() for line in content.splitlines() if line.strip() and not line.startswith("#"))
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
