"""`tacita classify`, `embed`, `search`, `tag`, `answer` and `fill`: one command, with the task as data.

With `search --index` the documents are the client's: the server turns an encrypted query into an encrypted
vector, and this side decrypts it and scores its own vectors. Without, they are the server's (`tacita serve
--documents`): it scores the encrypted query against them, and this side decrypts the scores and sorts.
"""

from __future__ import annotations

import inspect
import json as json_module
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from tacita.cli.ask.core import Outcome, ask, lines_of
from tacita.cli.ask.remote import Question
from tacita.cli.columns import Line
from tacita.cli.console import out, several, shown
from tacita.cli.options import Json, Pair, TextFile, option, taking
from tacita.cli.report import text_of
from tacita.errors import FileError, InputError
from tacita.plans.files import replacing
from tacita.settings import Keys, Settings
from tacita.texts.answer import Score
from tacita.texts.embed import MAX_CHARACTERS, parts_of
from tacita.texts.spans import Extract, Fill, Tags
from tacita.texts.vectors import Index, Search

LINE: Keys = {
    "plan": ("model", "scheme", "tokens", "preset", "texts"),
    "run": ("backend",),
    "network": ("connect", "trust"),
}
ALL: Keys = {
    "plan": (*LINE["plan"], "pooling", "packing", "objective", "functions", "link"),
    "run": (*LINE["run"], "threads", "memory", "work", "allow_insecure", "show_anyway"),
    "network": (
        *(*LINE["network"], "fingerprint", "name", "certificate", "key", "insecure_plain_tcp"),
        *("timeout", "token_file", "profile"),
    ),
    "ray": ("address", "nodes", "cores"),
}
SUFFIXES = (".npy", ".json")  # of a file of vectors
Own = Mapping[str, Any]  # the values of a command's own options, by name
Show = Callable[[Outcome], None]


@dataclass(frozen=True)
class Task:
    """A command that asks a model. verb: its name, a key of `texts.task.GIVES`. short, about: its help in the
    list of commands, and its own. own: its
    argument and options besides those of all, each with its default. begin: checks these, and returns what is
    asked, and what shows the answers below what every run shows. line: settings on its line besides those of
    all, by section."""

    verb: str
    short: str
    about: str
    own: Mapping[str, tuple[Any, Any]]
    begin: Callable[[Own, Settings], tuple[Question, Show]]
    line: Keys = field(default_factory=dict)

    def command(self) -> Callable[..., None]:
        """Returns the command, as Typer takes it."""

        def run(*, settings: Settings, json: Path | None, **own: Any) -> None:
            question, show = self.begin(own, settings)
            outcome = ask(question, settings, json)
            show(outcome)
            outcome.end()

        run.__doc__ = self.about
        options = {**self.own, "settings": (Settings, None), "json": (Json, None)}
        keyword = inspect.Parameter.KEYWORD_ONLY
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(n, keyword, annotation=a, default=d) for n, (a, d) in options.items()]
        )
        line = {section: (*LINE.get(section, ()), *self.line.get(section, ())) for section in ALL}
        file = {section: tuple(n for n in names if n not in line[section]) for section, names in ALL.items()}
        return taking(line, file)(run)


def _texts(metavar: str, words: str) -> tuple[Any, None]:
    argument = typer.Argument(metavar=f"[{metavar}...]", help=words, show_default=False)
    return Annotated[list[str] | None, argument], None


def _path(name: str, words: str) -> tuple[Any, None]:
    return Annotated[Path | None, option(name, help=words)], None


def _top(words: str) -> tuple[Any, int]:
    return Annotated[int, typer.Option("--top", help=words, min=1)], 5


FILE, PAIR = (TextFile, None), (Pair, False)


def _question(verb: str, own: Own, **more: Any) -> Question:
    """Returns the question about the texts of the line, or of a file. verb: what a model is asked for."""
    texts, file = own["words"] or [], own["file"]
    return Question(verb, lines_of(verb, texts, file, pair=own.get("pair", False)), file, **more)


