"""Makes the keys of a plan and uploads the public half, once each.

The upload is evaluation.keys, gigabytes in chunks. The server says how much it has, and an upload goes on
from there: after a broken connection, in another process, on another day.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tacita.client.calls import Report, in_thread
from tacita.client.http.channel import Channel, Reply
from tacita.client.session import Client, load_secret
from tacita.client.store import About, PlanFolder, private
from tacita.errors import PeerError
from tacita.plans.files import sha256_of
from tacita.plans.json_fields import printable
from tacita.plans.prices.formulas import file_bytes
from tacita.plans.wire import CHUNK_BYTES, PLAN, SHA256, WHOLE_SHA256, KeyState, Offer
from tacita.progress import Progress
from tacita.resources import try_lock

READ = 1 << 20
CLASHES = 4  # answers 409 in a row that change nothing, after which we give up
CHECKS = 20  # times that we ask whether the server has checked what it has
BETWEEN = 1.0  # seconds
LOOK = 0.2  # seconds between looks whether another process has made the keys
AGAIN = "remove the keys and start again: tacita keys remove"


@dataclass(frozen=True)
class Owner:
    """The owner of keys: a client's plan at the server of a channel, and the folder that holds them."""

    channel: Channel
    client: Client
    folder: PlanFolder
    model: str
    offer: Offer


async def ready(owner: Owner, report: Report) -> str:
    """Returns the id of a key that the server has whole, after making and sending what is missing.

    Cost: the first time as the first report says, seconds and bytes, later one request. Raises
    ResourceError for too small a disk, PeerError, RefusedError where the server keeps no more keys.
    """
    files, meter = owner.folder, owner.channel.meter
    if not files.secret_key.exists():
        with meter.step("keygen"):
            await in_thread(lambda progress: _make(owner, progress, new=False), report)
    key = await in_thread(lambda _: key_of(owner))
    there = files.evaluation_keys.exists()  # before we ask: another process removes what it has sent whole
    state = await key_state(owner, key)
    if not there and not (state and state.complete):
        with meter.step("keygen"):  # the server has lost them, and so have we
            await in_thread(lambda progress: _make(owner, progress, new=True), report)
        key = await in_thread(lambda _: key_of(owner))
        state = await key_state(owner, key)
    if not (state and state.complete):
        with meter.step("upload"):
            try:
                await _upload(owner, key, state, report)
            except FileNotFoundError:  # which another process has sent meanwhile
                await _wait_verified(owner, key)
    files.evaluation_keys.unlink(missing_ok=True)
    return key


def key_of(owner: Owner) -> str:
    """Returns the id of the secret key in the folder. Raises FileError."""
    client = owner.client
    return load_secret(client.plan, owner.folder, allow_insecure=client.allow_insecure).key_id


async def key_state(owner: Owner, key: str) -> KeyState | None:
    """Asks how much of a key the server has; None for nothing. Raises PeerError for an impossible reply."""
    reply = await owner.channel.ask("GET", f"/keys/{key}")
    return None if reply.status == 404 else _checked(owner, key, reply.read(KeyState))


def _checked(owner: Owner, key: str, state: KeyState) -> KeyState:
    if (state.id, state.plan) != (key, owner.client.plan.hash) or state.received > state.bytes:
        raise PeerError(f"key {key[:12]}: the server tells of another one", hint=AGAIN)
    return state


def _make(owner: Owner, report: Report, *, new: bool) -> None:
    """Makes both key files, unless another process made them meanwhile. new: replaces a secret key whose
    other half is gone."""
    files, plan = owner.folder, owner.client.plan
    size, seconds = file_bytes(plan)["evaluation_keys"], owner.offer.keygen_seconds
    with _exclusive(files, report):
        if files.secret_key.exists() and (not new or files.evaluation_keys.exists()):
            return
        once = f"{'new ' if new else ''}keys, made once: about {seconds:.0f} s"
        report(Progress(f"{once}, then {size / 1e6:.0f} MB to send", 0, 1, 0.0, seconds))
        files.secret_key.unlink(missing_ok=True)
        Client(owner.client.public, files, allow_insecure=owner.client.allow_insecure).keygen(report)
        files.evaluation_keys.chmod(0o600)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        files.write_about(About(printable(owner.model), plan.scheme, plan.hash, key_of(owner), now))


