"""Finds the certificate that `tacita serve` shows: the files that are given, or a self-signed one for every
name that clients may dial."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tacita.cli.console import out, say, shown, warn
from tacita.errors import InputError
from tacita.two_party.protocol.party import Identity, certificate_problem, fingerprint, new_identity

LOCAL = ("localhost", "127.0.0.1", "::1")
ELSEWHERE = (
    "192.0.2.1",
    "2001:db8::1",
)  # for documentation: a route to them tells one's own address, nothing is sent


def identity(
    host: str, given: Identity | None, folder: Path | None, names: Sequence[str], *, plain: bool
) -> Identity | None:
    """Returns the server's identity, None for plain TCP. Raises what `require_secured` raises, PeerError."""
    require_secured(given, folder, names, plain=plain)
    if folder is None:
        return given
    own = Identity(folder / "certificate.pem", folder / "key.pem")
    if not (own.certificate.is_file() and own.key.is_file()):
        return new_identity(folder, certificate_names(host, names))
    _require_valid(own, [*names, *([] if everywhere(host) else [host])] or LOCAL[:1])
    name = next(filter(_is_name, [socket.gethostname()]), "localhost")
    if everywhere(host) and (problem := certificate_problem(own.certificate, name)):
        # no reason to refuse: a container that is made anew has another name each time
        warn(
            f"clients that dial {shown(name)} would refuse the certificate: "
            f"{problem} (--name says which names they dial)"
        )
    return own


def require_secured(
    given: Identity | None, folder: Path | None, names: Sequence[str], *, plain: bool
) -> None:
    """Raises InputError unless exactly one of a given certificate, a folder for a new one, and plain TCP is
    asked for, and for names of a certificate that is not made here."""
    if sum((given is not None, folder is not None, plain)) != 1:
        raise InputError(
            "serve: say how the connection is secured",
            hint="--certificate PEM --key PEM, --new-certificate FOLDER, or --insecure-plain-tcp",
        )
    if folder is None and names:
        raise InputError(
            "serve: --name is for --new-certificate", hint="other certificates have their names already"
        )


def certificate_names(host: str, names: Sequence[str]) -> list[str]:
    """Returns all names by which clients may reach this server: those asked for, the address that it listens
    on or, where that is every address, the machine's names and addresses; and the loopback's."""
    mine = _machine() if everywhere(host) else [host]
    return list(dict.fromkeys([*names, *mine, *LOCAL]))


def show_listening(scheme: str, host: str, port: int, own: Identity | None) -> None:
    """Says where a server listens, and by which certificate clients know it. scheme: in front of the host."""
    if own:
        say(f"certificate {shown(str(own.certificate))}, SHA-256 {fingerprint(own.certificate)}")
    say(f"listening on {scheme}{shown(host)}:{port}, Ctrl-C ends")
    out.file.flush()
    _tell_systemd()


def _tell_systemd() -> None:
    """Tells a unit of `Type=notify` that the server is ready, as sd_notify(3) does; nothing without one."""
    if address := os.environ.get("NOTIFY_SOCKET"):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as unit:
            unit.sendto(b"READY=1", f"\0{address[1:]}" if address.startswith("@") else address)


def everywhere(host: str) -> bool:
    """Tells whether listening on this address means every address of the machine."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_unspecified
    return host == ""


def beyond_loopback(host: str) -> bool:
    """Tells whether others than this machine can reach this address."""
    with suppress(ValueError):
        return not ipaddress.ip_address(host).is_loopback
    return host != "localhost"


def _require_valid(own: Identity, names: Sequence[str]) -> None:
    """Raises InputError for a certificate that clients would refuse today, under one of these names."""
    for name in names:
        if problem := certificate_problem(own.certificate, name):
            raise InputError(
                f"{own.certificate}: clients that dial {name} would refuse it: {problem}",
                hint="name another folder, or remove certificate.pem and key.pem; clients need the new one "
                "then",
            )


def _machine() -> list[str]:
    names = {socket.gethostname(), socket.getfqdn()}
    return [*sorted(filter(_is_name, names)), *sorted(set(_addresses()))]


def _addresses() -> list[str]:
    """Returns this machine's addresses by which it would reach other networks."""
    addresses = []
    for target in ELSEWHERE:
        kind = socket.AF_INET6 if ":" in target else socket.AF_INET
        with suppress(OSError), socket.socket(kind, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))
            addresses.append(str(probe.getsockname()[0]))
    return addresses


def _is_name(text: str) -> bool:
    labels = text.split(".")
    return all(
        0 < len(label) < 64 and label.isascii() and label.replace("-", "a").isalnum() for label in labels
    )
