"""Runs inference under the names and with the answers that users of transformers' `pipeline` know. It is
private with `backend="ckks"`.

>>> import tacita
>>> small = {"tokens": 16, "preset": "insecure_toy_n11", "texts": ["a fine film", "so dull"]}
>>> classifier = tacita.pipeline("text-classification", backend="plain", **small)
>>> classifier("a film of quiet beauty")[0]["label"]
'positive'

Three things differ: the keywords are those of `tacita.classify`, a word of a span is spelled as in the text,
not as in the vocabulary, and None stands in the place of an answer that failed its checks.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np
import numpy.typing as npt

from tacita.api import Answer, Model, load
from tacita.ask import How, ask_all
from tacita.bar import draw, reporting
from tacita.checkpoint import Checkpoint
from tacita.data import DEFAULT_DECODER
from tacita.errors import InputError, nearest
from tacita.generation.generate import generate
from tacita.progress import Progress
from tacita.schemes.base import Report, warn_unprotected
from tacita.texts.answer import Classes, Regression, Several
from tacita.texts.embed import Text
from tacita.texts.generation import TOKENS
from tacita.texts.inputs import Pair, texts_of
from tacita.texts.spans import CANDIDATES, NOTHING, Candidate, Extract, Fill, Mask, Tags
from tacita.texts.task import require_kind
from tacita.texts.vectors import LEAST_LENGTH, cosines

if TYPE_CHECKING:
    from tacita.client.blocking import Service

Vectors = npt.NDArray[Any]

Row = dict[str, Any]


@dataclass(frozen=True)
class Pipeline:
    """A model and how it is asked. Call it with an input or a list of inputs, and with these of transformers'
    keywords:

    text-classification: a text or {"text", "text_pair"}; top_k (1; None: all).
    token-classification: a text; aggregation_strategy ("simple", or "none": every token).
    question-answering: question=, context=, or a list of both in dicts.
    image-classification: the name of an image's file; top_k (5).
    feature-extraction: a text -> its vector; fill-mask: a text; top_k (5).
    text-generation: a prompt; max_new_tokens (64), return_full_text (True), temperature, top_k.
    sentence-similarity: {"source_sentence", "sentences"} -> a cosine for each sentence.

    Also by transformers' other names: sentiment-analysis (text-classification), ner (token-classification).
    """

    task: str
    model: Checkpoint
    how: How = field(default_factory=How, repr=False)

    def __call__(self, inputs: Any = None, **options: Any) -> Any:
        """Answers an input, or each of a list. Raises what `tacita.classify` raises, TypeError for an option
        that the task does not have."""
        task = TASKS[self.task]
        if task.run:
            return task.run(self, inputs, **options)
        if inputs is None:  # question= and context=
            inputs = {name: options.pop(name) for name in task.named if name in options}
        if isinstance(inputs, tuple) and not isinstance(inputs, Pair):
            texts_of(inputs)  # which refuses one that may be a pair or two texts
        many = isinstance(inputs, Iterable) and not isinstance(inputs, str | dict | tuple)
        texts = [task.text(one) for one in (list(inputs) if many else [inputs])]
        answers = ask_all(task.verb, self.model, texts, self.how)
        results = [None if answer.empty else task.row(answer, **options) for answer in answers]
        if many and task.joined and not options:  # the best label of each text: one list
            return [row for rows in results for row in (rows or [None])]
        return results if many else results[0]


@dataclass(frozen=True)
class _Task:
    """A task of transformers. verb: of `texts.task`. row: turns an answer into what transformers returns.
    text: turns an input into what is asked. named: keywords that stand for the input. joined: whether a list
    of inputs gives one list of rows. run: answers an input itself, in the place of `row` and `text`."""

    verb: str
    row: Callable[..., Any] = lambda answer: answer
    text: Callable[[Any], Text] = str
    named: tuple[str, ...] = ()
    joined: bool = False
    run: Callable[..., Any] | None = None


def pipeline(task: str, model: Model | None = None, **how: Unpack[How]) -> Pipeline:
    """Returns a callable for a task, one of `TASKS` or `ALIASES`. how: the keywords of `tacita.classify`
    (scheme, backend, tokens, ...), for text-generation those of `tacita.generate`.

    Raises InputError for an unknown task or a model of another one, CheckpointError.
    """
    if (task := ALIASES.get(task, task)) not in TASKS:
        raise InputError(f"pipeline: no task {task!r:.80}", hint=nearest(task, (*TASKS, *ALIASES)))
    if model is None and TASKS[task].verb == "generate":
        model = DEFAULT_DECODER
    loaded = model if isinstance(model, Checkpoint) else load(model)
    require_kind(TASKS[task].verb, loaded.config)
    if "backend" not in how:
        warn_unprotected("pipeline", "sim", 3)
    return Pipeline(task, loaded, how)


def _text(given: Any) -> Text:
    """Reads a text, a pair, or a dict of both as transformers takes it. Raises InputError for anything
    else."""
    if isinstance(given, dict) and set(given) <= {"text", "text_pair"} and "text" in given:
        second = given.get("text_pair")
        return str(given["text"]) if second is None else (str(given["text"]), str(second))
    pair = isinstance(given, tuple) and len(given) == 2
    if isinstance(given, str) or (pair and all(isinstance(part, str) for part in given)):
        return given  # type: ignore[no-any-return]
    raise InputError(
        f"pipeline: an input of type {type(given).__name__}", hint="a text, or text and text_pair"
    )


def _question(given: Any) -> Text:
    if isinstance(given, dict) and set(given) == {"question", "context"}:
        return str(given["question"]), str(given["context"])
    raise InputError("pipeline: not a question and its context", hint="question=..., context=...")


def _labels(answer: Answer, *, top_k: int | None = 1) -> list[Row]:
    """Returns the likeliest labels; for a regression every number, under its name."""
    if isinstance(answer, Regression):
        return [{"label": name, "score": value} for name, value in answer.values.items()]
    assert isinstance(answer, Classes | Several)  # the other kinds of a classifier
    return [score.to_json() for score in answer.scores[:top_k]]


def _name(given: Any) -> Text:
    if isinstance(given, str | Path):
        return str(given)
    raise InputError(f"pipeline: an input of type {type(given).__name__}", hint="the name of an image's file")


def _entities(answer: Answer, *, aggregation_strategy: str = "simple") -> list[Row]:
    assert isinstance(answer, Tags)  # what `tag` answers
    if aggregation_strategy == "none":
        marked = ((i, token) for i, token in enumerate(answer.tokens, 1) if token.label != NOTHING)
        return [
            {"entity": t.label, "score": t.score, "index": i, "word": t.piece, "start": t.start, "end": t.end}
            for i, t in marked
        ]
    if aggregation_strategy != "simple":
        raise InputError(f"aggregation_strategy {aggregation_strategy!r:.40}", hint='"simple" or "none"')
    return [
        {"entity_group": s.label, "score": s.score, "word": s.text, "start": s.start, "end": s.end}
        for s in answer.spans
    ]


def _span(answer: Answer) -> Row:
    assert isinstance(answer, Extract)  # what `answer` answers
    span = answer.span
    return {"score": span.score, "start": span.start, "end": span.end, "answer": span.text}


def _vector(answer: Answer) -> list[list[float]]:
    """Returns one row, where transformers has one for each token unless it pools."""
    return [list(answer.logits)]


def _words(answer: Answer, *, top_k: int = CANDIDATES) -> Any:
    """Returns a list of candidates, for several masks a list for each."""
    assert isinstance(answer, Fill)  # what `fill` answers
    masks = [[_word(answer, mask, one) for one in mask.best(top_k)] for mask in answer.masks]
    return masks[0] if len(masks) == 1 else masks


def _word(answer: Fill, mask: Mask, one: Candidate) -> Row:
    """Returns a candidate, with the text in which it stands in the place of its mask."""
    sequence = answer.fill_in([(mask, one)])
    return {"score": one.score, "token": one.token, "token_str": one.label, "sequence": sequence}


def _generated(pipe: Pipeline, inputs: Any, **options: Any) -> Any:
    """Returns what transformers returns for a prompt, or for each of a list."""
    if isinstance(inputs, list):
        return [_generated(pipe, one, **options) for one in inputs]
    full = options.pop("return_full_text", True)
    how: dict[str, Any] = {"backend": "plain", **pipe.how, **options}
    how["max_tokens"] = how.pop("max_new_tokens", TOKENS)
    (prompt,), _ = texts_of(inputs)
    text = "".join(token.text for token in generate(str(prompt), model=pipe.model, **how))
    return [{"generated_text": str(prompt) + text if full else text}]


def _similarities(pipe: Pipeline, inputs: Any) -> list[float | None]:
    """Returns the cosine of each sentence with the source, None where one of both answers failed its
    checks."""
    if not isinstance(inputs, dict) or set(inputs) != {"source_sentence", "sentences"}:
        raise InputError("pipeline: not a source and its sentences", hint="source_sentence, sentences")
    texts, _ = texts_of([inputs["source_sentence"], *inputs["sentences"]])
    source, *others = ask_all("embed", pipe.model, texts, pipe.how)
    pairs = [None if source.empty or each.empty else each.vector[None, :] for each in others]
    return [None if each is None else float(cosines(source.vector, each)[0]) for each in pairs]


ALIASES = {"sentiment-analysis": "text-classification", "ner": "token-classification"}
TASKS = {
    "text-classification": _Task("classify", _labels, _text, joined=True),
    "token-classification": _Task("tag", _entities, _text),
    "question-answering": _Task("answer", _span, _question, ("question", "context")),
    "image-classification": _Task("classify", partial(_labels, top_k=5), _name),
    "feature-extraction": _Task("embed", _vector, _text),
    "fill-mask": _Task("fill", _words, _text),
    "text-generation": _Task("generate", run=_generated),
    "sentence-similarity": _Task("embed", run=_similarities),
}


class SentenceEncoder:
    """Embeds sentences under the names that users of sentence-transformers know.

    >>> encoder = SentenceEncoder("sst2-tiny", backend="plain")
    Traceback (most recent call last):
    tacita.errors.InputError: embed: the model answers with a label, not a vector

    privacy: what protected the sentences of the call that ended last, as of `Answer.privacy`.
    """

    def __init__(
        self, model: Model | None = None, *, service: Service | None = None, **how: Unpack[How]
    ) -> None:
        """Takes a model without labels, or the name of a service's. service: of `tacita.connect`, which then
        answers. how: the keywords of `tacita.embed`, of a service those of its `embed`. Raises
        CheckpointError, InputError for a model of another task."""
        self.privacy, self._service, self._how, self._model = "", service, how, model
        if not service:
            loaded = self._model = model if isinstance(model, Checkpoint) else load(model)
            require_kind("embed", loaded.config)
            if "backend" not in how:
                warn_unprotected("SentenceEncoder", "sim", 3)

    def __repr__(self) -> str:
        name = getattr(self._model, "name", self._model)
        return f"SentenceEncoder({name!r:.80}, privacy={self.privacy or 'unknown'!r})"

    def encode(
        self,
        sentences: str | Iterable[str],
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        *,
        normalize_embeddings: bool = True,
    ) -> Vectors:
        """Embeds a sentence, (outputs,), or each of many, (sentences, outputs), as float32 of length 1.

        batch_size: sentences that a service is sent at a time, and that a request of arion or moai is shaped
        for; other schemes ask one a request. show_progress_bar: False for none (default: where stderr is a
        terminal or a notebook). normalize_embeddings: False leaves the lengths that the model gives.
        A sentence whose answer failed its checks has NaN in its row, and a warning names it.
        Raises what `tacita.embed` raises.
        """
        texts, several = texts_of(sentences)
        if batch_size < 1:
            raise InputError(f"encode: a batch of {batch_size}", hint="at least one sentence")
        if not texts:
            return np.zeros((0, 0), np.float32)
        report = None if show_progress_bar is False else draw
        ask = self._ask_service if self._service else self._ask_here
        answers = ask(texts, batch_size, report)
        self.privacy = next((each.privacy for each in answers if each.privacy), "")
        vectors = _stacked(answers)
        if normalize_embeddings:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), LEAST_LENGTH)
        return vectors.astype(np.float32) if several else vectors[0].astype(np.float32)

    def similarity(self, first: Vectors, second: Vectors) -> Vectors:
        """Computes the cosine of each row with each: (m, outputs), (n, outputs) -> (m, n)."""
        rows = [cosines(each, np.atleast_2d(second)) for each in np.atleast_2d(first)]
        return np.stack(rows).astype(np.float32)

    def _ask_here(self, texts: list[Text], size: int, report: Report | None) -> list[Answer]:
        batch: dict[str, Any] = {"inputs": size} if self._how.get("scheme") in ("arion", "moai") else {}
        return ask_all("embed", self._model, texts, cast(How, {**batch, "progress": report, **self._how}))

    def _ask_service(self, texts: list[Text], size: int, report: Report | None) -> list[Answer]:
        answers, began, embed = list[Answer](), time.monotonic(), cast(Any, self._service).embed
        with reporting(report, "encode") as show:
            for at in range(0, len(texts), size):
                answers += embed(texts[at : at + size], model=self._model, **self._how)
                spent, share = time.monotonic() - began, len(texts) / len(answers)
                show(Progress("sentences", len(answers), len(texts), spent, spent * (share - 1.0)))
        return answers


def _stacked(answers: list[Answer]) -> Vectors:
    """Stacks the vectors; NaN stand in the place of answers that failed their checks, and a warning says
    where. Raises InputError where all of them failed."""
    failed = [number for number, answer in enumerate(answers) if answer.empty]
    width = max(len(answer.logits) for answer in answers)
    if not width:
        raise InputError("encode: every answer failed its checks", hint="calibrate on texts like yours")
    if failed:
        warnings.warn(f"encode: no answer to trust in rows {failed}", stacklevel=3)
    return np.stack([np.full(width, np.nan) if each.empty else each.vector for each in answers])
