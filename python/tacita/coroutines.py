"""The functions that ask a model, as coroutines: `await tacita.classify_async(text, backend="ckks")`.

Each runs its function in a thread, which leaves the event loop free; arguments, results and errors are the
function's. Cancelled, it ends at its next report of progress, and waits for that: no work goes on behind the
caller's back.

>>> import asyncio, tacita
>>> small = {"tokens": 16, "preset": "insecure_toy_n11", "texts": ["a fine film", "so dull"]}
>>> asyncio.run(tacita.classify_async("a fine film", backend="plain", **small)).label
'positive'

A service has coroutines of its own: `tacita.connect_async`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import closing
from typing import Any, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from tacita import ask
from tacita.api import Model
from tacita.ask import How, Labelled, One
from tacita.bar import reporting
from tacita.client.calls import in_thread
from tacita.generation.generate import generate
from tacita.schemes.base import warn_unprotected
from tacita.texts.embed import Text
from tacita.texts.generation import Token
from tacita.texts.spans import Fill, Tags
from tacita.texts.vectors import Embedding, Search

P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V")


class AsyncVerb(Protocol[V]):
    """A coroutine function that asks a model, as `ask.Verb`."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a str is an iterable, too
        self, text: One, *, model: Model | None = ..., **how: Unpack[How]
    ) -> Coroutine[Any, Any, V]: ...
    @overload
    def __call__(
        self, text: Iterable[Text], *, model: Model | None = ..., **how: Unpack[How]
    ) -> Coroutine[Any, Any, list[V]]: ...


def _coroutine(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Returns a function of `ask` as a coroutine function."""
    name = function.__name__

    async def run(given: Any, how: dict[str, Any]) -> T:
        with reporting(how.pop("progress", None), name) as report:
            return await in_thread(lambda now: cast(Any, function)(*given, progress=now, **how), report)

    def begin(*given: P.args, **how: P.kwargs) -> Coroutine[Any, Any, T]:
        if "backend" not in how:  # the place in the caller's code is known only here
            warn_unprotected(f"{name}_async", "sim", 3)
        return run(given, {"backend": "sim", **how})

    begin.__name__ = begin.__qualname__ = f"{name}_async"
    begin.__doc__ = f"Does what `tacita.{name}` does, as a coroutine: see there."
    begin.__signature__ = function.__signature__  # type: ignore[attr-defined]  # see `ask._documented`
    return begin


answer_async = _coroutine(ask.answer)
rerank_async = _coroutine(ask.rerank)
classify_async = cast(AsyncVerb[Labelled], _coroutine(cast(Any, ask.classify)))
embed_async = cast(AsyncVerb[Embedding], _coroutine(cast(Any, ask.embed)))
search_async = cast(AsyncVerb[Search], _coroutine(cast(Any, ask.search)))
tag_async = cast(AsyncVerb[Tags], _coroutine(cast(Any, ask.tag)))
fill_async = cast(AsyncVerb[Fill], _coroutine(cast(Any, ask.fill)))


async def generate_async(prompt: str, **how: Any) -> AsyncGenerator[Token, None]:
    """Yields the tokens of `tacita.generate` as they come. Closed or cancelled, it ends after the token that
    is being computed. Arguments and errors are those of `tacita.generate`."""
    tokens: Any = await in_thread(lambda _: generate(prompt, **how))
    with closing(tokens):
        while (token := await in_thread(lambda _: next(tokens, None))) is not None:
            yield token
