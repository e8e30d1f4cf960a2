"""Callers without a token, where they are answered: each a client of its own, bounded by address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from service_world import KEY, World, world
from test_service_routes import problem

from tacita.plans import wire
from tacita.server.core import accounts
from tacita.server.store.tables import Quota

HOUR, DAY = 3600.0, 86400.0


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with world(tmp_path / "open", monkeypatch, anybody=Quota(keys=2)) as found:
        yield found


def test_a_visitor_sees_and_touches_nothing_of_another(there: World) -> None:
    first, second = there.visitor(), there.visitor()
    assert there.put_keys(token=first).status_code == 201
    asked = there.post(token=first).json()["id"]
    for token in (second, ""):
        assert there.call("GET", "/v1/keys", token=token).json()["keys"] == []
        for path in (f"/v1/keys/{KEY}", f"/v1/requests/{asked}", f"/v1/requests/{asked}/response"):
            problem(there.call("GET", path, token=token), 404, "not-found")
        for path in (f"/v1/keys/{KEY}", f"/v1/requests/{asked}"):
            problem(there.call("DELETE", path, token=token), 404, "not-found")
    assert len(there.call("GET", "/v1/keys", token=first).json()["keys"]) == 1


def test_six_visitors_in_turn_are_answered_whatever_one_of_them_holds(there: World) -> None:
    greedy = there.visitor()
    for number in range(2):
        assert there.put_keys(id=f"{number:032x}", token=greedy, end=100).status_code == 200
    problem(there.put_keys(id="9" * 32, token=greedy), 403, "quota")
    for _ in range(6):
        token = there.visitor()
        assert there.put_keys(token=token).status_code == 201
        assert there.post(token=token).status_code == 202


def test_visitors_of_one_address_share_one_clients_share_of_the_queue(there: World) -> None:
    for _ in range(3):
        token = there.visitor()
        there.put_keys(token=token)
        assert there.post(token=token).status_code == 202
    named = there.client("named")
    there.put_keys(token=named)
    there.post(token=named)
    groups = [job.client for job in there.pool.jobs.values()]
    assert len(set(groups[:3])) == 1 and groups[3] not in groups[:3]


def test_without_a_token_nothing_is_taken(there: World) -> None:
    found = problem(there.put_keys(token=""), 401, "no-token")
    assert "GET /v1/models" in found.hint
    problem(there.post(token=""), 401, "no-token")
    problem(there.call("GET", "/v1/models", token="wrong"), 401, "no-token")


def test_no_token_is_offered_where_callers_need_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(tmp_path / "closed", monkeypatch) as there:
        assert wire.VISITOR not in there.call("GET", "/v1/models").headers
        problem(there.call("GET", "/v1/models", token=""), 401, "no-token")


def test_an_address_has_so_many_visitors_a_day(there: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "MOST_A_DAY", 2)
    for _ in range(2):
        assert there.call("GET", "/v1/keys", token=there.visitor()).status_code == 200
    problem(there.call("GET", "/v1/keys", token=there.visitor()), 429, "busy")
    there.sweep(after=DAY + 1)
    assert there.call("GET", "/v1/keys", token=there.visitor()).status_code == 200


def test_tokens_that_nobody_shows_are_forgotten(there: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "MOST_OFFERED", 1)
    first, second = there.visitor(), there.visitor()
    problem(there.call("GET", "/v1/keys", token=first), 401, "no-token")
    assert there.call("GET", "/v1/keys", token=second).status_code == 200


def test_keys_of_a_visitor_go_after_an_hour_without_use_and_the_visitor_after_a_day(there: World) -> None:
    token = there.visitor()
    there.put_keys(token=token)
    there.sweep(after=HOUR - 60)
    there.pool.answer(there.post(token=token).json()["id"])  # a use
    there.sweep(after=HOUR - 60)
    assert len(there.call("GET", "/v1/keys", token=token).json()["keys"]) == 1
    there.sweep(after=120)
    assert there.call("GET", "/v1/keys", token=token).json()["keys"] == []
    there.sweep(after=DAY)
    problem(there.call("GET", "/v1/keys", token=token), 401, "no-token")
    assert not any((there.folder / "keys").iterdir()) and not any((there.folder / "requests").iterdir())
