"""Sends a request of a CKKS scheme: encrypted here, evaluated there, its receipt checked, decrypted here.

    keys ready -> encrypt -> POST request.ct -> wait -> GET response.ct -> check the receipt -> decrypt

Both files lie in a temporary folder of their own, so that several requests can be under way at once.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

from tacita.client.calls import Meter, Report, in_thread
from tacita.client.http.channel import KEY, Channel, Reply, server_failure
from tacita.client.http.events import download, wait_until_final
from tacita.client.keys import Owner, ready
from tacita.client.session import Client, embedded
from tacita.client.store import RequestFolder
from tacita.errors import InputError, PeerError, RefusedError, TacitaError
from tacita.plans import wire
from tacita.plans.answers import Answer
from tacita.plans.envelope import most_bytes
from tacita.plans.files import sha256_of
from tacita.plans.wire import NO_TEXT, PLAN, SHA256, Kept, State, Status
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
from tacita.texts.rows import Reading
from tacita.texts.task import CHOICE

GONE = 410  # of a POST that names a text: the server keeps it no more, or never did
MISSING = (404, 409, 410, 412)  # of a POST: the server may have lost the key since it was last asked
CANCELLING = 5.0  # seconds that a cancellation may take


class Inputs(TypedDict, total=False):
    """What a request holds, one of the two: texts, or hidden states. after: of one row of a text, the sha256
    of the request of the row before it."""

    texts: Sequence[Text]
    hidden_states: Sequence[Array]
    after: str


class LostTextError(PeerError):
    """Raised where the server keeps a text no more."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: the server keeps the text no more", hint="ask again")


