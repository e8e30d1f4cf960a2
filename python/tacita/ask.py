"""Answers texts in one line of Python: the plan is made at the first call and cached for the next ones.

>>> import tacita
>>> texts = ["a film of quiet beauty", "a waste of time"]
>>> small = {"tokens": 16, "preset": "insecure_toy_n11", "texts": texts}    # for seconds in place of minutes
>>> tacita.classify("a film of quiet beauty", backend="sim", **small)
Classes('positive', privacy='none: sim encrypts nothing')
>>> [answer.label for answer in tacita.classify(texts, backend="plain", **small)]
['positive', 'negative']

In an event loop each function has a coroutine:

>>> import asyncio
>>> asyncio.run(tacita.classify_async("a film of quiet beauty", backend="plain", **small)).label
'positive'

`classify_many` evaluates on the machines of a Ray cluster:

>>> tacita.classify_many(["a film of quiet beauty"], ray="ray://10.0.0.5:10001")
Traceback (most recent call last):
tacita.errors.InputError: --ray 'ray://10.0.0.5:10001': neither local nor HOST:PORT

The last few plans stay in the memory of the process, by the hash of the model and the plan request. They are
written to no file: a plan has a salt that belongs into its server's folder, and a file would have to be
removed.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar, Unpack, cast, overload

from tacita.api import Model, choose_plan, classify_batch_locally, load
from tacita.bar import draw, reporting
from tacita.checkpoint import Checkpoint
from tacita.client.calls import in_thread
from tacita.errors import InputError, nearest
from tacita.evaluate.session import MEMORY_GB
from tacita.generation.generate import generate
from tacita.planning.request import Fields, PlanRequest, require_fields
from tacita.plans.answers import Answer
from tacita.plans.scheme import AUTO
from tacita.schemes.base import (
    CLEAR,
    REAL,
    AnyPlan,
    Place,
    Report,
    cost_of,
    require_allowed,
    silent,
    warn_unprotected,
)
from tacita.schemes.registry import scheme_of
from tacita.server.machines.cluster import LOCAL, require_reachable, where_of
from tacita.server.machines.spread import spreading
from tacita.texts.answer import Classes, Regression, Several
from tacita.texts.embed import Text
from tacita.texts.generation import Token
from tacita.texts.inputs import Cut, Pair, texts_of
from tacita.texts.ranking import Ranking, pairs_of, rank
from tacita.texts.spans import Extract, Fill, Tags
from tacita.texts.task import require_kind
from tacita.texts.vectors import Embedding, Search

CACHED_PLANS = 4
OWN: Mapping[str, Any] = {"backend": "sim", "allow_insecure": False, "progress": draw, "truncate": False}
P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V")  # of answers
F = TypeVar("F", bound=Callable[..., Any])
Labelled: TypeAlias = Classes | Several | Regression  # by the problem that the model's folder names
One: TypeAlias = str | Pair


class How(Fields, total=False):
    """The keywords of a call: the fields of a plan request, and those that `classify` describes."""

    scheme: str
    backend: str
    allow_insecure: bool
    progress: Report | None
    truncate: bool


class Verb(Protocol[V]):
    """A function that asks a model: a text for an answer, or each text of a list."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a str is an iterable, too
        self, text: One, *, model: Model | None = ..., **how: Unpack[How]
    ) -> V: ...
    @overload
    def __call__(self, text: Iterable[Text], *, model: Model | None = ..., **how: Unpack[How]) -> list[V]: ...


_KEYWORDS = """
    Keywords:
    model: a folder, a shipped model's name or a `Checkpoint` (default: of TACITA_MODEL, else sst2-tiny).
    backend: "sim" (default: with the noise of encryption), "plain" (without); "ckks" alone encrypts.
    allow_insecure: admits presets below 128 bits under "ckks"; for tests.
    progress: called with reports; None for none, by default a bar on stderr where that is a terminal or a
    notebook.
    truncate: cuts a text that is too long, which its answer's warnings say; otherwise it is refused.
"""


