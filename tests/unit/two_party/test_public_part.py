"""What a server publishes, as bytes; the handshake that brings it to a client; the client's cache."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from links import SocketLink, both
from random_checkpoint import make_random_checkpoint

from tacita import api
from tacita.checkpoint import embed
from tacita.client import store
from tacita.client.store import PublicCache, cache_folder
from tacita.errors import FileError, PeerError, RefusedError, TacitaError
from tacita.planning.request import PlanRequest
from tacita.two_party.limits import Publisher
from tacita.two_party.plan.plan import EMBEDDINGS, TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.protocol import handshake
from tacita.two_party.protocol.public_part import PublicPart, decode, digest, encode, public_part
from tacita.two_party.protocol.refusal import Reason, Refusal

TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "bad"]
CHECKPOINT = make_random_checkpoint()


@pytest.fixture(scope="module")
def plan() -> TwoPartyPlan:
    return make_two_party_plan(CHECKPOINT, PlanRequest(tokens=16, texts=TEXTS))


@pytest.fixture(scope="module")
def part(plan: TwoPartyPlan) -> PublicPart:
    return public_part(plan.program, CHECKPOINT)


def test_the_client_embeds_as_the_server_would(part: PublicPart) -> None:
    found = decode(encode(part))
    for ours, theirs in zip(embed(found.front, TEXTS[2], 16), embed(CHECKPOINT, TEXTS[2], 16), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_no_tensor_of_the_encoder_is_published(part: PublicPart) -> None:
    assert all(name.startswith("embeddings.") for name in part.tables)
    plan = make_two_party_plan(CHECKPOINT, PlanRequest(tokens=16, texts=TEXTS, embeddings="hidden"))
    hidden = public_part(plan.program, CHECKPOINT, b"encrypted")
    assert not hidden.tables and len(encode(hidden)) < len(encode(part))
    assert decode(encode(hidden)) == hidden
    for wrong in (replace(hidden, encrypted=b""), replace(part, encrypted=b"encrypted")):
        with pytest.raises(FileError, match="encrypted table"):
            decode(encode(wrong))


@pytest.mark.native
@pytest.mark.parametrize("embeddings", EMBEDDINGS)
def test_an_estimate_bounds_what_is_published(embeddings: str) -> None:
    """The part has the shipped model's 15,000 words of 128 features, in float16; a bound takes float32."""
    found = api.load(api.DEFAULT_MODEL)
    plan = make_two_party_plan(found, PlanRequest(tokens=16, texts=TEXTS, embeddings=embeddings))
    sent, told = len(Publisher(plan, found).current().data), api.estimate(plan)["public_bytes"]
    assert sent < told < (1.2 if embeddings == "hidden" else 2.2) * sent


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_floats_take_the_fewest_bytes_that_keep_them(part: PublicPart, kind: type[np.floating]) -> None:
    tables = {name: table.astype(kind).astype(np.float64) for name, table in part.tables.items()}
    data = encode(replace(part, tables=tables))
    elements = sum(table.size for table in tables.values())
    assert abs(len(data) - elements * np.dtype(kind).itemsize) < 10_000
    for name, table in decode(data).tables.items():
        np.testing.assert_array_equal(table, tables[name])


def test_every_truncation_is_refused(part: PublicPart) -> None:
    data = encode(part)
    for keep in [*range(0, 64), *range(64, len(data), 997), len(data) - 1]:
        with pytest.raises(FileError):
            decode(data[:keep])
    with pytest.raises(FileError, match="too many"):
        decode(data + b"\0")


def test_flipped_bytes_are_refused_or_change_nothing_but_numbers(part: PublicPart) -> None:
    data, rng = bytearray(encode(part)), np.random.default_rng(0)
    for at in rng.integers(0, len(data), 200):
        data[at] ^= 0x55
        try:
            found = decode(bytes(data))
            assert found.plan.tokens == 16
        except FileError:
            pass
        data[at] ^= 0x55


def test_a_bad_tokenizer_is_the_servers_fault(part: PublicPart) -> None:
    with pytest.raises(FileError, match="tokenizer"):
        _ = decode(encode(replace(part, tokenizer="{}"))).front


def greeting(cache: PublicCache):
    return lambda link: handshake.run_client(link, cache)[0]


def welcoming(part: PublicPart, plan_hash: str | None = None):
    return lambda link: handshake.run_server(link, encode(part), plan_hash or part.plan.hash)


def test_the_part_travels_once(part: PublicPart, tmp_path: Path) -> None:
    cache, sent = PublicCache(tmp_path), []

    class Counting(SocketLink):
        def __init__(self, link: SocketLink) -> None:
            self._end = link._end

        def send(self, data: bytes) -> None:
            sent.append(len(data))
            super().send(data)

    for _ in range(2):
        client, server = both(greeting(cache), lambda link: welcoming(part)(Counting(link)))
        assert isinstance(client, PublicPart) and server is None
        assert client.plan == part.plan
        sent.append(0)
    first, second = sum(sent[: sent.index(0)]), sum(sent[sent.index(0) :])
    assert first - second == len(encode(part))


