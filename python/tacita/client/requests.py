"""Sends a request of a CKKS scheme: encrypted here, evaluated there, its receipt checked, decrypted here.

    keys ready -> encrypt -> POST request.ct -> wait -> GET response.ct -> check the receipt -> decrypt

Both files lie in a temporary folder of their own, so that several requests can be under way at once.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict, Unpack
from urllib.parse import quote

from tacita.client.calls import Meter, Report, in_thread
from tacita.client.http.channel import KEY, Channel, Reply, server_failure
from tacita.client.http.events import download, wait_until_final
from tacita.client.keys import Owner, ready
from tacita.client.session import Client, embedded
from tacita.client.store import RequestFolder
from tacita.errors import FileError, InputError, PeerError, RefusedError, TacitaError
from tacita.plans import wire
from tacita.plans.answers import Answer
from tacita.plans.envelope import most_bytes
from tacita.plans.files import sha256_of
from tacita.plans.public_folder import CAPS, MANIFEST, MAX_MANIFEST_BYTES, Public, open_public, parse_manifest
from tacita.plans.wire import PLAN, SHA256, Offer, State, Status
from tacita.progress import Progress
from tacita.texts.embed import Array, Text
from tacita.texts.embedding import Embedder
from tacita.texts.generation import (
    TextOptions,
    Token,
    TokenRequests,
    Turns,
    Writing,
    ends_of,
    prompt_of,
    require_sound,
    speller,
    withhold,
)
from tacita.texts.task import CHOICE

MISSING = (404, 409, 410, 412)  # of a POST: the server may have lost the key since it was last asked
CANCELLING = 5.0  # seconds that a cancellation may take


class Inputs(TypedDict, total=False):
    """What a request holds, one of the two: texts, or hidden states."""

    texts: Sequence[Text]
    hidden_states: Sequence[Array]


class Ciphertexts:
    """A session that answers by requests of one CKKS plan. signer: the server's key, for receipts. offer: the
    server's of this plan. front: the tokenizer and the embedding; None where the model starts from hidden
    states."""

    def __init__(self, owner: Owner, signer: str) -> None:
        self._owner, self._signer = owner, signer
        self.plan, self.offer, self.front = owner.client.plan, owner.offer, owner.client.public.front
        self._keys = asyncio.Lock()
        self._key = ""

    async def generate(
        self, prompt: str, options: TextOptions, meter: Meter, report: Report
    ) -> AsyncGenerator[Token, None]:
        """Yields tokens of one text as they come, as `generate_batch`. Raises PlanError for a token that is
        not sound, too."""
        number = 0
        async with aclosing(self.generate_batch([prompt], options, meter, report)) as tokens:
            async for _, token in tokens:
                number += 1
                yield token if options.show_anyway else require_sound(token, number)

    async def generate_batch(
        self, prompts: Sequence[str], options: TextOptions, meter: Meter, report: Report
    ) -> AsyncGenerator[tuple[int, Token], None]:
        """Yields the number of a text, from 0, and its next token, turn by turn: requests of the whole texts
        so far, in each as many of those that go on as it has places. A text ends by itself, also at a token
        that is not sound, which is withheld; each is drawn as if it were alone.

        What all may take is reported first, then how far all requests are. Closing the iterator ends the
        texts, and nothing of them is left at the server. Raises InputError before anything is sent, and what
        `answer` raises.
        """
        plan, front, most = self.plan, self._require_writing(options), options.max_tokens
        room = min(plan.tokens, front.config.positions)
        texts = [prompt_of(front, prompt, most, room) for prompt in prompts]
        if not texts:
            raise InputError("generate: no prompts", hint="at least one")
        offer, count = self.offer, most * -(-len(texts) // plan.batch)
        each = f"{offer.seconds:.1f} s and {(offer.request_bytes + offer.response_bytes) / 1e6:.1f} MB"
        words = f"{len(texts)} texts of {most} tokens at most: {count} requests"
        words = words if len(texts) > 1 else f"{most} tokens at most"
        report(Progress(f"{words}, each {each}", 0, count, 0.0, count * offer.seconds))
        await self._ready(meter, report)
        spell, ends, requests = speller(front), ends_of(plan, options), TokenRequests(front, plan.batch)
        turns = Turns(
            [
                (requests.source(number, options.choice, plan.logit_step), Writing(ids, spell, ends))
                for number, ids in enumerate(texts)
            ],
            unsound=options.show_anyway,
        )
        several = Several(report, offer.seconds, self._owner.channel.patience.clock)
        while unread := turns.unread:
            several.left = most * -(-len(unread) // plan.batch)
            for places, states in requests.of(unread):
                requests.take(places, await self._ask(meter, several, hidden_states=states))
                several.done, several.left = several.done + 1, several.left - 1
            most -= 1
            for number, token in turns.write():
                yield number, withhold(token, options)

    def _require_writing(self, options: TextOptions) -> Embedder:
        """Returns the client's part of a model whose plan serves to write such texts. Raises InputError."""
        plan, front = self.plan, self.front
        if front is None or plan.ends is None or plan.kept:
            lacks = "keeps rows of a text" if plan.kept else "does not say which tokens end a text"
            hint = "its operator makes the plan again by this release, without a cache"
            raise InputError(f"generate: the plan of the server {lacks}", hint=hint)
        if plan.task == CHOICE:
            options.choice.require_likeliest()
        return front

    async def answer(self, texts: Sequence[Text], meter: Meter, report: Report) -> list[Answer]:
        """Answers 1 to plan.batch texts by one request. Raises what its steps raise: InputError for texts
        that do not fit, PeerError, RefusedError, FileError, ResourceError."""
        await in_thread(lambda _: self._require_fitting(texts))  # before keys are made for one that does not
        return await self._ask(meter, report, texts=texts)

    async def _ask(self, meter: Meter, report: Report, **inputs: Unpack[Inputs]) -> list[Answer]:
        """Answers texts, or hidden states, by one request. A call that is cancelled leaves nothing of it at
        the server."""
        key = await self._ready(meter, report)
        with self._owner.folder.request_folder() as work:
            client = Client(self._owner.client.public, work, allow_insecure=self._owner.client.allow_insecure)
            reply = await self._post(client, work, inputs, key, meter)
            if reply.status in MISSING:
                self._key = ""
                key = await self._ready(meter, report)
                reply = await self._post(client, work, inputs, key, meter)
            await self._receive(reply.read(Status), work, meter, report)
            with meter.step("decrypt"):
                texts = inputs.get("texts", ())
                count = len(texts or inputs["hidden_states"])
                return await in_thread(lambda _: client.decrypt_batch(count, texts))

    async def prepare(self, meter: Meter, report: Report) -> None:
        """Makes and sends the keys, before the first text. Raises what `answer` raises."""
        await self._ready(meter, report)

    async def close(self) -> None:
        """Does nothing: a session of requests holds no connection."""

    def _require_fitting(self, texts: Sequence[Text]) -> None:
        for text in texts:
            embedded(self.plan, self.front, text, None)

    async def _ready(self, meter: Meter, report: Report) -> str:
        """Returns the key's id. One call at a time makes and sends keys; the others wait for it."""
        async with self._keys:
            if not self._key:
                owner = self._owner
                self._key = await ready(replace(owner, channel=owner.channel.metered(meter)), report)
            return self._key

    async def _post(
        self, client: Client, work: RequestFolder, inputs: Inputs, key: str, meter: Meter
    ) -> Reply:
        """Encrypts inputs and sends them, with an idempotency key that belongs to this body alone."""
        with meter.step("encrypt"):
            digest = await in_thread(lambda _: _encrypt(client, work, inputs))
        headers = {
            SHA256: digest,
            PLAN: self.plan.hash,
            KEY: secrets.token_hex(16),
            "Content-Type": "application/octet-stream",
        }
        params = {"model": self._owner.model, "scheme": self._owner.offer.scheme, "key": key}
        with meter.step("send"):
            channel = self._owner.channel.metered(meter)
            return await channel.ask("POST", "/requests", params=params, headers=headers, body=work.request)

    async def _receive(self, status: Status, work: RequestFolder, meter: Meter, report: Report) -> None:
        """Waits for a request and downloads response.ct. Its files at the server are removed then, and when
        it is cancelled."""
        channel = self._owner.channel.metered(meter)
        try:
            await self._download(await self._wait(status, channel, meter, report), work, channel, meter)
        except asyncio.CancelledError:
            await _cancel_on_server(channel, status.id)
            raise
        await _cancel_on_server(channel, status.id)

    async def _wait(self, status: Status, channel: Channel, meter: Meter, report: Report) -> Status:
        """Waits for a request and returns its final status."""
        began = channel.patience.clock()

        def tell(now: Status) -> None:
            report(_progress(now, channel.patience.clock() - began))

        with meter.step("evaluate"):
            return status if status.state.final else await wait_until_final(channel, status.id, tell)

    async def _download(self, status: Status, work: RequestFolder, channel: Channel, meter: Meter) -> None:
        """Downloads response.ct and checks it against the server's receipt. Raises PeerError."""
        what = f"request {status.id[:12]}"
        if status.state is State.cancelled:
            raise RefusedError(f"{what}: was cancelled at the server", hint="ask again")
        if status.state is State.failed or status.receipt is None:
            raise server_failure(what, status.problem)
        with meter.step("receive"):
            most = most_bytes("response", self.plan)
            await download(channel, f"/requests/{status.id}/response", work.response, most)
            request, response = await in_thread(lambda _: (sha256_of(work.request), sha256_of(work.response)))
            hashes = {"plan": self.plan.hash, "request": request, "response": response}
            wire.check(status.receipt, self._signer, **hashes)