def _verb(name: str, about: str) -> Any:
    """Returns the function of a verb, a key of `texts.task.GIVES`. about: its docstring, without the
    keywords."""

    def ask(text: One | Iterable[Text], *, model: Model | None = None, **how: Unpack[How]) -> Any:
        return _ask(name, model, text, how)

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = about
    return _documented(ask)


def _documented(function: F) -> F:
    """Decorates a function that takes `How`: its signature and its docstring name all keywords."""
    of_plan = "".join((PlanRequest.__doc__ or "").split("\n\n")[1:2])  # its fields, one a line
    before = [each for name, each in signature(function).parameters.items() if name != "how"]
    own = [each.replace(annotation=Parameter.empty) for each in before]
    defaults = {**OWN, **{each.name: each.default for each in fields(PlanRequest)}, "scheme": "thor"}
    more = [Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in defaults.items()]
    function.__doc__ = f"{function.__doc__}\n{_KEYWORDS}{of_plan}"
    function.__signature__ = Signature([*own, *more])  # type: ignore[attr-defined]
    return function


classify: Verb[Labelled] = _verb(
    "classify",
    """Labels a text, a `tacita.Pair`, or each text of an iterable.

    Nothing is encrypted unless the backend is "ckks": an answer's `privacy` says what protected it, and a
    call that names no backend warns (`PrivacyWarning`). "ckks" has both sides on this machine: keys are made
    in a temporary folder for the call, or under bumblebee a server of its own is asked over TLS.
    `tacita.connect` asks another machine's server.

    Cost: at the first call some 15 s for the plan at full size; on plain and sim seconds a text; encrypted
    what the first report says, with the default plan about 10 GB of memory, 2 GB of disk and a minute.
    Raises InputError (also for a model without labels: see `embed`), PlanError for insecure presets,
    ResourceError, TypeError for an unknown keyword.""",
)
embed: Verb[Embedding] = _verb(
    "embed",
    """Embeds texts by a model without labels: an answer's `vector` has shape (outputs,), and `similarity`
    compares two answers. Cost and errors are those of `classify`.""",
)
search: Verb[Search] = _verb(
    "search",
    """Scores the documents of a model (`checkpoint.documents`) for texts: the answer's `scores`, the nearest
    first. Cost and errors are those of `classify`.""",
)
tag: Verb[Tags] = _verb(
    "tag",
    """Marks spans of texts by a token classifier: the answer's `spans`, and all its `tokens`. Cost and errors
    are those of `classify`.""",
)
fill: Verb[Fill] = _verb(
    "fill",
    """Fills the masks of texts by a masked language model: the answer's `masks`, each with its `best` pieces.
    Cost and errors are those of `classify`.""",
)


@_documented
def answer(question: str, context: str, *, model: Model, **how: Unpack[How]) -> Extract:
    """Answers a question by a part of its context: the answer's `span`. model: for extractive question
    answering. Of a context over the plan's tokens, windows that overlap are asked, each a text of the cost,
    which the first report says; the best answer of all counts. Cost and errors are those of `classify`."""
    extract: Extract = _ask("answer", model, Pair(question, context), how)
    return extract


@_documented
def rerank(
    query: str, documents: Sequence[str], *, model: Model, top_n: int | None = None, **how: Unpack[How]
) -> Ranking:
    """Ranks documents by their relevance to a query, the most relevant first: `best(3)` of the result. model:
    a cross-encoder, a classifier of pairs with one logit. top_n: documents of the result (default: all).
    Keywords and errors are those of `classify`; each document is a text of the cost."""
    answers = _ask("rerank", model, list(pairs_of(query, documents)), how)
    return Ranking(rank(documents, answers).best(top_n))


