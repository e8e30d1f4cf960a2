"""A service without `await`: the coroutines of `service`, on an event loop of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar, Unpack, cast

from tacita.client.calls import Cost, LoopThread, Meter
from tacita.client.service import AsyncService, How, Input, Session, TextHow, Verb
from tacita.plans.wire import Models
from tacita.texts.answer import Answer
from tacita.texts.generation import Token
from tacita.texts.ranking import Ranking

T = TypeVar("T")
BlockingVerb: TypeAlias = Verb[Answer, list[Answer]]


def _verb(name: str, about: str) -> BlockingVerb:
    """Returns the method of a verb, a key of `texts.task.GIVES`. about: its docstring."""

    def ask(self: Service, text: Input, **how: Unpack[How]) -> Answer | list[Answer]:
        return self.run(self._inner.ask(name, text, **how))

    ask.__name__, ask.__qualname__, ask.__doc__ = name, f"Service.{name}", about
    return cast(BlockingVerb, ask)


class Service:
    """A service whose methods wait for their results. `tacita.connect` makes it; close it after use.

    It may be called from several threads, and where a loop runs already, as in a notebook. Ctrl-C cancels the
    call at the server, too.
    """

    def __init__(self, inner: AsyncService) -> None:
        self._inner, self._loop = inner, LoopThread()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. Keys stay on this machine and at the server."""
        if self._loop.closed:
            return
        try:
            self._loop.run(self._inner.close())
        finally:
            self._loop.close()

    @property
    def last(self) -> Cost | None:
        """The cost of the call that ended last."""
        return self._inner.last

    def models(self) -> Models:
        """Asks the server what it offers, as `AsyncService.models`."""
        return self.run(self._inner.models())

    classify = _verb("classify", "Labels a text, a pair, or each of a list, as `AsyncService.classify`.")
    embed = _verb("embed", "Embeds texts, as `AsyncService.embed`.")
    search = _verb("search", "Scores the model's documents for texts, as `AsyncService.search`.")
    tag = _verb("tag", "Marks the spans of texts, as `AsyncService.tag`.")
    fill = _verb("fill", "Fills the masks of texts, as `AsyncService.fill`.")

    def answer(
        self, question: str, context: str, *, model: str | None = None, scheme: str | None = None
    ) -> Answer:
        """Answers a question by a span of its context, as `AsyncService.answer`."""
        return self.run(self._inner.answer(question, context, model=model, scheme=scheme))

    def rerank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        model: str | None = None,
        scheme: str | None = None,
        top_n: int | None = None,
    ) -> Ranking:
        """Ranks documents by their relevance to a query, as `AsyncService.rerank`."""
        how: Any = {"model": model, "scheme": scheme, "top_n": top_n}
        return self.run(self._inner.rerank(query, documents, **how))

    def generate(self, prompt: str, **how: Unpack[TextHow]) -> Iterator[Token]:
        """Yields the tokens behind a prompt as they come, as `AsyncService.generate`."""
        return self.each(self._inner.generate(prompt, **how))

    def generate_batch(self, prompts: Sequence[str], **how: Unpack[TextHow]) -> Iterator[tuple[int, Token]]:
        """Yields the numbers of texts and their next tokens, as `AsyncService.generate_batch`."""
        return self.each(self._inner.generate_batch(prompts, **how))

    def open(
        self,
        verbs: Sequence[str],
        model: str | None,
        scheme: str | None,
        meter: Meter,
        texts: int = 1,
        tokens: int = 1,
        cache: bool = False,
    ) -> Session:
        """Opens the session of one plan, for a caller that sends it several requests by `run` and `each`."""
        sizes = {"texts": texts, "tokens": tokens}
        return self.run(self._inner.open(verbs, model, scheme, meter=meter, **sizes, cache=cache))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Waits for the result of a coroutine of an open session, as `LoopThread.run`."""
        return self._loop.run(coroutine)

    def each(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """Yields items of an open session as they come; closing the iterator early closes `items`."""
        return self._loop.each(items)

    def remove_key(self, key: str) -> None:
        """Removes the server's half of a key, as `AsyncService.remove_key`."""
        self.run(self._inner.remove_key(key))
