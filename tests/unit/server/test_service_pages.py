"""What the service's paths have for clients in pages: the plan, and keys that are uploaded while they are
made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from service_world import ASKED, KEY, KEYS, World, plan, sha256, world

from tacita.plans import wire


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with world(tmp_path / "data", monkeypatch) as found:
        yield found


def test_a_page_reads_the_plan_of_the_public_folder(there: World) -> None:
    path = "/v1/models/sst2-tiny/public/plan.json"
    found = there.call("GET", path, params={"scheme": "thor"})
    assert found.json()["hash"] == plan().hash
    headers = {"If-None-Match": found.headers["etag"]}
    assert there.call("GET", path, params={"scheme": "thor"}, headers=headers).status_code == 304


def test_the_hash_of_the_whole_may_come_with_the_last_piece(there: World) -> None:
    """Of a client that makes keys while it sends them."""
    piece = {"Content-Range": f"bytes 0-8999/{len(KEYS)}", wire.SHA256: sha256(KEYS[:9000])}
    headers = {**piece, wire.PLAN: plan().hash}
    first = there.call("PUT", f"/v1/keys/{KEY}", params=ASKED, content=KEYS[:9000], headers=headers)
    assert first.json()["received"] == 9000
    rest = {"Content-Range": f"bytes 9000-{len(KEYS) - 1}/{len(KEYS)}", wire.SHA256: sha256(KEYS[9000:])}
    headers = {**rest, wire.PLAN: plan().hash}
    last = there.call("PUT", f"/v1/keys/{KEY}", params=ASKED, content=KEYS[9000:], headers=headers)
    assert (last.status_code, last.json()["code"]) == (400, "bad-call")
    headers[wire.WHOLE_SHA256] = "0" * 64
    last = there.call("PUT", f"/v1/keys/{KEY}", params=ASKED, content=KEYS[9000:], headers=headers)
    assert last.status_code == 422
    assert there.call("GET", f"/v1/keys/{KEY}").json()["received"] == 0
    assert there.put_keys(end=9000).json()["received"] == 9000  # the wrong hash was forgotten
    there.call("DELETE", f"/v1/keys/{KEY}")
    assert there.put_keys().json()["complete"]