@contextmanager
def _exclusive(files: PlanFolder, report: Report) -> Iterator[None]:
    """Holds the folder's lock, so that no other process makes keys there; waits for it, reporting."""
    with (private(files.path) / "lock").open("w") as file:
        Path(file.name).chmod(0o600)
        while not try_lock(file.fileno()):
            report(Progress("another process makes these keys", 0, 1, 0.0, 0.0))
            time.sleep(LOOK)
        yield


async def _upload(owner: Owner, key: str, state: KeyState | None, report: Report) -> None:
    path, total = owner.folder.evaluation_keys, owner.folder.evaluation_keys.stat().st_size
    whole = await in_thread(lambda _: sha256_of(path))
    clock, clashes, at = owner.channel.patience.clock, 0, _received(state, total)
    began, first = clock(), at
    while not (state and state.complete):
        if at == total:
            state = await _wait_verified(owner, key)
            continue
        report(_progress(owner, at - first, total - first, clock() - began))
        reply = await _send(owner, key, at, total, whole)
        if clash := reply.status == 409:
            state = await key_state(owner, key)
        else:
            state = _checked(owner, key, reply.read(KeyState))
        before, at = at, _received(state, total)
        if at <= before and not clash:
            raise PeerError(f"key {key[:12]}: {at} bytes after a chunk at {before}", hint=AGAIN)
        clashes = clashes + 1 if clash and at == before else 0
        if clashes:
            await _clashed(owner, reply, clashes)


def _received(state: KeyState | None, total: int) -> int:
    if state and state.bytes != total:
        raise PeerError(f"keys of {total} bytes, the server waits for {state.bytes}", hint=AGAIN)
    return state.received if state else 0


async def _clashed(owner: Owner, reply: Reply, times: int) -> None:
    """Waits after a chunk that the server refused without having moved on: another call may be writing.
    Raises RefusedError when that does not end."""
    patience = owner.channel.patience
    if times > CLASHES or (wait := patience.delay(min(times, patience.attempts - 1))) is None:
        reply.require()
    else:
        await patience.sleep(wait)


async def _send(owner: Owner, key: str, at: int, total: int, whole: str) -> Reply:
    """Sends one chunk; the reply has status 409 where the server goes on from another place."""
    data = await in_thread(lambda _: _piece(owner.folder.evaluation_keys, at, CHUNK_BYTES))
    headers = {
        "Content-Range": f"bytes {at}-{at + len(data) - 1}/{total}",
        "Content-Type": "application/octet-stream",
        SHA256: hashlib.sha256(data).hexdigest(),
        WHOLE_SHA256: whole,
        PLAN: owner.client.plan.hash,
    }
    params = {"model": owner.model, "scheme": owner.offer.scheme}
    return await owner.channel.ask("PUT", f"/keys/{key}", params=params, headers=headers, body=data)


async def _wait_verified(owner: Owner, key: str) -> KeyState:
    """Waits until the server has checked a key whose bytes it has all, and returns its state. Raises
    PeerError when that takes too long."""
    for _ in range(CHECKS):
        state = await key_state(owner, key)
        if state and state.complete:
            return state
        await owner.channel.patience.sleep(BETWEEN)
    raise PeerError(f"key {key[:12]}: all of it is sent, and the server does not take it", hint=AGAIN)


def _progress(owner: Owner, sent: int, total: int, seconds: float) -> Progress:
    """Reports an upload in chunks, and estimates the seconds left from the speed so far."""
    seconds_left = seconds * (total - sent) / sent if sent else 0.0
    what = f"sending keys, {sent / 1e6:.0f} of {total / 1e6:.0f} MB"
    return Progress(what, sent // CHUNK_BYTES, -(-total // CHUNK_BYTES), seconds, seconds_left)


def _piece(path: Path, at: int, count: int) -> bytes:
    with path.open("rb") as file:
        file.seek(at)
        return file.read(count)