def classify_many(
    asked: Iterable[Text],
    /,
    *,
    model: Model | None = None,
    ray: str = LOCAL,
    nodes: int | None = None,
    cores: int | None = None,
    threads: int = 0,
    memory: float = MEMORY_GB,
    allow_insecure: bool = False,
    progress: Report = silent,
    scheme: str = "thor",
    **request: Unpack[Fields],
) -> list[Answer]:
    """Labels each text, in order: encrypted here, evaluated on the machines of a Ray cluster.

    asked: texts, or pairs of texts. ray: "local", which starts a cluster on this machine and ends it, or
    HOST:PORT of one that this machine has joined. nodes: to start here (of one core each), or to use there at
    most. cores: of one evaluator (default: its whole node). threads: cores of this machine for "local" (0:
    all). memory: GB of each evaluator. The others are those of `tacita.classify`, whose backend is always
    "ckks" here.

    Cost: what the first report says, of which texts on n nodes take an n-th. Raises InputError where Ray is
    not installed, PeerError where no cluster answers or all of its nodes are lost, PlanError, ResourceError.
    """
    where = where_of(ray, nodes, cores)
    asked, _ = texts_of(asked)
    how = {"scheme": scheme, "backend": REAL, "allow_insecure": allow_insecure, "progress": progress}
    call = _Call.of("classify_many", "classify", model, asked, {**how, **request})
    require_reachable(where)  # refused before minutes of planning
    plan, groups = _plan_for(call, asked)
    with (
        _place(call, progress, threads, memory) as place,
        spreading(plan, call.model, place, where, link=call.request.link) as run,
    ):
        progress(run.forecast(len(groups)).report())
        return [answer for answers, _ in run.answers(groups) for answer in answers]


@dataclass(frozen=True)
class _Call:
    """A call, equal to another where weights, configuration and request are: then its plan is."""

    sha256: str
    request: PlanRequest
    model: Checkpoint = field(compare=False)
    backend: str = field(compare=False)
    allow_insecure: bool = field(compare=False)
    progress: Report | None = field(compare=False)
    truncate: bool = field(compare=False)

    @staticmethod
    def of(name: str, verb: str, model: Model | None, texts: Sequence[Text], how: Mapping[str, Any]) -> _Call:
        """Makes and checks a call of the function `name`, before its plan is made. verb: a key of
        `texts.task.GIVES`. Raises CheckpointError, InputError for a model of another kind, no text or an
        unknown backend, PlanError for an insecure preset, TypeError for an unknown keyword."""
        fields: dict[str, Any] = {**OWN, **how}
        own = {name: fields.pop(name) for name in OWN}
        require_fields(fields, own)
        if not texts:
            raise InputError(f"{name}: no text", hint="pass a text, or a list of them")
        request = PlanRequest(**{"scheme": "thor", **fields}).calibrated_for(texts)
        if request.scheme_name == AUTO and request.inputs is None:
            request = replace(request, inputs=len(texts))
        if own["backend"] not in (*CLEAR, REAL):
            raise InputError(f"no backend {own['backend']!r}", hint=nearest(own["backend"], (*CLEAR, REAL)))
        request = replace(request, quick=request.quick or own["backend"] == "plain")
        require_allowed(request, own["backend"], allow_insecure=own["allow_insecure"])
        loaded = model if isinstance(model, Checkpoint) else load(model)
        require_kind(verb, loaded.config)
        return _Call(loaded.sha256, request, loaded, **own)


def _ask(verb: str, model: Model | None, text: One | Iterable[Text], how: How) -> Any:
    """Asks a text, or each of a list."""
    if "backend" not in how:
        warn_unprotected(verb, "sim", 4)
    texts, several = texts_of(text)
    answers = ask_all(verb, model, texts, how)
    return answers if several else answers[0]


def ask_all(verb: str, model: Model | None, texts: Sequence[Text], how: How) -> list[Answer]:
    """Answers texts by a model that can be asked with this verb, a key of `texts.task.GIVES`. Raises what
    `classify` raises."""
    call = _Call.of(verb, verb, model, texts, how)
    cut = Cut.of(call.model, texts, call.request.tokens, verb, truncate=call.truncate)
    return cut.join(_answers(verb, call, cut.texts))


