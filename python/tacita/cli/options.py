"""Puts settings on the command lines of commands, and reads what they name: models, texts, prices.

>>> import typer
>>> app = typer.Typer()
>>> @app.command()
... @taking({"plan": ("scheme", "tokens")}, {"run": ("threads",)})    # on the line; in a file alone
... def command(settings: Settings) -> None:
...     print(settings.plan.scheme, settings.plan.tokens, settings.run.threads)
>>> app(["--scheme", "thor", "--tokens", "16"], standalone_mode=False)
thor 16 0
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from tacita.api import DEFAULT_MODEL
from tacita.checkpoint import Checkpoint, load
from tacita.checkpoint.load import with_documents
from tacita.cli.columns import texts_of
from tacita.cli.console import err, shown
from tacita.cli.settings import read_settings
from tacita.errors import InputError
from tacita.planning.options import LOGITS
from tacita.planning.request import PlanRequest
from tacita.plans.commitment import link_of
from tacita.plans.prices import cost
from tacita.settings import (
    FILE,
    SHIPPED,
    Keys,
    PlanOptions,
    Settings,
    fields_of,
    flag_of,
    kind_of,
    metavar_of,
)
from tacita.texts.embed import Text
from tacita.texts.vectors import Index

# without a default that a help text could show: what stands in its place, the help says
option = partial(typer.Option, show_default=False)
SHIPPED_RING = 16  # of the package's table of prices
WORK_DEFAULT = Path("tacita-work")
PUBLIC_DEFAULT = Path("tacita-public")
TOKENS_DEFAULT = 128
SETTINGS = "settings"  # the parameter that the options stand for

# Options that are no settings: they are of one call.
Config = Annotated[
    Path | None,
    option("--config", help=f"File of settings (default: {FILE} of this folder, if there is one)."),
]
Json = Annotated[Path | None, option("--json", help="Also write the figures to this file.")]
Public = Annotated[
    Path, typer.Option("--public", help="Folder that `tacita publish` made: all that a client needs.")
]
TextFile = Annotated[Path | None, option("--file", help="A file of texts, one a line (-: standard input).")]
Pair = Annotated[
    bool,
    option(
        "--pair",
        help="Texts come in pairs: two by two on the command line, or in two columns of the --file, a tab "
        "between them.",
    ),
]


def taking(line: Keys, file: Keys | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorates a command: its parameter `settings` gets the settings of these keys, by section, and all
    others at their defaults. line: those that are options of the command; file: those that only a file and
    the environment give. When it is called, raises what `read_settings` raises."""
    both = {
        section: (*line.get(section, ()), *(file or {}).get(section, ())) for section in fields(line, file)
    }
    spelled = [_parameter(section, name) for section, names in line.items() for name in names]
    config = inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Config)

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(*, config: Path | None, **given: Any) -> None:
            values = {section: {name: given.pop(name) for name in names} for section, names in line.items()}
            command(**{SETTINGS: _settings(config, values).only(both)}, **given)

        signature = _signature(command, [*spelled, config])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}
        run.taken = both  # type: ignore[attr-defined]
        return run

    return decorated


def fields(*keys: Keys | None) -> list[str]:
    """Returns the sections of all of these."""
    return list(dict.fromkeys(section for each in keys for section in each or ()))


def spelled(section: str, name: str) -> Any:
    """Returns a setting's option, as Typer declares it."""
    field = fields_of(section)[name]
    flag, kind = flag_of(name, field), kind_of(field)
    meaning = field.description or ""
    if field.default not in (None, "", False, ()):
        meaning = f"{meaning.removesuffix('.')} (default: {_words(field.default)})."
    both = f"{flag}/--no-{flag.removeprefix('--')}" if kind is bool else flag
    return option(both, help=meaning, metavar=metavar_of(field))


def _words(value: object) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _parameter(section: str, name: str) -> inspect.Parameter:
    kind: Any = Annotated[kind_of(fields_of(section)[name]) | None, spelled(section, name)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _signature(command: Callable[..., None], options: Sequence[inspect.Parameter]) -> inspect.Signature:
    """Returns the command's signature with the options in place of its settings; all by keyword, as Typer
    calls it."""
    parameters: list[inspect.Parameter] = []
    for each in inspect.signature(command, eval_str=True).parameters.values():
        by_keyword = each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        parameters += options if each.name == SETTINGS else [by_keyword]
    return inspect.Signature(parameters)


def _settings(config: Path | None, line: Mapping[str, Mapping[str, Any]]) -> Settings:
    """Reads the settings, and says so where the file is one that nobody named."""
    file = config or (FILE if FILE.is_file() else None)
    if file and not config:
        err.print(f"settings: {shown(str(file))}", soft_wrap=True)
    chosen = {s: {n: v for n, v in values.items() if v not in (None, [])} for s, values in line.items()}
    return read_settings(file, chosen)


# What the settings of a plan name.


def plan_request(plan: PlanOptions) -> PlanRequest:
    """Returns the request of a plan. Raises what `PlanRequest` and the readers of its files raise."""
    return PlanRequest(
        scheme=plan.scheme,
        packing=plan.packing and plan.packing.value,
        inputs=plan.inputs,
        objective=plan.objective,
        tokens=plan.tokens or TOKENS_DEFAULT,
        preset=plan.preset,
        functions=plan.functions,
        texts=read_texts(plan.texts),
        prices=read_prices(plan.prices),
        begin=plan.begin,
        reveal=plan.reveal.value if plan.reveal else LOGITS,
        gap=plan.gap,
        link=link_of(plan.link) if plan.link else None,
    )


def load_model(plan: PlanOptions) -> Checkpoint:
    """Loads the model, with its pooling and documents where they are given. Raises CheckpointError,
    FileError, InputError for documents of another model."""
    model = load(plan.model or DEFAULT_MODEL, pooling=plan.pooling.value if plan.pooling else None)
    return with_documents(model, Index.load(plan.documents)) if plan.documents else model


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
