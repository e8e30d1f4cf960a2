"""Who may call the service, and how often: tokens, addresses, proxies."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from service_world import KEY, World, problem, world

from tacita.server.core.accounts import Rates
from tacita.server.store import tokens
from tacita.server.store.tables import Quota

Patch = pytest.MonkeyPatch


@pytest.fixture
def there(tmp_path: Path, monkeypatch: Patch) -> Iterator[World]:
    with world(tmp_path / "data", monkeypatch) as found:
        yield found


@pytest.mark.parametrize(
    "path", ["/v1/models", "/v1/keys", f"/v1/keys/{KEY}", "/v1/requests/" + KEY, "/metrics"]
)
@pytest.mark.parametrize("token", ["", "wrong", "tacita_" + "x" * 43])
def test_nobody_is_told_anything(there: World, path: str, token: str) -> None:
    response = there.call("GET", path, token=token)
    problem(response, 401, "no-token")
    assert response.headers["www-authenticate"] == "Bearer"


def test_a_body_of_nobody_is_not_read(there: World) -> None:
    problem(there.put_keys(token="wrong"), 401, "no-token")
    assert not (there.folder / "keys").exists()


def test_a_revoked_token_is_nobodys(there: World) -> None:
    token = there.client("clinic")
    assert there.call("GET", "/v1/models", token=token).status_code == 200
    tokens.revoke(there.service.ledger, "clinic")
    problem(there.call("GET", "/v1/models", token=token), 401, "no-token")


def test_who_calls_too_often_waits(there: World) -> None:
    token = there.client("eager", Quota(per_minute=2))
    assert [there.call("GET", "/v1/models", token=token).status_code for _ in range(2)] == [200, 200]
    response = there.call("GET", "/v1/models", token=token)
    problem(response, 429, "too-often")
    assert 0 < int(response.headers["retry-after"]) <= 30


def test_calls_are_counted_where_nobody_else_counts(there: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the event loop's thread, so that calls at the same time cannot lose each other's."""
    found = set[int]()
    wait = there.service.rates.wait

    def noted(name: str, per_minute: int) -> float:
        found.add(threading.get_ident())
        return wait(name, per_minute)

    monkeypatch.setattr(there.service.rates, "wait", noted)
    assert there.call("GET", "/v1/models").status_code == 200
    assert found == {threading.get_ident()}


def test_guessing_tokens_is_slowed_down(there: World) -> None:
    found = [there.call("GET", "/v1/models", token="guess").status_code for _ in range(32)]
    assert found[:30] == [401] * 30 and found[-1] == 429


def test_calls_without_a_token_leave_the_clients_of_their_address_alone(there: World) -> None:
    there.service.rates = Rates(lambda: 0.0)
    found = [there.call("GET", "/v1/models", token="").status_code for _ in range(3200)]
    assert found[:3000] == [401] * 3000 and found[-1] == 429
    assert there.call("GET", "/v1/models").status_code == 200


@pytest.mark.parametrize(("sender", "other"), [("127.0.0.1", 401), ("127.0.0.2", 429)])
def test_a_named_proxy_alone_says_whose_call_it_carries(
    tmp_path: Path, monkeypatch: Patch, sender: str, other: int
) -> None:
    settings = {"address_per_minute": 2, "proxies": (sender,)}
    with world(tmp_path / "data", monkeypatch, **settings) as there:
        there.service.rates = Rates(lambda: 0.0)
        for _ in range(3):
            last = forwarded(there, "198.51.100.7")
        assert last == 429
        assert forwarded(there, "198.51.100.8, 198.51.100.7") == 429  # a client wrote the first
        assert forwarded(there, "198.51.100.8") == other


def forwarded(there: World, address: str) -> int:
    """The status of a call of nobody that 127.0.0.1 carries for this address."""
    headers = {"X-Forwarded-For": address}
    return there.call("GET", "/v1/models", token="", headers=headers).status_code


def test_a_page_of_another_site_is_refused(there: World) -> None:
    problem(
        there.call("GET", "/v1/models", headers={"Origin": "https://evil.example"}), 403, "foreign-origin"
    )
    response = there.call("GET", "/v1/models", headers={"Origin": "https://test"})
    assert response.status_code == 200 and "strict-transport-security" not in response.headers