def _classify(own: Own, settings: Settings) -> tuple[Question, Show]:
    return _question("classify", own, others=("embed", "search")), lambda outcome: None


def _embed(own: Own, settings: Settings) -> tuple[Question, Show]:
    output, index = own["output"], own["index"]
    if output and output.suffix not in SUFFIXES:
        raise InputError(f"--output {output}: neither .npy nor .json", hint="name the file by its format")

    def write(outcome: Outcome) -> None:
        if output:
            write_vectors(output, outcome)
        if index:
            documents = index_of(outcome)
            documents.save(index)
            count = several(len(documents.texts), "document")
            out.print(f"index: {shown(str(index))}, {count}", soft_wrap=True)

    return _question("embed", own), write


def write_vectors(path: Path, outcome: Outcome) -> None:
    """Writes the file of `--output`, whole or not at all: a vector for each text, NaN (in JSON null) in place
    of one that failed its checks. Raises FileError."""
    answers = [answer.vector if answer.logits else None for _, answer in outcome.answers]
    width = max((len(vector) for vector in answers if vector is not None), default=0)
    vectors = np.stack([np.full(width, np.nan) if vector is None else vector for vector in answers])
    try:
        with replacing(path) as temporary, temporary.open("wb") as file:
            if path.suffix == ".npy":
                np.save(file, vectors)
            else:
                rows = [None if vector is None else vector.tolist() for vector in answers]
                file.write(json_module.dumps(rows).encode())
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error})", hint="choose another file") from error


def index_of(outcome: Outcome) -> Index:
    """Makes an index of the texts and vectors of an outcome; those of an answer with warnings are left out.
    Raises InputError where none is left."""
    trusted = [(line, answer) for line, answer in outcome.answers if not answer.warnings]
    if not trusted:
        raise InputError("embed: no vector can be trusted", hint="see the warnings above")
    texts = tuple(" | ".join(parts_of(line.text)) for line, _ in trusted)
    return Index(outcome.model, outcome.sha256, texts, np.stack([answer.vector for _, answer in trusted]))


def _search(own: Own, settings: Settings) -> tuple[Question, Show]:
    index, documents, top = own["index"], settings.plan.documents, own["top"]
    if index and documents:
        raise InputError("--index with --documents", hint="one of the two: whose documents are searched")
    mine = Index.load(index) if index else None

    def show(outcome: Outcome) -> None:
        for line, answer in outcome.answers:
            if mine and answer.logits:
                show_nearest(str(line.text), mine.nearest(answer.vector, top))
            elif isinstance(answer, Search):
                show_nearest(str(line.text), with_texts(answer.best(top), documents))

    if mine:  # a server's documents need no model of ours
        return _question("embed", own, suits=mine.require), show
    return _question("search", own), show


def with_texts(scores: Sequence[Score], documents: Path | None) -> list[Score]:
    """Returns the scores with the documents' texts as labels, from a file of them; without one the labels
    stay numbers."""
    texts = Index.load(documents).texts if documents else None
    return [Score(texts[int(each.label)] if texts else each.label, each.score) for each in scores]


def show_nearest(query: str, nearest: Sequence[Score]) -> None:
    """Shows one line a document, the nearest first."""
    table = Table("", "score", shown(query, 60))
    for rank, each in enumerate(nearest, 1):
        table.add_row(str(rank), f"{each.score:.4f}", shown(each.label))
    out.print(table)


def _tag(own: Own, settings: Settings) -> tuple[Question, Show]:
    def show(outcome: Outcome) -> None:
        for line, answer in outcome.answers:
            if isinstance(answer, Tags):
                table = Table(text_of(line.text, 60), "label", "characters", "score")
                for span in answer.spans:
                    where = f"{span.start} to {span.end}"
                    table.add_row(shown(span.text), shown(span.label), where, f"{span.score:.3f}")
                out.print(table)

    return _question("tag", own), show