def test_a_refusal_stands_in_place_of_the_welcome(part: PublicPart, tmp_path: Path) -> None:
    full = Refusal(Reason.FULL, 4)

    def refusing(link: SocketLink) -> None:
        handshake.run_server(link, encode(part), part.plan.hash, refuse=lambda: full)

    for said in both(greeting(PublicCache(tmp_path)), refusing):
        assert isinstance(said, RefusedError) and (said.reason, str(said)) == (Reason.FULL, str(full.error()))


@pytest.mark.parametrize("refusal", [None, Refusal(Reason.CLIENT, 7), Refusal(12, 0)])
def test_every_text_is_permitted_or_refused(refusal: Refusal | None) -> None:
    def answering(link: SocketLink) -> None:
        assert handshake.receive_wish(link) == handshake.CLASSIFY
        handshake.answer(link, refusal)

    for said in both(handshake.ask, answering):
        assert said is None if refusal is None else isinstance(said, RefusedError)


def test_a_damaged_copy_is_fetched_again(part: PublicPart, tmp_path: Path) -> None:
    cache, data = PublicCache(tmp_path), encode(part)
    cache.put(digest(data), data)
    path = next(tmp_path.glob("*.part"))
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    client, _ = both(greeting(cache), welcoming(part))
    assert isinstance(client, PublicPart) and path.read_bytes() == data


def test_a_cache_that_cannot_be_written_is_no_error(part: PublicPart, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    client, _ = both(greeting(PublicCache(tmp_path / "file")), welcoming(part))
    assert isinstance(client, PublicPart)


def test_the_cache_keeps_what_was_used_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A server that hides its table has another part with each key, which nobody asks for again."""
    monkeypatch.setattr(store, "MOST_CACHED", 250)
    cache, parts = PublicCache(tmp_path), [bytes([number]) * 100 for number in range(3)]
    other = tmp_path / "other.part"
    other.write_bytes(bytes(300))
    for number, data in enumerate(parts[:2]):
        cache.put(digest(data), data)
        os.utime(tmp_path / f"{digest(data).hex()}.part", (number, number))
    assert cache.get(digest(parts[0])) == parts[0]  # which is the older one no more
    cache.put(digest(parts[2]), parts[2])
    assert [cache.get(digest(data)) for data in parts] == [parts[0], None, parts[2]] and other.exists()


def test_the_cache_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "tacita" / "public"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the specification
    assert cache_folder() == Path.home() / ".cache" / "tacita" / "public"


def test_another_plan_is_told_to_both(part: PublicPart, tmp_path: Path) -> None:
    client, server = both(greeting(PublicCache(tmp_path)), welcoming(part, "00" * 32))
    assert isinstance(client, PeerError) and "another plan" in str(client)
    assert isinstance(server, PeerError) and "another plan" in str(server)


NOISE = {
    "nothing": b"",
    "http": b"GET / HTTP/1.1\r\n\r\n",
    "random": np.random.default_rng(0).bytes(4096),
    "zeros": bytes(4096),
}


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
def test_garbage_ends_with_an_error_on_either_side(part: PublicPart, tmp_path: Path, noise: bytes) -> None:
    def garbage(link: SocketLink) -> None:
        link.send(noise)

    _, server = both(garbage, welcoming(part))
    assert isinstance(server, PeerError)
    client, _ = both(greeting(PublicCache(tmp_path)), garbage)
    assert isinstance(client, TacitaError)


def test_a_server_that_lies_about_its_part_is_found_out(part: PublicPart, tmp_path: Path) -> None:
    data = encode(part)

    def lie(length: int, told: bytes, given: bytes):
        def run(link: SocketLink) -> None:
            link.receive(handshake.CLIENT_HELLO.size)
            link.send(handshake.SERVER_HELLO.pack(handshake.MAGIC, handshake.VERSION, length, told))
            link.receive(1)
            link.send(given)

        return run

    for liar in (
        lie(1 << 62, digest(data), data),
        lie(0, digest(data), b""),
        lie(len(data), bytes(32), data),
        lie(len(data), digest(data), data[:100]),
        lie(100, digest(data[:100]), data[:100]),
    ):
        client, _ = both(greeting(PublicCache(tmp_path)), liar)
        assert isinstance(client, TacitaError)
    assert not list(tmp_path.glob("*.part"))


def test_another_version_is_named() -> None:
    def old(link: SocketLink) -> None:
        link.send(handshake.CLIENT_HELLO.pack(handshake.MAGIC, handshake.VERSION - 1))

    _, server = both(old, lambda link: handshake.run_server(link, b"x", "00" * 32))
    assert isinstance(server, PeerError) and f"version {handshake.VERSION - 1}" in str(server)
