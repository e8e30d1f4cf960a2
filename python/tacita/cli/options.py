"""Declares the options that several commands share, and reads their files."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tacita.api import DEFAULT_MODEL, Objective
from tacita.checkpoint import Checkpoint, load
from tacita.checkpoint.load import with_documents
from tacita.cli.ask.columns import texts_of
from tacita.errors import InputError
from tacita.planning.options import LOGITS, TOKEN
from tacita.plans.prices import cost
from tacita.plans.scheme import AUTO, NAMES
from tacita.texts.embed import Text
from tacita.texts.vectors import Index

# without a default that a help text could show: what stands in its place, the help says
option = partial(typer.Option, show_default=False)


SHIPPED, SHIPPED_RING = "shipped", 16  # in place of a file: the package's table, of this ring


class BackendName(StrEnum):
    """Interpreters of a circuit."""

    plain = "plain"
    sim = "sim"
    ckks = "ckks"


class PackingName(StrEnum):
    """Packings of one text to choose from."""

    auto = "auto"
    rows = "rows"
    coefficients = "coefficients"
    multidiagonal = "multidiagonal"


class RevealName(StrEnum):
    """Outputs of a decoder that a client may get."""

    logits = LOGITS
    token = TOKEN


class PoolingName(StrEnum):
    """Ways to read a text's vector from the last hidden states."""

    pooler = "pooler"
    cls = "cls"
    mean = "mean"


Model = Annotated[Path, option("--model", help="Hugging Face folder of the model, or a shipped one's name.")]
Pooling = Annotated[
    PoolingName | None,
    option(
        "--pooling",
        help="What an embedding is read from: pooler (tanh layer on [CLS]), cls ([CLS] itself), mean (of "
        "all tokens) "
        "(default: what the model's folder says).",
    ),
]
Documents = Annotated[
    Path | None,
    option(
        "--documents",
        help="Answer with scores of these documents, as `tacita embed --index` wrote them with the model.",
    ),
]
Work = Annotated[Path, typer.Option("--work", help="Folder of plan, keys, request and response.")]
Public = Annotated[
    Path, typer.Option("--public", help="Folder that `tacita publish` made: all that a client needs.")
]
Reveal = Annotated[
    RevealName | None,
    option(
        "--reveal",
        help="Of a decoder on ciphertexts, what the client gets: logits (default) or the likeliest token "
        "alone.",
    ),
]
Gap = Annotated[
    float,
    typer.Option("--gap", help="With --reveal token, logits nearer than this are not told apart.", min=0.0),
]
Json = Annotated[Path | None, option("--json", help="Also write the figures to this file.")]
Tokens = Annotated[int, typer.Option("--tokens", help="Tokens of every request (a power of two, 16 to 512).")]
Preset = Annotated[
    str,
    typer.Option(
        "--preset",
        help="Encryption parameters (leveled: the smallest secure ring that needs no bootstrapping).",
    ),
]
Variant = Annotated[
    str,
    typer.Option(
        "--functions",
        help="Approximations of softmax, LayerNorm, GELU: tacita, moai, arion, leaf (GELU by a "
        "bootstrap), either (of tacita and leaf the cheaper), or thor (softmax in two "
        "phases; packing multidiagonal).",
    ),
]
ShowAnyway = Annotated[
    bool,
    option(
        "--show-anyway",
        help="Also show answers that failed their checks. They may hold anything, the secret key included: "
        "not where the server can see them.",
    ),
]
Insecure = Annotated[
    bool,
    option("--allow-insecure", help="Admit parameters below 128 bits. For tests only."),
]
Texts = Annotated[
    Path | None,
    option(
        "--texts",
        help="Calibration sentences, one per line (default: the model's own, else the package's). The "
        "plan, which the other side reads, publishes the extremes that the model takes on them, to 8 bits: a "
        "single unusual sentence shows. "
        "Of 500 lines or more every fifth is held out, to say how often texts leave the intervals.",
    ),
]
Prices = Annotated[
    Path | None,
    option(
        "--prices",
        metavar=f"[FILE|{SHIPPED}]",
        help="Price table of `tacita prices --json`, or the package's as it is, by which plans are the same "
        "on every machine (default: what `tacita prices` measured here, else the package's, scaled).",
    ),
]
TextFile = Annotated[
    Path | None,
    option("--file", help="A file of texts, one a line (-: standard input)."),
]
Pair = Annotated[
    bool,
    option(
        "--pair",
        help="Texts come in pairs: two by two on the command line, or in two columns of the --file, a tab "
        "between them.",
    ),
]
Scheme = Annotated[
    str | None,
    option(
        "--scheme",
        metavar=f"[{'|'.join((AUTO, *NAMES))}]",
        help="thor: one text a request; leaf: the same, with GELU computed by bootstraps; arion, moai: a "
        "batch; bumblebee: two parties over a connection; auto: the quickest by estimate (default: auto for "
        "several texts, thor for one).",
    ),
]
Link = Annotated[
    str | None,
    option(
        "--link",
        metavar="lan|wan|MBIT,MS",
        help="Connection between client and server: a name, or Mbit/s and ms of a round trip. "
        "--scheme auto weighs bumblebee over it.",
    ),
]
Begin = Annotated[
    str,
    option(
        "--begin",
        help="Of a decoder: a text before every prompt that is no secret, as a system prompt or the token "
        "that texts begin with. Two parties compute nothing for it.",
    ),
]
Packing = Annotated[
    PackingName | None,
    option(
        "--packing",
        help="How one text lies in slots: of thor rows (default) or multidiagonal (THOR's own), of leaf "
        "coefficients (default: feed-forward blocks by products of coefficients) or rows (by rotations); "
        "auto: the quicker by estimate.",
    ),
]
Inputs = Annotated[
    int | None,
    option("--inputs", help="Texts to expect; a batch is shaped for them.", min=1),
]
Goal = Annotated[
    Objective | None,
    option(
        "--objective",
        help="What --scheme auto keeps short: the time until the last answer (throughput) or the first "
        "(default: throughput for several texts, latency for one).",
    ),
]
Threads = Annotated[int, typer.Option("--threads", help="Cores to use (0: all).", min=0)]

