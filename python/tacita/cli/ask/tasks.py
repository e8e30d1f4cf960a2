"""`tacita classify`, `embed`, `search`, `tag`, `answer`, `fill` and `rerank`: what each asks, and how it
shows answers.

With `search --index` the documents are the client's: the server turns an encrypted query into an encrypted
vector, and this side decrypts it and scores its own vectors. Without, they are the server's (`tacita serve
--documents`): it scores the encrypted query against them, and this side decrypts the scores and sorts.
"""

from __future__ import annotations

import json as json_module
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from tacita.checkpoint.documents import document_names
from tacita.cli.ask.core import ask, question_of
from tacita.cli.ask.remote import AT_A_PORT, CONNECTED, NETWORK, Question
from tacita.cli.columns import Line
from tacita.cli.console import out, say, several, shown, writable
from tacita.cli.options import Json, Pair, TextFile, option, taking
from tacita.cli.report import Outcome, text_of
from tacita.errors import InputError
from tacita.plans.files import replacing
from tacita.settings import Keys, Settings
from tacita.texts.answer import Answer, Score
from tacita.texts.embed import MAX_CHARACTERS, parts_of
from tacita.texts.ranking import pairs_of, rank
from tacita.texts.spans import Extract, Fill, Tags, best_window
from tacita.texts.vectors import Index, Search

LINE: Keys = {
    "plan": ("model", "scheme", "tokens", "preset", "texts"),
    "run": ("backend",),
    "network": ("connect", "trust"),
}
ALL: Keys = {
    "plan": (*LINE["plan"], "pooling", "packing", "objective", "functions", "nearest", "link", "prices"),
    "run": (*LINE["run"], "threads", "device", "memory", "work", "allow_insecure", "show_anyway"),
    "network": (*LINE["network"], "prepared", *NETWORK),
    "ray": ("address", "nodes", "cores"),
}
SUFFIXES = (".npy", ".json")  # of a file of vectors


