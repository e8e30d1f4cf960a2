"""Answers OpenAI's calls by a client of Tacita's, which encrypts on this machine.

OpenAI's client -- HTTP on the loopback --> this app --> tacita.client: ciphertexts or shares --> server
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from tacita.client.calls import Meter, Report
from tacita.client.offers import can_answer
from tacita.client.service import Session, answer_all
from tacita.errors import InputError, TacitaError
from tacita.gateway.bodies import Body, Chat, Completion, Embeddings, Rerank, prompts_of, reason_of
from tacita.gateway.guard import Fault, fault_of
from tacita.plans.wire import Model, Models
from tacita.texts.answer import Answer
from tacita.texts.embed import Text, length_of
from tacita.texts.embedding import Embedder
from tacita.texts.generation import ids_of, speller
from tacita.texts.ranking import pairs_of, rank

VERBS = ("embed", "generate", "rerank")  # that OpenAI's clients have calls for
T = TypeVar("T")
Json = dict[str, Any]


@dataclass
class Gateway:
    """The models of a server. list, open: as of `client.service.AsyncService`. scheme: that answers, and
    writes where it is offered; None for the server's first. report: of what is computed."""

    list: Callable[[], Awaitable[Models]]
    open: Callable[..., Awaitable[Session]]
    scheme: str | None
    report: Report
    created: int = field(default_factory=lambda: int(time.time()))

    async def models(self) -> dict[str, Model]:
        """Returns the models that can be asked here, by name."""
        return {each.name: each for each in (await self.list()).models if verb_of(each)}

    async def session(self, verb: str, name: str, texts: int = 1) -> tuple[Session, Embedder]:
        """Returns the session of a model, and its tokenizer. Raises Fault for a name that there is not."""
        await (self.row(name) if name else self.models())  # a server may have planned anew since
        scheme = self.scheme
        if verb == "generate" and scheme:  # where it is offered, else by two parties as without one
            rows = [each for each in (await self.models()).values() if verb_of(each) == verb]
            offers = [offer.scheme for each in rows if name in ("", each.name) for offer in each.offers]
            scheme = scheme if scheme in offers else None
        session = await self.open([verb], name or None, scheme, meter=Meter(), texts=texts)
        if session.front is None:
            raise InputError("the model starts from hidden states", hint="ask it from Python")
        return session, session.front

    async def row(self, name: str) -> Json:
        """Returns a model as OpenAI lists it. Raises Fault for a name that there is not."""
        if name not in (models := await self.models()):
            hint = f"no model {name!r:.100}; the models are: {', '.join(models) or 'none'}"
            raise Fault(404, hint, "model_not_found", "model")
        longest = max(offer.tokens for offer in models[name].offers)
        about = {"created": self.created, "owned_by": "tacita", "max_model_len": longest}
        return {"id": name, "object": "model", **about}

    async def answers(self, verb: str, model: str, texts: Sequence[Text]) -> tuple[Sequence[Answer], Json]:
        """Answers texts; returns model and tokens, too. Raises Fault where an answer failed its checks."""
        session, front = await self.session(verb, model, len(texts))
        count = sum(length_of(front, text) for text in texts)
        answers = await answer_all(session, texts, Meter(), self.report)
        if bad := [at for at, answer in enumerate(answers) if answer.empty]:
            raise Fault(422, f"texts {bad}: the answer failed its checks and is not shown", "failed_checks")
        about: Json = {"usage": {"prompt_tokens": count, "total_tokens": count}}
        if doubts := [f"text {at}: {doubt}" for at, each in enumerate(answers) for doubt in each.warnings]:
            about["warnings"] = doubts
        return answers, {"model": model or session.plan.name, **about}

    async def embeddings(self, body: Embeddings) -> Json:
        answers, about = await self.answers("embed", body.model, body.input)
        vectors = [answer.vector.astype("<f4") for answer in answers]
        if body.dimensions not in (None, width := len(vectors[0])):
            raise Fault(400, f"dimensions: the model gives {width}", "invalid_value", "dimensions")
        bits = body.encoding_format == "base64"
        coded = [base64.b64encode(v.tobytes()).decode() if bits else v.tolist() for v in vectors]
        rows = [{"object": "embedding", "index": i, "embedding": each} for i, each in enumerate(coded)]
        return {"object": "list", "data": rows, **about}

    async def rerank(self, body: Rerank) -> Json:
        answers, about = await self.answers("rerank", body.model, pairs_of(body.query, body.documents))
        results = []
        for each in rank(body.documents, answers).best(body.top_n):
            text = {"document": {"text": each.document}} if body.return_documents else {}
            results.append({"index": each.index, "relevance_score": each.score, **text})
        return {"id": secrets.token_hex(12), "results": results, **about}

    async def write(self, body: Chat | Completion) -> Any:
        writer = Writer(*await self.session("generate", body.model), body, self.report)
        if not body.stream:
            return await writer.whole()
        events = writer.events()
        first = await anext(events)  # what is refused has a status of its own

        async def all_events() -> AsyncIterator[str]:
            async with aclosing(events):
                yield first
                async for event in events:
                    yield event

        return Events(all_events(), media_type="text/event-stream")