@dataclass
class Several:
    """Reports how far several requests are, by what the one that runs now reports. each: seconds that one
    takes by the offer. done: requests before it. left: it and those that may come behind it."""

    report: Report
    each: float
    clock: Callable[[], float]
    done: int = 0
    left: int = 1

    def __post_init__(self) -> None:
        self._began = self.clock()

    def __call__(self, now: Progress) -> None:
        left = now.left + (self.left - 1) * self.each
        self.report(Progress(now.stage, self.done, self.done + self.left, self.clock() - self._began, left))


async def _cancel_on_server(channel: Channel, request: str) -> None:
    """Asks the server once to stop the request and remove its files; failures are ignored."""
    once = replace(channel, patience=replace(channel.patience, attempts=1))
    with suppress(TacitaError, TimeoutError):
        await asyncio.wait_for(once.ask("DELETE", f"/requests/{request}"), CANCELLING)


def _encrypt(client: Client, work: RequestFolder, inputs: Inputs) -> str:
    """Writes request.ct and returns its sha256."""
    client.encrypt_batch(**inputs)
    work.request.chmod(0o600)
    return sha256_of(work.request)


def _progress(status: Status, seconds: float) -> Progress:
    seconds_left = status.seconds_left or 0.0
    if status.state is State.waiting:
        before = f", {status.place} before this" if status.place else ""
        return Progress(f"waiting{before}", 0, 1, seconds, seconds_left)
    return Progress(
        status.stage or status.state.value, status.done or 0, status.total or 1, seconds, seconds_left
    )