def _asking(**more: Sequence[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorates a command that asks a model. more: settings on its line besides those of all, by section."""
    line = {section: (*LINE.get(section, ()), *more.get(section, ())) for section in ALL}
    file = {section: tuple(n for n in names if n not in line[section]) for section, names in ALL.items()}
    return taking(line, file, CONNECTED, AT_A_PORT)


def _words(metavar: str, meaning: str) -> typer.models.ArgumentInfo:
    argument: typer.models.ArgumentInfo = typer.Argument(metavar=metavar, help=meaning, show_default=False)
    return argument


@_asking(run=("device",), ray=("address",))
def classify(
    *,
    words: Annotated[list[str] | None, _words("TEXT", "Texts to classify.")] = None,
    file: TextFile = None,
    pair: Pair = False,
    settings: Settings,
    json: Json = None,
) -> None:
    """Classify texts and show each answer beside the float model's; or with a server, by --connect."""
    ask(question_of("classify", words, file, pair=pair, others=("embed", "search")), settings, json).end()


@_asking()
def embed(
    *,
    words: Annotated[list[str] | None, _words("TEXT", "Texts to embed.")] = None,
    file: TextFile = None,
    pair: Pair = False,
    output: Annotated[
        Path | None,
        option(
            "--output",
            help="Write the vectors here: .npy (texts, numbers), or .json (a list of lists).",
            callback=writable,
        ),
    ] = None,
    index: Annotated[
        Path | None,
        option(
            "--index", help="Write vectors and texts here, for `tacita search --index`.", callback=writable
        ),
    ] = None,
    settings: Settings,
    json: Json = None,
) -> None:
    """Turn texts into vectors, with a model that has no classifier."""
    if output and output.suffix not in SUFFIXES:
        raise InputError(f"--output {output}: neither .npy nor .json", hint="name the file by its format")
    outcome = ask(question_of("embed", words, file, pair=pair), settings, json)
    if output:
        write_vectors(output, outcome)
    if index:
        (documents := index_of(outcome)).save(index)
        count = several(len(documents.texts), "document")
        left_out = len(outcome.results) - len(documents.texts)
        say(f"index: {shown(str(index))}, {count}" + f", {left_out} left out: checks failed" * bool(left_out))
    outcome.end()


def write_vectors(path: Path, outcome: Outcome) -> None:
    """Writes the file of `--output`, whole or not at all: a vector for each text, NaN (in JSON null) in place
    of one that failed its checks. Raises FileError."""
    answers = [answer.vector if answer.logits else None for _, answer in outcome.answers()]
    width = max((len(vector) for vector in answers if vector is not None), default=0)
    vectors = np.stack([np.full(width, np.nan) if vector is None else vector for vector in answers])
    with replacing(path) as temporary, temporary.open("wb") as file:
        if path.suffix == ".npy":
            np.save(file, vectors)
        else:
            rows = [None if vector is None else vector.tolist() for vector in answers]
            file.write(json_module.dumps(rows).encode())


def index_of(outcome: Outcome) -> Index:
    """Makes an index of the texts and vectors of an outcome; answers that failed their checks are left
    out. Raises InputError where none is left."""
    trusted = [(line, answer) for line, answer in outcome.answers() if answer.trusted]
    if not trusted:
        raise InputError("embed: no vector can be trusted", hint="see the warnings above")
    texts = tuple(" | ".join(parts_of(line.text)) for line, _ in trusted)
    return Index(outcome.model, outcome.sha256, texts, np.stack([answer.vector for _, answer in trusted]))


@_asking(plan=("documents",))
def search(
    *,
    words: Annotated[list[str] | None, _words("QUERY", "What to look for.")] = None,
    file: TextFile = None,
    index: Annotated[
        Path | None, option("--index", help="Documents of your own, as `tacita embed --index` wrote them.")
    ] = None,
    top: Annotated[int, typer.Option("--top", help="Documents to show for a query.", min=1)] = 5,
    settings: Settings,
    json: Json = None,
) -> None:
    """Find the documents nearest to a query that the server never sees."""
    documents = settings.plan.documents
    if bool(index) == bool(documents) and (index or not settings.network.connect):
        raise InputError("search: either --index or --documents", hint="yours, or those of who has the model")
    mine = Index.load(index) if index else None
    question = question_of("search", words, file)
    if mine:  # the server has a model of vectors and no documents
        nearest = partial(with_nearest, mine, top)
        question = replace(question, verb="embed", suits=mine.require, read=nearest)
    outcome = ask(question, settings, json)
    for line, answer in outcome.answers():
        if isinstance(answer, Search) and answer.scores:
            show_nearest(str(line.text), with_texts(answer.best(top), documents))
            if len(answer.scores) < top and not mine:
                say(f"the answer has {several(len(answer.scores), 'document')}, not --top {top}")
    outcome.end()


def with_nearest(mine: Index, top: int, answer: Answer) -> Answer:
    """Returns a query's vector with the nearest documents of the index, the first as its label; an answer
    that is empty as it is. Raises InputError for a vector of another length."""
    if not answer.logits:
        return answer
    scores, same = mine.nearest(answer.vector, top), (answer.logits, answer.warnings)
    return Search(scores[0].label, *same, scores, trusted=answer.trusted, privacy=answer.privacy)


def with_texts(scores: Sequence[Score], documents: Path | None) -> list[Score]:
    """Returns the scores with the documents' texts as labels, from a file of them; without one the labels
    stay numbers."""
    names = document_names(documents) if documents else ()
    numbers = all(each.label.isdecimal() and int(each.label) < len(names) for each in scores)
    return [Score(names[int(each.label)], each.score) for each in scores] if numbers else [*scores]


def show_nearest(query: str, nearest: Sequence[Score]) -> None:
    """Shows one line a document, the nearest first."""
    table = Table("", "score", shown(query, 60))
    for place, each in enumerate(nearest, 1):
        table.add_row(str(place), f"{each.score:.4f}", shown(each.label))
    out.print(table)


@_asking()
def tag(
    *,
    words: Annotated[list[str] | None, _words("TEXT", "Texts to tag.")] = None,
    file: TextFile = None,
    settings: Settings,
    json: Json = None,
) -> None:
    """Mark the spans of texts, each with its characters and score."""
    outcome = ask(question_of("tag", words, file), settings, json)
    for line, answer in outcome.answers():
        if isinstance(answer, Tags):
            table = Table(text_of(line.text, 60), "label", "characters", "score")
            for span in answer.spans:
                where = f"{span.start} to {span.end}"
                table.add_row(shown(span.text), shown(span.label), where, f"{span.score:.3f}")
            out.print(table)
    outcome.end()


@_asking()
def answer(
    *,
    question: Annotated[str, typer.Argument(help="What to answer.", show_default=False)],
    context: Annotated[str, option("--context", help="The text that holds the answer, or a file with it.")],
    settings: Settings,
    json: Json = None,
) -> None:
    """Answer a question by a part of a context, neither of which the server sees."""
    if not question.strip():
        raise InputError("answer: the question is empty", hint="pass at least one word")
    outcome = ask(Question("answer", [Line(1, (question, read_context(context)))]), settings, json)
    windows = [(one, line.first) for line, one in outcome.answers() if isinstance(one, Extract)]
    span = best_window(*zip(*windows, strict=True)).span  # of all windows of the context
    where = f"characters {span.start} to {span.end} of the context"
    say(f"[bold]{shown(span.text)}[/bold]   {where}, score {span.score:.3f}")
    outcome.end()


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


@_asking()
def fill(
    *,
    words: Annotated[list[str] | None, _words("TEXT", "Texts with a mask.")] = None,
    file: TextFile = None,
    top: Annotated[int, typer.Option("--top", help="Candidates to show for a mask.", min=1)] = 5,
    settings: Settings,
    json: Json = None,
) -> None:
    """Fill the masks of texts, which the tokenizer writes [MASK] or <mask>."""
    outcome = ask(question_of("fill", words, file), settings, json)
    for line, answer in outcome.answers():
        if isinstance(answer, Fill):
            for mask in answer.masks:
                table = Table(text_of(line.text, 60), "score")
                for each in mask.best(top):
                    table.add_row(shown(each.label), f"{each.score:.3f}")
                out.print(table)
            say(shown(answer.text))
    outcome.end()


@_asking()
def rerank(
    *,
    query: Annotated[
        str, typer.Argument(help="What the documents are to be relevant to.", show_default=False)
    ],
    words: Annotated[list[str] | None, _words("DOCUMENT", "Documents to sort.")] = None,
    file: Annotated[
        Path | None, option("--file", help="A file of documents, one a line (-: standard input).")
    ] = None,
    top: Annotated[int, typer.Option("--top", help="Documents to show.", min=1)] = 10,
    settings: Settings,
    json: Json = None,
) -> None:
    """Sort documents by their relevance to a query, with a cross-encoder: a model of pairs with one logit."""
    documents = question_of("rerank", words, file)
    pairs = pairs_of(query, [str(line.text) for line in documents.lines])
    lines = [replace(line, text=pair) for line, pair in zip(documents.lines, pairs, strict=True)]
    outcome = ask(replace(documents, lines=lines), settings, json)
    answers = outcome.answers()
    ranking = rank([line.text[1] for line, _ in answers], [answer for _, answer in answers])
    scores = [Score(each.document, each.score) for each in ranking.best(top) if each.score is not None]
    show_nearest(query, scores)
    outcome.end()
