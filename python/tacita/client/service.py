"""Asks the models of a service by coroutines, one for each verb, whatever scheme answers.

async with tacita.connect_async("https://models.example.org:8443", token=token) as service:
    answers = await asyncio.gather(*(service.classify(text) for text in texts))
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, cast, overload
from urllib.parse import quote

from tacita.client.calls import Cost, Meter, Report, in_thread
from tacita.client.http.channel import Channel
from tacita.client.keys import Owner
from tacita.client.offers import choose, fetch_public
from tacita.client.requests import Ciphertexts
from tacita.client.session import Client
from tacita.client.store import Store
from tacita.errors import InputError, PeerError, require_keywords
from tacita.plans import engine
from tacita.plans.commitment import LinkSpeed
from tacita.plans.wire import API, VISITOR, Model, Models, Offer
from tacita.progress import Progress
from tacita.texts.answer import Answer
from tacita.texts.embed import Text
from tacita.texts.generation import TOKENS, Choice, TextOptions, Token, stop_texts
from tacita.texts.inputs import Cut, Pair, texts_of
from tacita.texts.ranking import Ranking, pairs_of, rank
from tacita.texts.task import require_kind
from tacita.two_party.protocol.party import Party

if TYPE_CHECKING:
    from tacita.client.connected import Connected

Input: TypeAlias = str | Pair | Iterable[Text]
Session: TypeAlias = "Ciphertexts | Connected"  # with one plan of a server
T = TypeVar("T")
Begin: TypeAlias = Callable[[Session, TextOptions, Meter, Report], AsyncGenerator[T, None]]
One = TypeVar("One", covariant=True)
Several = TypeVar("Several", covariant=True)


@dataclass(frozen=True)
class Options:
    """How a service is asked. report: called with progress, from several threads. context: of WebSockets;
    None for connections without TLS. timeout: seconds of their silence. threads: of a connected scheme, 0 for
    all cores. prepared: texts to come that a session of one prepares. allow_insecure: admits parameters below
    128 bits. link: of a connected scheme, None for a measured one."""

    report: Report
    context: ssl.SSLContext | None
    timeout: float
    threads: int
    prepared: int
    allow_insecure: bool
    link: LinkSpeed | None = None


class How(TypedDict, total=False):
    """Keywords of a verb; see `AsyncService.classify`."""

    model: str | None
    scheme: str | None
    truncate: bool


class TextHow(TypedDict, total=False):
    """Keywords of a text that is written; see `AsyncService.generate`."""

    model: str | None
    scheme: str | None
    max_tokens: int
    temperature: float
    top_k: int
    cache: bool
    stop: str | Sequence[str]


class Verb(Protocol[One, Several]):
    """A method that asks a model: a text for an answer, or each text of a list."""

    @overload
    def __call__(self, text: str | Pair, **how: Unpack[How]) -> One: ...
    @overload
    def __call__(self, text: Iterable[Text], **how: Unpack[How]) -> Several: ...


AsyncVerb: TypeAlias = Verb[Coroutine[Any, Any, Answer], Coroutine[Any, Any, list[Answer]]]


def _verb(name: str, about: str) -> AsyncVerb:
    """Returns the method of a verb, a key of `texts.task.GIVES`. about: its docstring."""

    async def ask(self: AsyncService, text: Input, **how: Unpack[How]) -> Answer | list[Answer]:
        return await self.ask(name, text, **how)

    ask.__name__, ask.__qualname__, ask.__doc__ = name, f"AsyncService.{name}", about
    return cast(AsyncVerb, ask)


class AsyncService:
    """A client of one server. `tacita.connect_async` makes it; close it after use.

    last: the cost of the call that ended last, None before. Every method raises PeerError where the server
    is not there, not trusted or breaks the API, RefusedError where it refuses, InputError for what it does
    not offer or a text that does not fit.
    """

    def __init__(self, channel: Channel, store: Store, options: Options) -> None:
        self._channel, self._store, self._options = channel, store, options
        self._models: Models | None = None
        self._sessions: dict[tuple[str, str, str], Session] = {}
        self._opening = asyncio.Lock()
        self.last: Cost | None = None

    async def __aenter__(self) -> AsyncService:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections. Keys stay on this machine and at the server."""
        for session in self._sessions.values():
            with suppress(PeerError):
                await session.close()
        self._sessions.clear()
        await self._channel.client.aclose()

    async def models(self) -> Models:
        """Asks the server what it offers. Its signing key is kept at the first contact. Raises PeerError
        where it has another key later."""
        reply = await self._channel.ask("GET", "/models")
        offered = reply.read(Models)
        if self._channel.token is None and (token := reply.headers.get(VISITOR)):
            self._channel.take(token)
        self._store.server(self._channel.address).meet(self._channel.address.url, offered.signer)
        self._models = offered
        return offered

    classify = _verb(
        "classify",
        """Labels a text, a pair, or each of a list.

        model: a name that the server offers (default: the only one that answers so). scheme: one of its
        offers (default: the first), or "auto": the quickest for so many texts by the offers' estimates.
        truncate: cuts a text that is too long, which its answer's warnings say; otherwise it is refused.
        Cost: the first time under a CKKS scheme keys are made and sent, seconds and up to gigabytes, as the
        first report says; then what the offer foresees for a request.
        """,
    )
    embed = _verb(
        "embed",
        "Embeds texts by a model without labels: the answer's `vector`. Arguments: as of `classify`.",
    )
    search = _verb(
        "search", "Scores a model's documents for texts: the answer's `scores`. Arguments: as of `classify`."
    )
    tag = _verb(
        "tag",
        "Marks spans of texts by a token classifier: the answer's `spans`. Arguments: as of `classify`.",
    )
    fill = _verb(
        "fill",
        "Fills the masks of texts by a masked language model: the answer's `masks`. Arguments: as of "
        "`classify`.",
    )

    async def answer(
        self, question: str, context: str, *, model: str | None = None, scheme: str | None = None
    ) -> Answer:
        """Answers a question by a part of its context: the answer's `span`. Of a context that is too long
        windows are asked, as of `tacita.answer`. Arguments: as of `classify`."""
        (answer,) = await self._answers("answer", [Pair(question, context)], model, scheme)
        return answer

    async def rerank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        model: str | None = None,
        scheme: str | None = None,
        top_n: int | None = None,
    ) -> Ranking:
        """Ranks documents by their relevance to a query, as `tacita.rerank`. Arguments: as of `classify`."""
        answers = await self._answers("rerank", pairs_of(query, documents), model, scheme)
        return Ranking(rank(documents, answers).best(top_n))

    def generate(self, prompt: str, **how: Unpack[TextHow]) -> AsyncGenerator[Token, None]:
        """Yields the tokens behind a prompt as they come. Arguments: as of `tacita.generate`. scheme: by
        default that of two parties where it is offered; of any other each token is a request; "auto": the
        quickest by the offers' estimates of all tokens. cache: by the offer whose server keeps rows of the
        text, so that a request is one row; it learns how many there are.

        Closing it early (`contextlib.aclosing`) ends the text; a connection that breaks is made again.
        """
        return self._write(how, 1, lambda session, *rest: session.generate(prompt, *rest))

    def generate_batch(
        self, prompts: Sequence[str], **how: Unpack[TextHow]
    ) -> AsyncGenerator[tuple[int, Token], None]:
        """Yields the number of a text, from 0, and its next token. On ciphertexts all that go on share
        requests, as many each as it has places; a text ends at a token that is not sound, which is withheld
        (its `sound` is False). Two parties write one text after the other. Arguments: as of `generate`."""
        return self._write(how, len(prompts), lambda session, *rest: session.generate_batch(prompts, *rest))

    async def _write(self, how: TextHow, texts: int, begin: Begin[T]) -> AsyncGenerator[T, None]:
        require_keywords(how, TextHow.__annotations__, "generate")
        chance = Choice(how.get("temperature", 0.0), how.get("top_k", 0))
        most, cache = how.get("max_tokens", TOKENS), how.get("cache", False)
        options = TextOptions(most, stop_texts(how.get("stop", ())), chance, cache=cache)
        meter, of = Meter(self._channel.patience.clock), (how.get("model"), how.get("scheme"))
        try:
            session = await self.open(["generate"], *of, meter=meter, texts=texts, tokens=most, cache=cache)
            async with aclosing(begin(session, options, meter, self._options.report)) as items:
                async for item in items:
                    yield item
        finally:
            self.last = meter.cost

    async def ask(self, verb: str, text: Input, **how: Unpack[How]) -> Answer | list[Answer]:
        """Answers a text, or each of an iterable. verb: a key of `texts.task.GIVES`."""
        require_keywords(how, How.__annotations__, verb)
        texts, several = texts_of(text)
        answers = await self._answers(verb, texts, **how)
        return answers if several else answers[0]

    async def open(
        self,
        verbs: Sequence[str],
        model: str | None = None,
        scheme: str | None = None,
        *,
        meter: Meter,
        texts: int = 1,
        tokens: int = 1,
        cache: bool = False,
    ) -> Session:
        """Returns the session of the plan that these verbs ask, the first or any other. Sessions are kept for
        later calls. Arguments: as of `choose`. Raises InputError."""
        models = self._models or await self.models()
        selected, offer = choose(models, verbs, model, scheme, texts, tokens, cache=cache)
        key = (selected.name, offer.scheme, offer.plan)
        async with self._opening:
            if key not in self._sessions:
                with meter.step("public"):
                    self._sessions[key] = await self._open_session(selected, offer, models.signer, meter)
        require_kind(verbs[0], self._sessions[key].plan, *verbs[1:])
        return self._sessions[key]

    async def remove_key(self, key: str) -> None:
        """Removes the server's half of a key, if it has any."""
        reply = await self._channel.ask("DELETE", f"/keys/{key}")
        if reply.status != 404:
            reply.require()

    async def _answers(
        self,
        verb: str,
        texts: Sequence[Text],
        model: str | None = None,
        scheme: str | None = None,
        truncate: bool = False,
    ) -> list[Answer]:
        if not texts:
            raise InputError(f"{verb}: no text", hint="pass a text, or a list of them")
        meter, report = Meter(self._channel.patience.clock), self._options.report
        try:
            session = await self.open([verb], model, scheme, meter=meter, texts=len(texts))
            cut = Cut.of(session.front, texts, session.plan.tokens, verb, truncate=truncate)
            if (requests := -(-len(cut.texts) // session.plan.batch)) > len(texts):
                each, seconds = session.offer, requests * session.offer.seconds
                size = (each.traffic_bytes or each.request_bytes + each.response_bytes) / 1e6
                words = f"{len(cut.texts)} windows: {requests} x {each.seconds:.1f} s, {size:.1f} MB"
                report(Progress(words, 0, requests, 0.0, seconds))
            return cut.join(await answer_all(session, cut.texts, meter, report))
        finally:
            self.last = meter.cost

    async def _open_session(self, model: Model, offer: Offer, signer: str, meter: Meter) -> Session:
        self._store.ready()
        if offer.connected:
            from tacita.client.connected import Connected

            how = partial(self._dial, model.name), offer, self._store.public
            of = self._options.prepared, self._options.link
            return await in_thread(lambda _: Connected(*how, *of))
        channel = self._channel.metered(meter)
        public = await fetch_public(channel, model.name, offer, self._store.public)
        engine.require_secure(public.plan.parameters, allow_insecure=self._options.allow_insecure)
        folder = self._store.server(channel.address).plan(offer.plan)
        client = Client(public, folder, allow_insecure=self._options.allow_insecure)
        return Ciphertexts(Owner(self._channel, client, folder, model.name, offer), signer)

    def _dial(self, model: str) -> Party:
        from tacita.client.http.websocket import dial

        options, path = self._options, f"{API}/two-party?model={quote(model, safe='')}"
        return dial(
            self._channel.address.socket(path),
            token=self._channel.token,
            context=options.context,
            timeout=options.timeout,
            threads=options.threads,
        )


async def answer_all(session: Session, texts: Sequence[Text], meter: Meter, report: Report) -> list[Answer]:
    """Answers texts of one plan, as many a request as it holds."""
    size = session.plan.batch
    groups = [texts[at : at + size] for at in range(0, len(texts), size)]
    return [one for group in groups for one in await session.answer(group, meter, report)]
