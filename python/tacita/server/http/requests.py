"""Requests: sent, watched, fetched, removed."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from sqlalchemy.exc import IntegrityError

from tacita.plans.files import Workdir
from tacita.plans.wire import API, NO_TEXT, Kept, State, Status
from tacita.server.child import set_within
from tacita.server.core.offers import Offered
from tacita.server.core.service import Service
from tacita.server.core.texts import KeptText
from tacita.server.http.auth import At, Caller, reserve_quota
from tacita.server.http.calls import (
    Id,
    ModelName,
    SchemeName,
    body,
    file_response,
    length,
    min_rate,
    offered,
    sha256_of,
)
from tacita.server.http.problems import Fault, not_found
from tacita.server.sessions.messages import Used
from tacita.server.store import keys, requests
from tacita.server.store.tables import RequestRow, Who

router = APIRouter(prefix=API, tags=["requests"])
AGAIN = re.compile(r"[\x21-\x7e]{1,64}")
KEEP_ALIVE_SECONDS = 15.0
LONGEST_DEADLINE = 7 * 86400.0
KeyId = Annotated[str, Query(pattern=r"^[0-9a-f]{32}$", description="of the evaluation keys")]
TextId = Annotated[str | None, Query(pattern=r"^[0-9a-f]{32}$", description="of POST /v1/texts")]
Deadline = Annotated[float | None, Query(gt=0, le=LONGEST_DEADLINE, description="seconds from now")]


@router.post("/requests", status_code=202, summary="A request: a file that `tacita encrypt` writes")
async def post(
    service: At,
    who: Caller,
    request: Request,
    response: Response,
    model: ModelName,
    scheme: SchemeName,
    key: KeyId,
    deadline: Deadline = None,
    text: TextId = None,
) -> Status:
    service.require_open()
    offer = offered(service, model, scheme)
    count, sha256 = length(request, offer.most_request), sha256_of(request.headers)
    again = _again(request)
    if (before := _before(service, who.id, again, sha256)) is not None:
        return _status(service, before, response)
    _require_keys(service, who, key, offer.plan.hash)
    _text(service, offer, who, key, text)
    id, now = secrets.token_hex(16), service.ledger.clock()
    named = (id, who.id, model, scheme, offer.plan.hash, key, sha256)
    row = RequestRow(*named, State.waiting, now, again, None if deadline is None else now + deadline)
    reserve_quota(service, who, service.jobs.reserved(row) + Used(bytes=count))
    if tracing := service.jobs.tracing:
        tracing.begin(id, client=who.id, model=model, scheme=scheme, bytes=count)
    try:
        await requests.take(id, key, count, sha256, body(request), service.layout, min_rate(service))
        accepted = _accept(service, row, _text(service, offer, who, key, text))
    except BaseException:
        service.jobs.settle(row, Used())
        service.jobs.trace_end(id, "refused")
        raise
    if accepted is not row:
        service.jobs.settle(row, Used())
        service.jobs.trace_end(id, "repeated")
    service.metrics.carried("requests", "in", count)
    return _status(service, accepted, response)


@router.get("/requests/{id}", response_model_exclude_none=True, summary="How a request is doing")
async def one(service: At, who: Caller, id: Id) -> Status:
    return service.jobs.status(_row(service, who, id))


@router.get("/requests/{id}/events", summary="The same as server-sent events, until it is final")
async def events(service: At, who: Caller, id: Id) -> StreamingResponse:
    _row(service, who, id)
    if service.streams.get(who.id, 0) >= service.settings.streams:
        raise Fault(429, "busy", "too many streams of events", "close one", {"Retry-After": "5"})
    stream = _events(service, who, id)
    await anext(stream)  # it is counted before another call is looked at
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


@router.get("/requests/{id}/response", summary="The answer: a file that `tacita decrypt` reads")
async def answer(service: At, who: Caller, id: Id) -> FileResponse:
    row = _row(service, who, id)
    if row.state is not State.done or row.response is None:
        raise Fault(
            409, "not-done", f"the request is {row.state}", "GET /v1/requests/{id} says how it is doing"
        )

    def charge(count: int) -> None:
        service.metrics.carried("responses", "out", count)
        service.jobs.charge(who.id, Used(bytes=count))

    return file_response(Workdir(service.layout.request(id)).response, row.response, charge)


@router.post("/texts", status_code=201, summary="Begins a text whose rows the server keeps")
async def begin_text(
    service: At, who: Caller, request: Request, model: ModelName, scheme: SchemeName, key: KeyId
) -> Kept:
    service.require_open()
    offer, again = offered(service, model, scheme), _again(request)
    if not offer.keeps:
        raise Fault(400, "bad-call", "this plan keeps no rows", "POST /v1/requests, of whole texts")
    _require_keys(service, who, key, offer.plan.hash)
    count, seconds = offer.offer.kept_bytes, service.settings.silent
    text = next((each for each in service.texts.of_client(who.id) if again and each.again == again), None)
    _require_same(text is None or text.key == key)
    if text is None and (why := service.texts.excess(who.id, who.quota, count)):
        service.metrics.refused("quota-caches")
        raise Fault(403, "quota", why, f"end one, or wait: they go after {seconds:.0f} s without a request")
    text = text or service.texts.begin(who.id, key, count, again)
    return Kept(id=text.id, bytes=count, seconds=seconds)


@router.delete("/texts/{id}", status_code=204, summary="Ends a text: its rows and its unfinished requests go")
async def end_text(service: At, who: Caller, id: Id, key: KeyId) -> None:
    text = service.texts.get(who.id, key, id)
    if text is None:
        raise _no_text()
    await service.texts.end(text)


@router.delete("/requests/{id}", status_code=204, summary="Cancels a request, or forgets a final one")
async def delete(service: At, who: Caller, id: Id) -> None:
    await service.jobs.cancel(_row(service, who, id))


async def _events(service: Service, who: Who, id: str) -> AsyncIterator[str]:
    service.streams[who.id] = service.streams.get(who.id, 0) + 1
    try:
        yield ""
        while (row := requests.get(service.ledger, who.id, id)) is not None:
            change = service.bus.change(id)
            yield f"data: {service.jobs.status(row).model_dump_json(exclude_none=True)}\n\n"
            if row.state.final:
                service.bus.publish(id, None)
            if row.state.final or service.ending:
                return
            while not await set_within(change, KEEP_ALIVE_SECONDS):
                yield ": still there\n\n"
    finally:
        service.streams[who.id] -= 1
        if not service.streams[who.id]:
            del service.streams[who.id]


def _again(request: Request) -> str | None:
    """Returns the idempotency key. Raises Fault (400)."""
    text = request.headers.get("idempotency-key")
    if text is not None and not AGAIN.fullmatch(text):
        raise Fault(400, "bad-call", "Idempotency-Key is none", "1 to 64 printable characters")
    return text


def _before(service: Service, client: str, again: str | None, sha256: str) -> RequestRow | None:
    """Returns the request that had this idempotency key. Raises as `_require_same`."""
    row = requests.asked_before(service.ledger, client, again) if again else None
    _require_same(row is None or row.sha256 == sha256)
    return row


def _require_same(same: bool) -> None:
    """Raises Fault (422) for a call with the idempotency key of another."""
    if not same:
        raise Fault(422, "other-request", "another request had this Idempotency-Key", "a new one for each")


def _text(service: Service, offer: Offered, who: Who, key: str, id: str | None) -> KeptText | None:
    """Returns the text that a request names. Raises Fault: 400 for a text where there must be none, or for
    none, 410 for one that is not there, not this client's or of another key."""
    if bool(id) != offer.keeps:
        says = "one row of a text" if offer.keeps else "a whole text"
        raise Fault(400, "bad-call", f"a request of this plan is {says}", "POST /v1/texts for a text's rows")
    text = service.texts.get(who.id, key, id) if id else None
    if id and text is None:
        raise _no_text()
    return text