def _answers(verb: str, call: _Call, texts: Sequence[Text]) -> list[Answer]:
    with reporting(call.progress, verb) as report:
        plan, groups = _plan_for(replace(call, progress=report), texts)
        if call.backend == REAL:
            report(cost_of(plan, len(groups)))
            with (
                _place(call, report) as place,
                scheme_of(plan.scheme).private(plan, call.model, place) as own,
            ):
                return [answer for group in groups for answer in own.answer(group, "")[0]]
        clear = partial(classify_batch_locally, plan, call.model, backend=call.backend, progress=report)
        return [answer for group in groups for answer in clear(group)]


def _plan_for(call: _Call, texts: Sequence[Text]) -> tuple[AnyPlan, list[Sequence[Text]]]:
    """Returns the plan of a call, and its texts, as many a request as the plan holds."""
    calibrated_on_arrays = bool(call.request.hidden_states)  # which have no equality to keep a plan by
    plan = _planned.__wrapped__(call) if calibrated_on_arrays else _planned(call)
    return plan, [texts[at : at + plan.batch] for at in range(0, len(texts), plan.batch)]


@lru_cache(maxsize=CACHED_PLANS)
def _planned(call: _Call) -> AnyPlan:
    return choose_plan(call.model, call.request, progress=call.progress).plan


@contextmanager
def _place(call: _Call, report: Report, threads: int = 0, memory: float = MEMORY_GB) -> Iterator[Place]:
    """Yields a temporary folder for both sides of a call."""
    with tempfile.TemporaryDirectory(prefix="tacita-") as folder:
        yield Place(Path(folder), threads, memory, call.allow_insecure, bar=lambda _: nullcontext(report))


# The same functions as coroutines. Each works in a thread, which leaves the event loop free. Cancelled, it
# ends at its next report of progress, and waits for that: no work goes on behind the caller's back. A service
# has coroutines of its own: `tacita.connect_async`.


class AsyncVerb(Protocol[V]):
    """A coroutine function that asks a model, as `Verb`."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a str is an iterable, too
        self, text: One, *, model: Model | None = ..., **how: Unpack[How]
    ) -> Coroutine[Any, Any, V]: ...
    @overload
    def __call__(
        self, text: Iterable[Text], *, model: Model | None = ..., **how: Unpack[How]
    ) -> Coroutine[Any, Any, list[V]]: ...


def _coroutine(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Returns a function as a coroutine function."""
    name = function.__name__

    async def run(given: Any, how: dict[str, Any]) -> T:
        with reporting(how.pop("progress", draw), name) as report:
            return await in_thread(lambda now: cast(Any, function)(*given, progress=now, **how), report)

    def begin(*given: P.args, **how: P.kwargs) -> Coroutine[Any, Any, T]:
        if "backend" not in how:  # the place in the caller's code is known only here
            warn_unprotected(f"{name}_async", "sim", 3)
        return run(given, {"backend": "sim", **how})

    begin.__name__ = begin.__qualname__ = f"{name}_async"
    begin.__doc__ = f"Does what `tacita.{name}` does, as a coroutine: see there."
    begin.__signature__ = function.__signature__  # type: ignore[attr-defined]  # see `_documented`
    return begin


answer_async = _coroutine(answer)
rerank_async = _coroutine(rerank)
classify_async = cast(AsyncVerb[Labelled], _coroutine(cast(Any, classify)))
embed_async = cast(AsyncVerb[Embedding], _coroutine(cast(Any, embed)))
search_async = cast(AsyncVerb[Search], _coroutine(cast(Any, search)))
tag_async = cast(AsyncVerb[Tags], _coroutine(cast(Any, tag)))
fill_async = cast(AsyncVerb[Fill], _coroutine(cast(Any, fill)))


async def generate_async(prompt: str, **how: Any) -> AsyncGenerator[Token, None]:
    """Yields the tokens of `tacita.generate` as they come. Closed or cancelled, it ends after the token that
    is being computed. Arguments and errors are those of `tacita.generate`."""
    tokens: Any = await in_thread(lambda _: generate(prompt, **how))
    with closing(tokens):
        while (token := await in_thread(lambda _: next(tokens, None))) is not None:
            yield token
