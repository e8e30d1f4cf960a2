"""Puts settings on the command lines of commands, reads them from their sources, and what they name: models,
texts, prices.

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
import os
import tempfile  # noqa: F401 -- for the example
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import typer
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import SettingsConfigDict

from tacita.api import DEFAULT_MODEL
from tacita.checkpoint import Checkpoint, load
from tacita.checkpoint.documents import read_documents, titles_of, with_documents
from tacita.checkpoint.hub import name_of
from tacita.checkpoint.load import resolve
from tacita.cli.columns import read_lines, texts_of, whole
from tacita.cli.console import STDOUT, err, out, progress, shown, writable
from tacita.errors import FileError, InputError, nearest
from tacita.planning.options import LOGITS, gap_of
from tacita.planning.request import PlanRequest
from tacita.plans.commitment import link_of
from tacita.plans.prices import cost
from tacita.settings import (
    ASK,
    DELIMITER,
    FILE,
    PREFIX,
    SECTIONS,
    SERVER,
    SHIPPED,
    Keys,
    PlanOptions,
    Section,
    Settings,
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


def _json(path: Path | None) -> Path | None:
    """Sends what people read to standard error where the report takes standard output."""
    out.stderr = path == STDOUT
    return writable(path)


# Options that are no settings: they are of one call.
Config = Annotated[
    Path | None,
    option("--config", help=f"File of settings (default: {FILE} of this folder, if there is one)."),
]
Json = Annotated[
    Path | None,
    option("--json", help="Also write the figures to this file (-: standard output).", callback=_json),
]
Public = Annotated[
    Path, typer.Option("--public", help="Folder that `tacita publish` made: all that a client needs.")
]
TextFile = Annotated[
    Path | None,
    option("--file", rich_help_panel=ASK, help="A file of texts, one a line (-: standard input)."),
]
Pair = Annotated[
    bool,
    option(
        "--pair",
        help="Texts come in pairs. They stand two by two on the command line, or in two columns of the "
        "--file, a tab between them.",
        rich_help_panel=ASK,
    ),
]


@dataclass(frozen=True)
class Without:
    """A case in which a command has no use for some of its options, and refuses them rather than pass over
    them; a file may have them for other commands. names: of settings. case: tells of the settings and of the
    other parameters whether it is so. words: of the error, which says why."""

    names: Collection[str]
    case: Callable[[Settings, Mapping[str, Any]], object]
    words: str

    def require_none(self, settings: Settings, given: Mapping[str, Any], line: Values) -> None:
        """Raises InputError for an option of the line that has no use."""
        pairs = ((section, name) for section, values in line.items() for name in values)
        flags = [flag_of(name, fields_of(section)[name]) for section, name in pairs if name in self.names]
        if flags and self.case(settings, given):
            raise InputError(f"{', '.join(flags)} {self.words}", hint="leave it out")


def taking(
    line: Keys, file: Keys | None = None, *without: Without
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorates a command: its parameter `settings` gets the settings of these keys, by section, and all
    others at their defaults. line: those that are options of the command; file: those that only a file and
    the environment give. When it is called, raises what `read_settings` and each `without` raise."""
    file = file or {}
    both = {section: (*line.get(section, ()), *file.get(section, ())) for section in {**line, **file}}
    spelled = [_parameter(section, name) for section, names in line.items() for name in names]
    config = inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Config)

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(*, config: Path | None, **given: Any) -> None:
            values = {section: {name: given.pop(name) for name in names} for section, names in line.items()}
            chosen = {s: {n: v for n, v in each.items() if v not in (None, [])} for s, each in values.items()}
            settings = _settings(config, chosen).only(both)
            for each in without:
                each.require_none(settings, given, chosen)
            command(**{SETTINGS: settings}, **given)

        signature = _signature(command, [*spelled, config])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}
        run.taken = both  # type: ignore[attr-defined]
        return run

    return decorated


