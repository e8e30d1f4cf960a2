"""Connects to a service at an address, with a token: `tacita.connect` and `tacita.connect_async`.

HTTP and signatures need an extra of this package; what it brings is imported only here, on connecting.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from tacita.client.http.trust import address_of
from tacita.errors import require_keywords
from tacita.extras import needing
from tacita.plans.commitment import LinkSpeed

if TYPE_CHECKING:
    from tacita.client.blocking import Service
    from tacita.client.calls import Report
    from tacita.client.http.channel import RetryPolicy
    from tacita.client.service import AsyncService

TIMEOUT = 120.0


class How(TypedDict, total=False):
    """Keywords of a connection; see `connect`."""

    token: str | None
    trust: Path | str | None
    fingerprint: str | None
    data: Path | str | None
    progress: Report
    timeout: float
    threads: int
    prepared: int
    link: LinkSpeed | None
    allow_insecure: bool
    patience: RetryPolicy


def connect(url: str, **how: Unpack[How]) -> Service:
    """Returns the service at an https:// address; nothing is sent before the first call.

    token: as the operator gave it; without one, where the server answers such callers, a visitor's for a day,
    which this object alone knows. trust: a PEM file of the server's certificate or its signer's;
    fingerprint: SHA-256 of the one certificate to take, in hex; at most one of the two, by default the
    system's authorities. data: folder of keys and of what servers publish (default:
    `$XDG_DATA_HOME/tacita`). progress: called with reports, also from other threads. timeout: seconds of
    silence after which the server is given up. threads: of a connected scheme, 0 for all cores. prepared: of
    a connected scheme, texts to come whose products are prepared while nothing is asked. link: of a connected
    scheme, the speed that both sides choose for (default: by a measured round trip).
    allow_insecure: admits plain HTTP to other machines, and parameters below 128 bits; for tests. patience:
    how often and after how long a failed request is sent again.

    Raises InputError for an address or options that cannot be, or where the extra `client` is not installed,
    TypeError for a keyword that there is not.
    """
    with needing("client", "connect"):
        from tacita.client.blocking import Service
    return Service(connect_async(url, **how))


def connect_async(url: str, **how: Unpack[How]) -> AsyncService:
    """Returns a service whose methods are coroutines; arguments and errors are those of `connect`."""
    require_keywords(how, How.__annotations__, "connect")
    keywords: dict[str, Any] = {"token": None, "trust": None, "fingerprint": None, "data": None, **how}
    insecure = bool(keywords.get("allow_insecure", False))
    address = address_of(url, allow_insecure=insecure)
    with needing("client", "connect"):
        from tacita.client.calls import Meter
        from tacita.client.http.channel import Channel, RetryPolicy, client_of
        from tacita.client.http.trust import context_of
        from tacita.client.service import AsyncService, Options
        from tacita.client.store import Store, data_folder
    timeout, patience = keywords.get("timeout", TIMEOUT), keywords.get("patience") or RetryPolicy()
    context = context_of(keywords["trust"], keywords["fingerprint"])
    client = client_of(context, keywords["token"], timeout)
    store = Store(Path(keywords["data"]) if keywords["data"] else data_folder())
    options = Options(
        keywords.get("progress") or (lambda _: None),
        context if address.secure else None,
        timeout,
        keywords.get("threads", 0),
        keywords.get("prepared", 0),
        insecure,
        keywords.get("link"),
    )
    return AsyncService(Channel(address, client, patience, Meter(patience.clock)), store, options)
