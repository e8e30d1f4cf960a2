"""Whom a client talks to and whom it trusts: addresses, certificates, limits of what it reads, secrets."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from pathlib import Path

import pytest
from fake_service import SECONDS, TEXTS, Fake, Fault, connected, patient

import tacita
from tacita.client.http.channel import JSON_BYTES
from tacita.client.http.trust import UntrustedError, address_of, context_of, is_url
from tacita.errors import InputError, PeerError, TacitaError
from tacita.two_party.protocol.party import fingerprint, new_identity

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native


@pytest.mark.parametrize(
    ("url", "found", "name"),
    [
        ("https://Models.Example.org", "https://models.example.org:443", "models.example.org_443"),
        ("https://models.example.org:8443/", "https://models.example.org:8443", "models.example.org_8443"),
        ("http://127.0.0.1:80", "http://127.0.0.1:80", ""),
        ("https://[::1]:8443", "https://[::1]:8443", ""),
        ("https://example.org/a/team", "https://example.org:443/a/team", ""),
        ("https://bücher.example", "https://xn--bcher-kva.example:443", "xn--bcher-kva.example_443"),
    ],
)
def test_addresses_have_one_form_and_a_name(url: str, found: str, name: str) -> None:
    address = address_of(url)
    assert is_url(url) and address.url == found and address_of(found) == address
    assert not name or address.name == name
    assert "/" not in address.name and not address.name.startswith(".")


def test_names_of_folders_differ_where_addresses_do() -> None:
    urls = ("https://a:1", "http://a:1", "https://a:1/b", "https://[::1]:1", "https://a_b:1", "https://a:2")
    assert len({address_of(url, allow_insecure=True).name for url in urls}) == len(urls)


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("ftp://a", "not an address"),
        ("https://", "without the name"),
        ("https://a b", "without the name"),
        ("https://..", "without the name"),
        ("https://a:99999", "not an address"),
        ("https://a:0", "not an address"),
        ("https://a/?q=1", "not an address"),
        ("https://a/../b", "a path"),
        ("https://[::1", "not an address"),
        ("https://me:secret@a", "a user or a password"),
        ("http://models.example.org", "plain HTTP"),
        (f"https://{'a' * 300}", "without the name"),
        (f"https://{'a' * 192}", "an address of 204 characters"),
    ],
)
def test_other_addresses_are_refused(url: str, match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        tacita.connect(url)
    assert "secret" not in str(caught.value) and caught.value.hint


def test_a_certificate_of_a_file_or_a_fingerprint_is_taken(fake: Fake, tmp_path: Path) -> None:
    for whom in (
        {"trust": fake.certificate},
        {"trust": None, "fingerprint": fake.fingerprint},
        {"trust": None, "fingerprint": fake.fingerprint.upper()},
    ):
        with connected(fake, tmp_path, **whom) as service:
            assert service.models().models


def test_another_certificate_is_refused_before_the_token_is_sent(fake: Fake, tmp_path: Path) -> None:
    other = new_identity(tmp_path / "other", ["127.0.0.1"]).certificate
    waits: list[float] = []
    for whom in (
        {"trust": other},
        {"trust": None},
        {"trust": None, "fingerprint": fingerprint(other)},
    ):
        with connected(fake, tmp_path, patience=patient(waits), **whom) as service:
            with pytest.raises(PeerError, match="is not trusted") as caught:
                service.models()
            assert "fingerprint" in caught.value.hint
    assert not fake.calls and not waits, "no other attempt changes it"


def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    identity = new_identity(tmp_path / "elsewhere", ["elsewhere.example"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(identity.certificate, identity.key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = context_of(identity.certificate)
        problem = handshake(listener, context, ours)
        assert isinstance(problem, ssl.SSLCertVerificationError)
        pinned = context_of(fingerprint=fingerprint(identity.certificate))
        assert handshake(listener, context, pinned) is None, "a fingerprint looks at no name"
        wrong = context_of(fingerprint="0" * 64)
        problem = handshake(listener, context, wrong)
        assert isinstance(problem, UntrustedError) and problem.verify_message.startswith("certificate ")


def handshake(listener: socket.socket, theirs: ssl.SSLContext, ours: ssl.SSLContext) -> Exception | None:
    """Of sockets, as WebSockets use them; what went wrong at the client."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            try:
                theirs.wrap_socket(connection, server_side=True).close()
            except OSError:
                return

    serving = threading.Thread(target=serve)
    serving.start()
    try:
        with (
            socket.create_connection(listener.getsockname(), SECONDS) as plain,
            ours.wrap_socket(plain, server_hostname="127.0.0.1"),
        ):
            return None
    except ssl.SSLError as error:
        return error
    finally:
        serving.join(SECONDS)