def spelled(section: str, name: str) -> Any:
    """Returns a setting's option, as Typer declares it."""
    field = fields_of(section)[name]
    flag, extra = flag_of(name, field), _extra(field)
    meaning = field.description or ""
    if field.default not in (None, "", False, ()):
        meaning = f"{meaning.removesuffix('.')} (default: {_words(field.default)})."
    both = f"{flag}/--no-{flag.removeprefix('--')}" if kind_of(field) is bool else flag
    panel = extra["panel"] or SECTIONS.get(section, SERVER)
    return option(both, help=meaning, metavar=extra["metavar"], rich_help_panel=panel)


def _words(value: object) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


def fields_of(section: str) -> Mapping[str, FieldInfo]:
    """Returns the keys of a section with their declarations."""
    return section_of(section).model_fields


def section_of(section: str) -> type[Section]:
    """Returns the declaration of a section's keys, of `models` that of each model's."""
    kind: Any = Settings.model_fields[section].annotation
    return get_args(kind)[1] if get_origin(kind) else kind  # type: ignore[no-any-return]


def flag_of(name: str, field: FieldInfo) -> str:
    """Returns the option by which a command line spells a key."""
    return _extra(field)["flag"] or f"--{name.replace('_', '-')}"


def kind_of(field: FieldInfo) -> type:
    """Returns the type of a key's value, without its checks and without None."""
    kind: Any = next(one for one in get_args(field.annotation) or (field.annotation,) if one is not NoneType)
    if get_origin(field.annotation) is tuple:
        return list[str]
    return kind.__origin__ if get_origin(kind) is Annotated else kind  # type: ignore[no-any-return]


def _extra(field: FieldInfo) -> dict[str, Any]:
    assert isinstance(field.json_schema_extra, dict)  # `setting` gave it
    return field.json_schema_extra


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
    return read_settings(file, line)


# What the settings of a plan name.


def plan_request(plan: PlanOptions) -> PlanRequest:
    """Returns the request of a plan. Raises what `PlanRequest` and the readers of its files raise."""
    return PlanRequest(
        scheme=plan.scheme,
        packing=plan.packing,
        inputs=plan.inputs,
        objective=plan.objective,
        tokens=plan.tokens or TOKENS_DEFAULT,
        preset=plan.preset,
        functions=plan.functions,
        texts=read_texts(plan.texts),
        prices=read_prices(plan.prices),
        begin=plan.begin,
        reveal=plan.reveal or LOGITS,
        gap=gap_of(plan.reveal, plan.gap),
        cache=plan.cache,
        nearest=plan.nearest,
        link=link_of(plan.link) if plan.link else None,
    )


def load_model(plan: PlanOptions, pooling: str | None = None, *, embeddings: bool = True) -> Checkpoint:
    """Loads the model, with its pooling and documents where they are given. pooling: of a plan, in place of
    the options'. Raises CheckpointError, FileError, InputError for documents of another model."""
    folder = model_folder(plan.model or DEFAULT_MODEL)
    model = load(folder, pooling=pooling or plan.pooling, embeddings=embeddings)
    if plan.documents is None:
        return model
    index = documents_of(plan.documents, model)
    return with_documents(model, index, titles_of(index) if plan.titles else None)


def documents_of(path: Path, model: Checkpoint) -> Index:
    """Reads documents with a bar for those that are embedded here. Raises as `read_documents`."""
    with progress("documents") as report:
        return read_documents(path, model, report)


def model_folder(model: Path) -> Path:
    """Returns the model's folder. One of the Hugging Face Hub is fetched, and its commit said. Raises
    CheckpointError."""
    folder = resolve(model)
    if (name := name_of(folder)) != folder.name and folder != model:
        err.print(f"model: {shown(name)} of the Hugging Face Hub", soft_wrap=True)
    return folder


def read_texts(path: Path | None) -> Sequence[Text] | None:
    """Reads the non-empty lines of a file of sentences, or the texts or pairs of a .tsv file that its header
    names (`columns`). Returns None without a file. Raises InputError, also for a line that is not UTF-8."""
    if path is None:
        return None
    texts = [str(line.text) for line in whole(path, read_lines(path))]
    texts_or_pairs: Sequence[Text] = texts_of(texts) if path.suffix == ".tsv" else texts
    if not texts_or_pairs:
        raise InputError(f"{path}: holds no text", hint="one sentence per line")
    return texts_or_pairs