@dataclass
class Writer:
    """Writes texts behind the prompts of one call. read, written: tokens so far."""

    session: Session
    front: Embedder
    body: Chat | Completion
    report: Report
    id: str = field(default_factory=lambda: secrets.token_hex(12))
    read: int = 0
    written: int = 0

    async def pieces(self) -> AsyncGenerator[tuple[int, str, str | None], None]:
        """Yields each text in pieces, then why it ended, with the number of its prompt."""
        plan, spell = self.session.plan, speller(self.front)
        begun, cache = (bool(getattr(plan, each, ())) for each in ("begin", "kept"))
        for at, prompt in enumerate(prompts_of(self.body, self.front)):
            read, ids = len(ids_of(self.front, prompt, begun=begun)), list[int]()
            options = self.body.options(plan.tokens + 1 - read)
            options, self.read = replace(options, cache=cache), self.read + read
            async with aclosing(self.session.generate(prompt, options, Meter(), self.report)) as tokens:
                async for token in tokens:
                    ids.append(token.id)
                    self.written += 1
                    yield at, token.text, None
            ended = ids[-1] in (plan.ends or ()) or any(stop in spell(ids) for stop in options.stop)
            yield at, "", "stop" if ended or len(ids) < options.max_tokens else "length"

    async def whole(self) -> Json:
        """Returns all texts at once."""
        texts, reasons = dict[int, str](), dict[int, str | None]()
        async for at, text, reasons[at] in self.pieces():
            texts[at] = texts.get(at, "") + text
        choices = [self._choice(at, text, reasons[at], "message", begun=False) for at, text in texts.items()]
        return self._about("chat.completion", choices) | {"usage": self._usage()}

    async def events(self) -> AsyncGenerator[str, None]:
        """Yields what is sent for each piece. An error behind the first piece is one of the events."""
        begun, kind = False, "chat.completion.chunk"
        try:
            async for at, text, reason in self.pieces():
                yield _event(self._about(kind, [self._choice(at, text, reason, "delta", begun=begun)]))
                begun = True
            if (self.body.stream_options or {}).get("include_usage"):
                yield _event(self._about(kind, []) | {"usage": self._usage()})
            yield "data: [DONE]\n\n"
        except TacitaError as error:
            if not begun:
                raise
            yield _event(fault_of(error).body())

    def _choice(self, at: int, text: str, reason: str | None, name: str, *, begun: bool) -> Json:
        role = {} if begun else {"role": "assistant"}
        content = {name: {**role, "content": text}} if isinstance(self.body, Chat) else {"text": text}
        return {"index": at, **content, "logprobs": None, "finish_reason": reason}

    def _about(self, kind: str, choices: list[Json]) -> Json:
        kind = kind if isinstance(self.body, Chat) else "text_completion"
        about = {"id": self.id, "object": kind, "created": int(time.time()), "choices": choices}
        return {**about, "model": self.body.model or self.session.plan.name}

    def _usage(self) -> Json:
        counts = {"prompt_tokens": self.read, "completion_tokens": self.written}
        return {**counts, "total_tokens": self.read + self.written}


def verb_of(model: Model) -> str:
    """Returns how a model is asked here; empty for one that OpenAI's clients have no call for."""
    return next((verb for verb in VERBS if model.offers and can_answer(model, [verb])), "")


def app_of(gateway: Gateway) -> FastAPI:
    """Returns the app; a `guard.Guard` is to stand before it."""
    app = FastAPI(openapi_url=None)
    for kind in (Fault, TacitaError, HTTPException, ValidationError):
        app.add_exception_handler(kind, _refuse)
    calls: dict[str, tuple[type[Body], Any]] = {
        "/v1/embeddings": (Embeddings, gateway.embeddings),
        **dict.fromkeys(("/v1/rerank", "/v2/rerank", "/rerank"), (Rerank, gateway.rerank)),
        "/v1/completions": (Completion, gateway.write),
        "/v1/chat/completions": (Chat, gateway.write),
    }

    async def post(request: Request) -> Response:
        kind, answer = calls[request.url.path]
        body = kind.model_validate_json(await request.body())
        result = await _while_there(request.receive, answer(body))
        return result if isinstance(result, Response) else JSONResponse(result)

    for path in calls:
        app.add_route(path, post, ["POST"])

    @app.get("/health")
    async def health() -> Json:
        return {"status": "ok"}

    @app.get("/v1/models")
    async def models() -> Json:
        return {"object": "list", "data": [await gateway.row(name) for name in await gateway.models()]}

    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> Json:
        return await gateway.row(name)

    return app


class Events(StreamingResponse):
    """A stream of events, which ends early where its reader leaves."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(Fault):  # the reader has left
            await _while_there(receive, self.stream_response(send))


async def _while_there(receive: Receive, work: Awaitable[T]) -> T:
    """Returns the result of some work, which is cancelled where its caller leaves: once, so that it can await
    what it ends at the server, as starlette's own cancellation cannot."""
    task, left = asyncio.ensure_future(work), asyncio.ensure_future(receive())
    try:
        await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        left.cancel()
        task.cancel()
        await asyncio.wait({task})
    if task.cancelled():
        raise Fault(400, "the caller has left", "left")
    return task.result()


def _event(data: Json) -> str:
    return f"data: {json.dumps(data)}\n\n"


async def _refuse(request: Request, error: Exception) -> Response:
    match error:
        case ValidationError():
            words, about = reason_of(error.errors())
            error = Fault(400, words, "invalid_value", about)
        case HTTPException():
            error = Fault(error.status_code, "no such call: see docs/guides/openai-clients.md", "not_found")
        case TacitaError():
            error = fault_of(error)
    assert isinstance(error, Fault)
    return error.response()