def _answer(own: Own, settings: Settings) -> tuple[Question, Show]:
    question, context = own["question"], own["context"]
    if not question.strip():
        raise InputError("answer: the question is empty", hint="pass at least one word")

    def show(outcome: Outcome) -> None:
        for _, answer in outcome.answers:
            if isinstance(answer, Extract):
                span = answer.span
                where = f"characters {span.start} to {span.end} of the context"
                score = f"score {span.score:.3f}"
                out.print(f"[bold]{shown(span.text)}[/bold]   {where}, {score}", soft_wrap=True)

    return Question("answer", [Line(1, (question, read_context(context)))]), show


def read_context(given: str) -> str:
    """Reads the file of this name, or returns the text itself where there is none. Raises InputError for a
    file that cannot be read, is huge, or is empty."""
    path = Path(given)
    try:
        if not path.is_file():
            return given
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_CHARACTERS + 1).strip()
    except OSError as error:
        if not path.suffix or " " in given:  # a text may be too long for the name of a file
            return given
        raise InputError(f"{path}: cannot be read ({error})", hint="a file of text") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 ({error.reason})", hint="a file of text") from error
    if not text or len(text) > MAX_CHARACTERS:
        raise InputError(f"{path}: empty, or over {MAX_CHARACTERS} characters", hint="split it")
    return text


def _fill(own: Own, settings: Settings) -> tuple[Question, Show]:
    def show(outcome: Outcome) -> None:
        for line, answer in outcome.answers:
            if isinstance(answer, Fill):
                show_masks(line, answer, own["top"])

    return _question("fill", own), show


def show_masks(line: Line, answer: Fill, top: int) -> None:
    """Shows the candidates of each mask, the likeliest first, and below them the filled text."""
    for mask in answer.masks:
        table = Table(text_of(line.text, 60), "score")
        for each in mask.best(top):
            table.add_row(shown(each.label), f"{each.score:.3f}")
        out.print(table)
    out.print(shown(answer.text), soft_wrap=True)


TASKS = (
    Task(
        "classify",
        "Classify texts, or pairs of texts.",
        "Classify texts and show each answer beside the float model's; or with a server, by --connect.",
        {"words": _texts("TEXT", "Texts to classify."), "file": FILE, "pair": PAIR},
        _classify,
        {"run": ("work",), "ray": ("address",)},
    ),
    Task(
        "embed",
        "Turn texts into vectors.",
        "Turn texts into vectors, with a model that has no classifier.",
        {
            "words": _texts("TEXT", "Texts to embed."),
            "file": FILE,
            "pair": PAIR,
            "output": _path(
                "--output", "Write the vectors here: .npy (texts, numbers), or .json (a list of lists)."
            ),
            "index": _path("--index", "Write vectors and texts here, for `tacita search --index`."),
        },
        _embed,
    ),
    Task(
        "search",
        "Find the documents nearest to a query.",
        "Find the documents nearest to a query that the server never sees.",
        {
            "words": _texts("QUERY", "What to look for."),
            "file": FILE,
            "index": _path("--index", "Documents of your own, as `tacita embed --index` wrote them."),
            "top": _top("Documents to show for a query."),
        },
        _search,
        {"plan": ("documents",)},
    ),
    Task(
        "tag",
        "Mark the spans of texts, names and places for example.",
        "Mark the spans of texts, each with its characters and score.",
        {"words": _texts("TEXT", "Texts to tag."), "file": FILE},
        _tag,
    ),
    Task(
        "answer",
        "Answer a question by a part of a context.",
        "Answer a question by a part of a context, neither of which the server sees.",
        {
            "question": (
                Annotated[str, typer.Argument(help="What to answer.", show_default=False)],
                inspect.Parameter.empty,
            ),
            "context": (
                Annotated[
                    str, option("--context", help="The text that holds the answer, or a file with it.")
                ],
                inspect.Parameter.empty,
            ),
        },
        _answer,
    ),
    Task(
        "fill",
        "Fill the masks of texts.",
        "Fill the masks of texts, which the tokenizer writes [MASK] or <mask>.",
        {
            "words": _texts("TEXT", "Texts with a mask."),
            "file": FILE,
            "top": _top("Candidates to show for a mask."),
        },
        _fill,
    ),
)