def read_prices(path: Path | None) -> cost.Prices | None:
    """Loads the price table of a file, or the package's for the path "shipped"; None without a path."""
    if path == Path(SHIPPED):
        return cost.Prices.shipped(SHIPPED_RING)
    return cost.Prices.load(path) if path else None


# Settings from their sources: a command line comes before the environment, that before a file.

SHOWN = 60  # characters of a value in an error
Values = Mapping[str, Mapping[str, object]]  # values of a command line, by section and key


def read_settings(file: Path | None = None, line: Values | None = None) -> Settings:
    """Reads the settings. file: a tacita.toml. line: values of a command line, by section and key.

    >>> file = Path(tempfile.mkdtemp()) / "tacita.toml"
    >>> _ = file.write_text("[plan]\\ntokens = 64\\npreset = 'leveled'\\n")
    >>> plan = read_settings(file, {"plan": {"tokens": 32}}).plan
    >>> plan.tokens, plan.preset
    (32, 'leveled')

    Raises FileError for a file that cannot be read, InputError for a key that there is not and for a value
    that its check refuses, both with the key's place; a value of a key that there is not is not repeated.
    """

    class Here(Settings):
        model_config = SettingsConfigDict(toml_file=file)

    try:
        if file is not None:
            file.open("rb").close()  # a file that is not there would be passed over
        _require_sections()
        return Here(**(line or {}))  # type: ignore[arg-type]  # which it reads into sections
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{file}: cannot be read as settings ({error})", hint="docs/settings.md") from error
    except ValidationError as error:
        raise _explained(error.errors()[0], file, line or {}) from None


def variable_of(section: str, name: str) -> str:
    """Returns the environment variable of a key.

    >>> variable_of("plan", "tokens")
    'TACITA_PLAN__TOKENS'
    """
    return f"{PREFIX}{section}{DELIMITER}{name}".upper()


def variables(settings: Values) -> dict[str, str]:
    """Returns the environment variables that give these values, as of a process that is started.

    >>> variables({"service": {"drain": 0, "proxy": ("10.0.0.1", "10.0.0.2")}})
    {'TACITA_SERVICE__DRAIN': '0', 'TACITA_SERVICE__PROXY': '10.0.0.1,10.0.0.2'}
    """
    return {
        variable_of(section, name): _words(value)
        for section, values in settings.items()
        for name, value in values.items()
    }


def _require_sections() -> None:
    """Raises InputError for a variable of a section that there is not."""
    for name in os.environ:
        section, delimiter, _ = name.upper().removeprefix(PREFIX).partition(DELIMITER)
        if delimiter and name.upper().startswith(PREFIX) and section.lower() not in Settings.model_fields:
            raise InputError(
                f"{name}: no such setting", hint=nearest(section.lower(), sorted(Settings.model_fields))
            )


def _explained(problem: Mapping[str, Any], file: Path | None, line: Values) -> InputError:
    """Turns the first problem that pydantic found into an error with the key's place."""
    section, name, key, *_ = (*map(str, problem["loc"]), "", "", "")
    place = _place(section, name, file, line)
    if section == "models" and key:
        place, name = f"{file}: [models.{name}] {key}", key
    if problem["type"] == "extra_forbidden":
        known = fields_of(section) if name else Settings.model_fields
        return InputError(f"{place}: no such setting", hint=nearest(name or section, sorted(known)))
    value = f"{str(problem['input'])!r:.{SHOWN}}"
    return InputError(f"{place}: {value}: {problem['msg']}", hint="docs/settings.md")


def _place(section: str, name: str, file: Path | None, line: Values) -> str:
    if name in line.get(section, {}):
        return flag_of(name, fields_of(section)[name])
    if name and (variable := variable_of(section, name)) in {each.upper() for each in os.environ}:
        return variable
    return f"{file}: [{section}] {name}".rstrip()


def place_of(flag: str, keys: Keys) -> str | None:
    """Says where an option went that is one of these keys by section; None for any other."""
    for section, names in keys.items():
        for name in names:
            if flag_of(name, fields_of(section)[name]) == flag:
                variable = variable_of(section, name)
                return f"{flag} is now [{section}] {name} in {FILE}, or the variable {variable}"
    return None