@dataclass
class KeptText:
    """A text whose rows the server keeps. id: its handle, empty before there is one. key: that it is written
    with. after: sha256 of the request of its last row."""

    id: str = ""
    key: str = ""
    after: str = ""


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
        so far, in each as many of those that go on as it has places; with a cache, of one row of each. A text
        ends by itself, also at a token that is not sound, which is withheld; each is drawn as if it were
        alone.

        What all may take is reported first, then how far all requests are. Closing the iterator ends the
        texts, and nothing of them is left at the server. Raises InputError before anything is sent, and what
        `answer` raises.
        """
        plan, front, most = self.plan, self._require_writing(options), options.max_tokens
        room = min(plan.tokens, front.config.positions)
        texts = [prompt_of(front, prompt, most, room) for prompt in prompts]
        if not texts:
            raise InputError("generate: no prompts", hint="at least one")
        if plan.kept and len(texts) > plan.batch:
            hint = f"in parts: a request of this plan has {plan.batch} places"
            raise InputError(f"generate: a cache for {len(texts)} prompts", hint=hint)
        read = max(map(len, texts)) - 1 if plan.kept else 0  # rows, one by one, before the first token
        offer, count = self.offer, (read + most) * -(-len(texts) // plan.batch)
        each = f"{offer.seconds:.1f} s and {(offer.request_bytes + offer.response_bytes) / 1e6:.1f} MB"
        words = f"{len(texts)} texts of {most} tokens at most: {count} requests"
        words = words if len(texts) > 1 else f"{most} tokens at most" + (f", {count} rows" if read else "")
        report(Progress(f"{words}, each {each}", 0, count, 0.0, count * offer.seconds))
        await self._ready(meter, report)
        spell, ends = speller(front), ends_of(plan, options)
        requests = TokenRequests(front, plan.batch, kept=options.cache)
        turns = Turns(
            [
                (requests.source(number, options.choice, plan.logit_step), Writing(ids, spell, ends))
                for number, ids in enumerate(texts)
            ],
            unsound=options.show_anyway,
        )
        several = Several(report, offer.seconds, self._owner.channel.patience.clock)
        async with self._asking(meter, several) as ask:
            while unread := turns.unread:
                read = max(map(len, unread.values())) - 1 if plan.kept else 0
                several.left = (read + most) * -(-len(unread) // plan.batch)
                for places, states in requests.of(unread):
                    requests.take(places, await ask(states))
                most -= 1
                for number, token in turns.write():
                    yield number, withhold(token, options)

    @asynccontextmanager
    async def _asking(self, meter: Meter, several: Several) -> AsyncIterator[Ask]:
        """Yields what asks about hidden states, in one request; under a plan that keeps rows in one for each
        row that the server has not read. Nothing of the texts is left at the server at the end."""
        reading, text = Reading(), KeptText()

        async def whole(states: Sequence[Array]) -> list[Answer]:
            answers = await self._ask(meter, several, hidden_states=states)
            several.step()
            return answers

        async def rows(states: Sequence[Array]) -> list[Answer]:
            for step in reading.steps(states):
                if not text.id:
                    text.id, text.key = await self._begin(meter, several)
                reading.take(await self._ask(meter, several, text, hidden_states=step, after=text.after))
                several.step()
            return reading.last

        async def again(states: Sequence[Array]) -> list[Answer]:
            """Reads a text anew, once, that the server has lost since its last row."""
            try:
                return await rows(states)
            except LostTextError:
                several.left += reading.count
                reading.forget()
                text.id = text.after = ""
                return await rows(states)

        try:
            yield again if self.plan.kept else whole
        finally:
            if text.id:
                await _remove_on_server(self._owner.channel, f"/texts/{text.id}", {"key": text.key})

    async def _begin(self, meter: Meter, report: Report) -> tuple[str, str]:
        """Begins a text at the server, one however often the call is repeated. Returns its handle, and the
        key that it is written with. Raises RefusedError where the server keeps no more of this client's."""
        key = await self._ready(meter, report)
        params = {"model": self._owner.model, "scheme": self._owner.offer.scheme, "key": key}
        again = {KEY: secrets.token_hex(16)}
        reply = await self._owner.channel.metered(meter).ask("POST", "/texts", params=params, headers=again)
        return reply.read(Kept).id, key

    def _require_writing(self, options: TextOptions) -> Embedder:
        """Returns the client's part of a model whose plan serves to write such texts. Raises InputError."""
        plan, front = self.plan, self.front
        if front is None or plan.ends is None:
            hint = "its operator makes the plan again by this release"
            lacks = "does not say which tokens end a text"
            raise InputError(f"generate: the plan of the server {lacks}", hint=hint)
        if bool(plan.kept) != options.cache:
            lacks = "keeps rows of a text, and learns how many" if plan.kept else "keeps no rows of a text"
            hint = "ask with --cache (cache=True)" if plan.kept else "ask without --cache, or another scheme"
            raise InputError(f"generate: the plan of the server {lacks}", hint=hint)
        if plan.task == CHOICE:
            options.choice.require_likeliest()
        return front

    async def answer(self, texts: Sequence[Text], meter: Meter, report: Report) -> list[Answer]:
        """Answers 1 to plan.batch texts by one request. Raises what its steps raise: InputError for texts
        that do not fit, PeerError, RefusedError, FileError, ResourceError."""
        # before keys are made for one that does not fit
        await in_thread(lambda _: [embedded(self.plan, self.front, text, None) for text in texts])
        return await self._ask(meter, report, texts=texts)

    async def _ask(
        self, meter: Meter, report: Report, text: KeptText | None = None, **inputs: Unpack[Inputs]
    ) -> list[Answer]:
        """Answers texts, or hidden states, by one request. A call that is cancelled leaves nothing of it at
        the server. text: of which the request is a row, which it notes. Raises LostTextError, too."""
        key = await self._ready(meter, report)
        with self._owner.folder.request_folder() as work:
            client = Client(self._owner.client.public, work, allow_insecure=self._owner.client.allow_insecure)
            reply = await self._post(client, work, inputs, key, meter, text)
            if reply.status in MISSING and not (text and reply.status == GONE):
                self._key = ""
                key = await self._ready(meter, report)
                reply = await self._post(client, work, inputs, key, meter, text)
            if text and reply.status == GONE:
                raise LostTextError(reply.what)
            await self._receive(reply.read(Status), work, meter, report)
            if text:
                text.after = await in_thread(lambda _: sha256_of(work.request))
            with meter.step("decrypt"):
                texts = inputs.get("texts", ())
                count = len(texts or inputs["hidden_states"])
                return await in_thread(lambda _: client.decrypt_batch(count, texts))

    async def prepare(self, meter: Meter, report: Report) -> None:
        """Makes and sends the keys, before the first text. Raises what `answer` raises."""
        await self._ready(meter, report)

    async def close(self) -> None:
        """Does nothing: a session of requests holds no connection."""

    async def _ready(self, meter: Meter, report: Report) -> str:
        """Returns the key's id. One call at a time makes and sends keys; the others wait for it."""
        async with self._keys:
            if not self._key:
                owner = self._owner
                self._key = await ready(replace(owner, channel=owner.channel.metered(meter)), report)
            return self._key

    async def _post(
        self,
        client: Client,
        work: RequestFolder,
        inputs: Inputs,
        key: str,
        meter: Meter,
        text: KeptText | None = None,
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
        params |= {"text": text.id} if text else {}
        with meter.step("send"):
            channel = self._owner.channel.metered(meter)
            return await channel.ask("POST", "/requests", params=params, headers=headers, body=work.request)

    async def _receive(self, status: Status, work: RequestFolder, meter: Meter, report: Report) -> None:
        """Waits for a request and downloads response.ct. Nothing of it is left at the server, however that
        ends."""
        channel = self._owner.channel.metered(meter)
        try:
            await self._download(await self._wait(status, channel, meter, report), work, channel, meter)
        finally:
            await _remove_on_server(channel, f"/requests/{status.id}")

    async def _wait(self, status: Status, channel: Channel, meter: Meter, report: Report) -> Status:
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
        if status.problem and status.problem.code == NO_TEXT:
            raise LostTextError(what)
        if status.state is State.failed or status.receipt is None:
            raise server_failure(what, status.problem)
        with meter.step("receive"):
            most = most_bytes("response", self.plan)
            await download(channel, f"/requests/{status.id}/response", work.response, most)
            request, response = await in_thread(lambda _: (sha256_of(work.request), sha256_of(work.response)))
            hashes = {"plan": self.plan.hash, "request": request, "response": response}
            wire.check(status.receipt, self._signer, **hashes)


Ask = Callable[[Sequence[Array]], Awaitable[list[Answer]]]  # hidden states of texts -> what is behind each


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

    def step(self) -> None:
        self.done, self.left = self.done + 1, self.left - 1


async def _remove_on_server(channel: Channel, path: str, params: Mapping[str, str] | None = None) -> None:
    """Asks the server once to stop what has this path and to remove its files; failures are ignored."""
    once = replace(channel, patience=replace(channel.patience, attempts=1))
    with suppress(TacitaError, TimeoutError):
        await asyncio.wait_for(once.ask("DELETE", path, params=params), CANCELLING)


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
