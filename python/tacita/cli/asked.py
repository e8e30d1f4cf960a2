"""Declares the options by which commands ask for a plan; a command takes `asked: Asked` in their place.

>>> import typer
>>> app = typer.Typer()
>>> @app.command()
... @asking("scheme", "tokens")    # without names: all of them
... def command(asked: Asked) -> None:
...     print(asked.request.scheme_name, asked.request.tokens)
>>> app(["--tokens", "16"], standalone_mode=False)
thor 16
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

from tacita.checkpoint import Checkpoint
from tacita.cli import options
from tacita.cli.console import INCOMPLETE, UNTRUSTED, shown
from tacita.cli.options import PoolingName, load_model, read_prices, read_texts
from tacita.planning.options import GAP, LOGITS
from tacita.planning.request import PlanRequest
from tacita.plans.commitment import link_of
from tacita.texts.answer import Answer
from tacita.texts.embed import Text, parts_of

ASKED = "asked"  # the parameter that the options stand for


@dataclass(frozen=True)
class Asked:
    """The model that a command is about, and the options of its plan."""

    folder: Path
    pooling: PoolingName | None
    request: PlanRequest
    documents: Path | None = None

    def load(self) -> Checkpoint:
        """Loads the model, with its documents. Raises what `load_model` raises."""
        return load_model(self.folder, self.pooling, self.documents)


@dataclass(frozen=True)
class Shared:
    """An option: its declaration, its default, the plan request's field, and how that is read from its
    value."""

    declared: Any
    default: Any
    field: str
    read: Callable[[Any], Any] = lambda given: given


SHARED: Mapping[str, Shared] = {
    "scheme": Shared(options.Scheme, None, "scheme"),
    "packing": Shared(options.Packing, None, "packing", lambda given: given and given.value),
    "inputs": Shared(options.Inputs, None, "inputs"),
    "objective": Shared(options.Goal, None, "objective"),
    "tokens": Shared(options.Tokens, options.TOKENS_DEFAULT, "tokens"),
    "preset": Shared(options.Preset, options.PRESET_DEFAULT, "preset"),
    "functions": Shared(options.Variant, options.VARIANT_DEFAULT, "functions"),
    "calibration": Shared(options.Texts, None, "texts", read_texts),
    "prices": Shared(options.Prices, None, "prices", read_prices),
    "begin": Shared(options.Begin, "", "begin"),
    "reveal": Shared(options.Reveal, None, "reveal", lambda given: given.value if given else LOGITS),
    "gap": Shared(options.Gap, GAP, "gap"),
    "link": Shared(options.Link, None, "link", lambda given: link_of(given) if given else None),
}
DOCUMENTS = "documents"
MODEL = (("model", options.Model, options.MODEL_DEFAULT), ("pooling", options.Pooling, None))


def asking(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorates a command: the options of these names (default: all; "documents" is one) and of the model
    become its parameter `asked`. When it is called, raises what `PlanRequest` and the readers of the options
    raise.
    """
    chosen = tuple(name for name in names or SHARED if name != DOCUMENTS)
    documents = [(DOCUMENTS, options.Documents, None)] if not names or DOCUMENTS in names else []

    def build(given: dict[str, Any]) -> Asked:
        wished = {SHARED[name].field: SHARED[name].read(given.pop(name)) for name in chosen}
        model, pooling = given.pop("model"), given.pop("pooling")
        return Asked(model, pooling, PlanRequest(**wished), given.pop(DOCUMENTS, None))

    declared = [(name, SHARED[name].declared, SHARED[name].default) for name in chosen]
    return standing_for(ASKED, [*MODEL, *documents, *declared], build)


def standing_for(
    parameter: str, declared: Sequence[tuple[str, Any, Any]], build: Callable[[dict[str, Any]], Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorates a command: options (name, declaration, default) replace one parameter in its signature, and
    the command gets that parameter as `build` makes it of them. build: takes its own options out of a dict.

    Typer reads a command's signature, so that is where the options are put.
    """
    keyword = inspect.Parameter.KEYWORD_ONLY
    options_ = [
        inspect.Parameter(name, keyword, default=value, annotation=kind) for name, kind, value in declared
    ]

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**given: Any) -> None:
            given[parameter] = build(given)
            command(**given)

        signature = _signature(command, parameter, options_)
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}
        return run

    return decorated


def _signature(
    command: Callable[..., None], parameter: str, options_: Sequence[inspect.Parameter]
) -> inspect.Signature:
    """Returns the command's signature with the options in the parameter's place; all by keyword, as Typer
    calls it."""
    parameters: list[inspect.Parameter] = []
    for each in inspect.signature(command, eval_str=True).parameters.values():
        by_keyword = each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        parameters += options_ if each.name == parameter else [by_keyword]
    return inspect.Signature(parameters)


# How an answer looks on screen: what it says, and the first of its numbers.

FEW = 4  # numbers of an answer that a line has room for
WORDS = 400  # characters of what an answer says


def summary_of(answer: Answer) -> str:
    """Returns the answer's summary, escaped."""
    return shown(answer.summary, WORDS)


def numbers(values: Sequence[float], most: int = FEW) -> str:
    """Writes the first values, signed, to three decimals."""
    first = " ".join(f"{value:+.3f}" for value in values[:most])
    return first + (" ..." if len(values) > most else "")


def brackets(answer: Answer, most: int = 8) -> str:
    """Writes the first logits in brackets, escaped for rich; "" for an answer without any."""
    if not answer.logits:
        return ""
    more = ", ..." if len(answer.logits) > most else ""
    return f"  \\[{', '.join(f'{value:.3f}' for value in answer.logits[:most])}{more}]"


def status_of(answers: Iterable[Answer], *, complete: bool = True) -> int:
    """Returns the exit status (`cli.app`) of a command that gave these answers. complete: whether nothing
    that was asked for was left out."""
    all_answers = list(answers)
    if not all(answer.trusted for answer in all_answers):
        return UNTRUSTED
    return 0 if complete and not any(answer.warnings for answer in all_answers) else INCOMPLETE


def text_of(text: Text, most: int = 200) -> str:
    """Writes a text, or both of a pair, escaped."""
    return shown(" | ".join(parts_of(text)), most)


def as_json(text: Text) -> str | list[str]:
    """Returns a text, or both of a pair as a list."""
    return text if isinstance(text, str) else list(text)