def test_trust_is_one_thing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="and a fingerprint"):
        context_of(tmp_path, "0" * 64)
    with pytest.raises(InputError, match="no SHA-256"):
        context_of(fingerprint="123")
    (tmp_path / "bad.pem").write_text("no certificate")
    for path in ("bad.pem", "none.pem"):
        with pytest.raises(InputError, match="cannot be read as certificates"):
            context_of(tmp_path / path)


@pytest.mark.parametrize("path", ["/models", "/public", "/keys", "/requests", "/response"])
def test_more_than_may_come_is_not_read(path: str, fake: Fake, tmp_path: Path) -> None:
    """A server that sends without end is hung up on; nothing of it stays."""
    method = "POST" if path == "/requests" else "GET"
    fake.faults = [Fault(method, path, 200, body=b" " * (JSON_BYTES + 10), times=9)]
    with (
        connected(fake, tmp_path / "data") as service,
        pytest.raises(PeerError, match=r"more than \d+ bytes"),
    ):
        service.classify(TEXTS[0])
    assert not list(tmp_path.rglob("response.ct"))


@pytest.mark.parametrize("body", [b"{}", b"[]", b"\xff", b'{"release": 1}', b"[" * 100_000])
def test_what_is_not_of_the_api_is_refused(body: bytes, fake: Fake, tmp_path: Path) -> None:
    fake.faults = [Fault("GET", "/models", 200, body=body)]
    with connected(fake, tmp_path) as service, pytest.raises(PeerError, match="no Models of the API"):
        service.models()


def test_a_redirect_is_not_followed(fake: Fake, tmp_path: Path) -> None:
    fake.faults = [Fault("GET", "/models", 307, headers={"Location": f"{fake.url}/elsewhere"})]
    with connected(fake, tmp_path) as service, pytest.raises(PeerError, match="status 307") as caught:
        service.models()
    assert "redirects are not followed" in caught.value.hint
    assert not fake.count("GET", "elsewhere")


def test_no_secret_is_logged_or_told(
    fake: Fake, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a call that works, and of calls that fail in every step."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # which would see where requests go
    told = []
    with connected(fake, tmp_path / "data") as service:
        told.append(repr(service) + repr(vars(service)) + repr(vars(service._inner)))
        service.classify("never boring")
        for method, path in (("POST", "/requests"), ("GET", "/events"), ("GET", "/response")):
            fake.faults = [Fault(method, path, 500)]
            try:
                service.classify("never boring")
            except TacitaError as error:
                told.append(f"{error!r} {error.hint} {vars(error)} {error.__context__!r}")
    (key,) = (tmp_path / "data").rglob("secret.key")
    text = "\n".join((caplog.text, *told))
    assert len(told) == 3 and "HTTP" in caplog.text
    for secret in (fake.token, "boring", str(key.read_bytes()[-32:])):
        assert secret not in text


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "schlüssel"])
def test_a_token_that_is_none_is_refused_without_showing_it(token: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="token") as caught:
        tacita.connect("https://127.0.0.1:1", token=token, data=tmp_path)
    assert not token or token not in str(caught.value)


def test_an_unknown_keyword_is_told() -> None:
    with pytest.raises(TypeError, match="no keyword 'tokn': did you mean token"):
        tacita.connect("https://127.0.0.1:1", tokn="a")  # type: ignore[call-arg]