MODEL_DEFAULT = DEFAULT_MODEL
WORK_DEFAULT = Path("tacita-work")
PUBLIC_DEFAULT = Path("tacita-public")
TOKENS_DEFAULT = 128
PRESET_DEFAULT = "n16"
VARIANT_DEFAULT = "tacita"


def load_model(folder: Path, pooling: PoolingName | None, documents: Path | None = None) -> Checkpoint:
    """Loads the model of a folder, with the user's pooling and documents where they are given. Raises
    CheckpointError, FileError, InputError for documents of another model."""
    model = load(folder, pooling=pooling.value if pooling else None)
    return with_documents(model, Index.load(documents)) if documents else model


def read_texts(path: Path | None) -> Sequence[Text] | None:
    """Reads the non-empty lines of a file of sentences, or the texts or pairs of a .tsv file that its header
    names (`columns`). Returns None without a file. Raises InputError."""
    if path is None:
        return None
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as text ({error})", hint="one sentence per line") from error
    lines = [line.strip() for line in lines if line.strip()]
    texts: Sequence[Text] = texts_of(lines) if lines and path.suffix == ".tsv" else lines
    if not texts:
        raise InputError(f"{path}: holds no text", hint="one sentence per line")
    return texts


def read_prices(path: Path | None) -> cost.Prices | None:
    """Loads the price table of a file, or the package's for the path "shipped"; None without a path."""
    if path == Path(SHIPPED):
        return cost.Prices.shipped(SHIPPED_RING)
    return cost.Prices.load(path) if path else None
