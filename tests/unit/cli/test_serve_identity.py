"""Certificates that `tacita serve` makes and uses again."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tacita.cli.service import identity as serve_identity
from tacita.cli.service.identity import beyond_loopback, certificate_names, everywhere, identity
from tacita.errors import InputError
from tacita.two_party.protocol.party import Identity, certificate_problem

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_identity.socket, "gethostname", lambda: "box")
    monkeypatch.setattr(serve_identity.socket, "getfqdn", lambda: "box.example")
    monkeypatch.setattr(serve_identity, "_addresses", lambda: ["192.0.2.7"])


@pytest.mark.parametrize("abstract", [False, True])
def test_a_unit_of_systemd_hears_that_the_server_listens(
    abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"@{tmp_path.name}-{os.getpid()}@1" if abstract else str(tmp_path / "at@notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as unit:
        unit.bind(f"\0{name[1:]}" if abstract else name)
        unit.settimeout(60.0)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        serve_identity.show_listening("https://", "127.0.0.1", 8443, None)
        assert unit.recv(64) == b"READY=1"
    serve_identity.show_listening("https://", "127.0.0.1", 8443, None)  # nobody listens any more


def made(folder: Path, host: str, *names: str) -> Identity:
    found = identity(host, None, folder, names, plain=False)
    assert found is not None
    return found


def test_a_server_on_every_address_is_known_by_all_its_names(tmp_path: Path) -> None:
    own = made(tmp_path / "pem", "0.0.0.0", "model.example.org", "198.51.100.4")
    for name in (
        "model.example.org",
        "198.51.100.4",
        "box",
        "box.example",
        "192.0.2.7",
        "localhost",
        "127.0.0.1",
        "::1",
    ):
        assert not certificate_problem(own.certificate, name), name
    assert "not valid for name" in certificate_problem(own.certificate, "other.example")
    assert made(tmp_path / "pem", "0.0.0.0", "model.example.org") == own  # used again


def test_one_address_is_one_name() -> None:
    assert certificate_names("192.0.2.9", []) == ["192.0.2.9", "localhost", "127.0.0.1", "::1"]


def test_a_certificate_for_other_names_is_not_used_again(tmp_path: Path) -> None:
    made(tmp_path / "pem", "127.0.0.1")
    for host, names in (("0.0.0.0", ["model.example"]), ("127.0.0.1", ["model.example"]), ("192.0.2.9", [])):
        with pytest.raises(InputError, match="would refuse it") as caught:
            identity(host, None, tmp_path / "pem", names, plain=False)
        assert "another folder" in caught.value.hint


def test_a_machine_that_was_renamed_is_told_and_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = made(tmp_path / "pem", "0.0.0.0", "model.example")
    assert made(tmp_path / "pem", "0.0.0.0", "model.example") == own and not capsys.readouterr().err
    monkeypatch.setattr(serve_identity.socket, "gethostname", lambda: "c0ffee000002")
    assert made(tmp_path / "pem", "0.0.0.0", "model.example") == own
    assert "clients that dial c0ffee000002 would refuse" in capsys.readouterr().err


def test_an_expired_certificate_is_not_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = made(tmp_path / "pem", "127.0.0.1")
    monkeypatch.setattr(serve_identity, "certificate_problem", lambda path, name: "certificate expired")
    for host in ("127.0.0.1", "0.0.0.0"):
        with pytest.raises(InputError, match="expired"):
            identity(host, None, own.certificate.parent, [], plain=False)


def test_names_belong_to_new_certificates(tmp_path: Path) -> None:
    for given, plain in ((Identity(tmp_path / "c", tmp_path / "k"), False), (None, True)):
        with pytest.raises(InputError, match="--name"):
            identity("127.0.0.1", given, None, ["x"], plain=plain)


def test_which_addresses_are_whose() -> None:
    assert [everywhere(host) for host in ("0.0.0.0", "::", "", "127.0.0.1", "box")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    loopback = [
        not beyond_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost", "0.0.0.0", "box")
    ]
    assert loopback == [True, True, True, True, False, False]