# The public folder of a model, fetched once and then cached under its hash.

HINT = "the server offers one thing and sends another: tell its operator"


async def fetch_public(channel: Channel, model: str, offer: Offer, cache: Path) -> Public:
    """Returns the public folder of an offer, from the cache where it is there and whole.

    cache: folder of folders named by hash. Raises PeerError where the folder is not what was offered,
    FileError where it is damaged or no public folder.
    """
    if offer.public is None:
        raise PeerError(f"{model}, {offer.scheme}: offered without a public folder", hint=HINT)
    cached = cache / offer.public
    with suppress(FileError):
        return require_offered(await asyncio.to_thread(open_public, cached), offer)
    with tempfile.TemporaryDirectory(prefix="part-", dir=cache) as folder:
        await _fetch(channel, model, offer, Path(folder))
        public = require_offered(await asyncio.to_thread(open_public, Path(folder)), offer)
        _keep(Path(folder), cached)
    return public


def require_offered(public: Public, offer: Offer) -> Public:
    """Returns the folder unchanged. Raises PeerError unless it is what was offered."""
    plan = public.plan
    published = (public.sha256, plan.hash, plan.scheme, plan.batch)
    if published != (offer.public, offer.plan, offer.scheme, offer.batch):
        raise PeerError(f"public folder {public.sha256[:12]}: not the plan that was offered", hint=HINT)
    return public


async def _fetch(channel: Channel, model: str, offer: Offer, folder: Path) -> None:
    path, params = f"/models/{quote(model, safe='')}/public", {"scheme": offer.scheme}
    await download(channel, path, folder / MANIFEST, MAX_MANIFEST_BYTES, params)
    whole, files = parse_manifest(folder / MANIFEST, (folder / MANIFEST).read_bytes())
    if whole != offer.public:
        raise PeerError(f"public folder {whole[:12]}, offered was {str(offer.public)[:12]}", hint=HINT)
    for name in files:
        await download(channel, f"{path}/{name}", folder / name, CAPS[name], params)


def _keep(folder: Path, cached: Path) -> None:
    """Copies the folder into the cache, in place of a damaged one that may be there. A cache that cannot be
    written is no error: the folder is fetched again next time."""
    with suppress(OSError):
        shutil.rmtree(cached, ignore_errors=True)
        shutil.copytree(folder, cached.with_name(f"{folder.name}-kept"))
        cached.with_name(f"{folder.name}-kept").rename(cached)
