"""Evaluation keys: uploaded once, in pieces, and named by their id from then on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from fastapi import APIRouter, Request, Response

from tacita.plans import files as key_file
from tacita.plans.wire import API, MOST_CHUNK_BYTES, PLAN, WHOLE_SHA256, Keys, KeyState
from tacita.server.core.offers import Offered
from tacita.server.core.service import Service
from tacita.server.http.auth import At, Caller, require_quota
from tacita.server.http.calls import (
    Id,
    ModelName,
    SchemeName,
    body,
    length,
    min_rate,
    offered,
    sha256_of,
)
from tacita.server.http.problems import Fault, not_found
from tacita.server.sessions.messages import Used
from tacita.server.store import keys, requests
from tacita.server.store.tables import KeyRow, Who

router = APIRouter(prefix=API, tags=["keys"])
RANGE = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15})", re.ASCII)


@router.get("/keys", summary="All keys of who asks, the latest used first")
async def listed(service: At, who: Caller) -> Keys:
    return Keys(keys=tuple(_state(row) for row in keys.of_client(service.ledger, who.id)))


@router.get("/keys/{id}", summary="How far an upload has come")
async def one(service: At, who: Caller, id: Id) -> KeyState:
    return _state(_row(service, who, id))


@router.put("/keys/{id}", summary="The next piece of an upload", responses={201: {"model": KeyState}})
async def put(
    service: At,
    who: Caller,
    request: Request,
    response: Response,
    id: Id,
    model: ModelName,
    scheme: SchemeName,
) -> KeyState:
    service.require_open()
    offer = offered(service, model, scheme)
    piece = _piece(request, offer)
    require_quota(service, who, piece.count)
    row = _upload_row(service, who, id, offer, model, request, piece)
    if row.complete:
        return _state(row)
    if piece.begin != row.received:
        raise Fault(409, "wrong-place", f"the upload stands at byte {row.received}", "go on from there")
    with _alone(service, who, id):
        if not row.received:
            await service.sweep.make_room(row, visitor=who.address is not None)
            if keys.get(service.ledger, who.id, id) is None:  # others may have come meanwhile
                _require_another(service, who)
        service.jobs.charge(who.id, Used(bytes=piece.count))  # a piece that breaks off, too
        keys.put(service.ledger, row)
        checked = partial(key_file.require_keys_of, key_id=id)
        held = service.ledger, service.layout
        row = await keys.take(row, piece, body(request), *held, min_rate(service), checked)
    service.metrics.carried("keys", "in", piece.count)
    response.status_code = 201 if row.complete else 200
    return _state(row)


@router.delete(
    "/keys/{id}", status_code=204, summary="Forgets keys, and the texts that are written with them"
)
async def delete(service: At, who: Caller, id: Id) -> None:
    row = _row(service, who, id)
    if requests.open_of(service.ledger, who.id, id):
        raise Fault(409, "in-use", "a request of these keys is not finished", "delete it first")
    with _alone(service, who, id):
        for text in [each for each in service.texts.of_client(who.id) if each.key == id]:
            await service.texts.end(text)
        await keys.remove(row, service.ledger, service.layout)


def _piece(request: Request, offer: Offered) -> keys.Piece:
    """Returns the piece that comes, of a whole of the size that the plan's keys have. Raises Fault."""
    count = length(request, MOST_CHUNK_BYTES)
    match = RANGE.fullmatch(request.headers.get("content-range", ""))
    if match is None:
        raise Fault(400, "bad-call", "Content-Range is missing", "Content-Range: bytes FIRST-LAST/TOTAL")
    first, last, total = (int(each) for each in match.groups())
    if last - first + 1 != count or not count or last >= total:
        raise Fault(400, "bad-call", f"{count} bytes are not those from {first} to {last} of {total}", "")
    if total != (wanted := offer.offer.keys_bytes):  # of every client: `plans.prices.formulas`
        detail = f"keys of {total} bytes, this plan's have {wanted}"
        raise Fault(422, "bad-file", detail, "make them anew with this plan")
    return keys.Piece(first, count, sha256_of(request.headers))


def _upload_row(
    service: Service,
    who: Who,
    id: str,
    offer: Offered,
    model: str,
    request: Request,
    piece: keys.Piece,
) -> KeyRow:
    """Returns the upload's row, new or as it stands. Raises Fault: another plan or content than it began
    with, too many keys."""
    plan, total = sha256_of(request.headers, PLAN), offer.offer.keys_bytes
    if plan != offer.plan.hash:
        raise Fault(
            409, "other-plan", "keys of another plan than the server has", "fetch the public part again"
        )
    whole, now = _whole(request, piece.begin + piece.count == total), service.ledger.clock()
    new = KeyRow(who.id, id, model, offer.offer.scheme, plan, total, 0, whole, False, now)
    row = keys.get(service.ledger, who.id, id)
    if row is None:
        _require_another(service, who)
        return new
    if not (row.sha256 and whole):  # one of the two does not know it yet
        row = replace(row, sha256=row.sha256 or whole)
        new = replace(new, sha256=row.sha256)
    if replace(new, received=row.received, complete=row.complete, used=row.used) != row:
        raise Fault(409, "other-keys", "other keys of this id are here", "delete them first")
    return row


def _whole(request: Request, last: bool) -> str:
    """Returns the hash of the whole; empty for a piece before the last of a client that makes keys while it
    sends them. Raises Fault."""
    if not last and WHOLE_SHA256.lower() not in request.headers:
        return ""
    return sha256_of(request.headers, WHOLE_SHA256)


def _require_another(service: Service, who: Who) -> None:
    most, held = who.quota.keys, keys.of_client(service.ledger, who.id)
    if most is not None and len(held) >= most:
        service.metrics.refused("quota-keys")
        raise Fault(403, "quota", f"this client has {len(held)} keys here, at most {most}", "delete old ones")


@contextmanager
def _alone(service: Service, who: Who, id: str) -> Iterator[None]:
    """Lets one call at a time write these keys. Raises Fault (409)."""
    if (who.id, id) in service.uploads:
        raise Fault(409, "in-use", "another call writes these keys", "wait for it")
    service.uploads.add((who.id, id))
    try:
        yield
    finally:
        service.uploads.discard((who.id, id))


def _row(service: Service, who: Who, id: str) -> KeyRow:
    row = keys.get(service.ledger, who.id, id)
    if row is None:
        raise not_found("keys")
    return row


def _state(row: KeyRow) -> KeyState:
    return KeyState(id=row.id, plan=row.plan, bytes=row.bytes, received=row.received, complete=row.complete)