def _no_text() -> Fault:
    return Fault(410, NO_TEXT, "no such text", "POST /v1/texts, and send all of its rows")


def _require_keys(service: Service, who: Who, key: str, plan: str) -> None:
    row = keys.get(service.ledger, who.id, key)
    if row is None or not row.complete:
        raise Fault(404, "no-keys", "the server does not have these keys whole", "PUT /v1/keys/{id}")
    if row.plan != plan:
        raise Fault(409, "other-plan", "keys of another plan than the server has", "make new ones")


def _accept(service: Service, row: RequestRow, text: KeptText | None) -> RequestRow:
    """Puts a request in ledger and queue. Returns it, or the first one of the same call sent twice."""
    try:
        service.jobs.accept(row, service.texts.step(text, row.id) if text else None)
    except IntegrityError:
        service.layout.drop_request(row.id)
        first = _before(service, row.client, row.again, row.sha256)
        if first is None:
            raise
        return first
    return row


def _status(service: Service, row: RequestRow, response: Response) -> Status:
    response.headers["Location"] = f"{API}/requests/{row.id}"
    return service.jobs.status(row)


def _row(service: Service, who: Who, id: str) -> RequestRow:
    row = requests.get(service.ledger, who.id, id)
    if row is None:
        raise not_found("request")
    return row
