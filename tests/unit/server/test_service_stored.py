"""A data folder as release 0.1 left it (tests/vectors/served-0.1). Each later release opens it, with the
same clients, keys, requests, plan and signing key.

`python tests/unit/server/test_service_stored.py FOLDER` records one of the release that runs, for the next
vector; a stored one is never made again.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select

import tacita
from tacita.data import DEFAULT_MODEL
from tacita.planning.request import PlanRequest
from tacita.plans.wire import State, public_hex
from tacita.schemes.base import silent
from tacita.server.core import offers as core
from tacita.server.core.offers import offers_of
from tacita.server.core.settings import signing_key
from tacita.server.sessions.messages import Used
from tacita.server.store import keys, requests, tokens, usage
from tacita.server.store.ledger import Ledger
from tacita.server.store.tables import KeyRow, Quota, RequestRow, Who

STORED = Path(__file__).parents[2] / "vectors" / "served-0.1"
REQUEST = PlanRequest(tokens=16, preset="insecure_toy_n11", texts=["a film of quiet beauty"])
NOW, KEY, HASH = 1.8e9, "ab" * 16, "cd" * 32
TOKEN = "tacita_" + "x" * 43  # of the client "clinic" there
PLAN = "dd2d4d1ac0c6be24aed805c0e7dcbb082fad0656e9db2cc49c29162f572aecf5"
SIGNER = "7f81df31a97efda06ec3c344acdec29da2b78bd3501f2f840571865f754dab0e"


def plan_of(folder: Path) -> str:
    offers = offers_of(tacita.load(), DEFAULT_MODEL, ["thor"], REQUEST, folder, silent, insecure=True)
    return offers.named["sst2-tiny", "thor"].plan.hash


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy, with the rights that a server gives its files."""
    copy = tmp_path / "served"
    shutil.copytree(STORED, copy)
    (copy / "signing.pem").rename(copy / "signing.key")  # whose name git ignores
    for path in copy.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return copy


def test_clients_keys_requests_and_use_are_there(folder: Path) -> None:
    with closing(Ledger(folder, lambda: NOW)) as ledger:
        who = tokens.client_of(ledger, TOKEN)
        assert who is not None and (who.name, who.quota) == ("clinic", Quota(7, 8, 9.0, 2, 5, 6))
        assert {each.name: each.operator for each in tokens.everyone(ledger)} == {
            "clinic": False, "prometheus": True, "gone": False
        }  # fmt: skip
        assert usage.today(ledger, who.id) == Used(texts=1, tokens=2, bytes=3, seconds=4.0)
        (key,) = keys.of_client(ledger, who.id)
        assert (key.id, key.plan, key.bytes, key.complete) == (KEY, PLAN, 100, True)
        own = select(Who.id).where(Who.id == who.id)
        rows = {row.state: row for row in requests.of_clients(ledger, own)}
        assert set(rows) == {State.waiting, State.running, State.done, State.failed}
        assert rows[State.done].response == HASH and rows[State.done].seconds == 1.5
        assert [row.state for row in requests.unfinished(ledger)] == [State.waiting, State.running]


def test_its_plan_is_offered_by_a_later_release(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the keys of its clients stay good; if this fails, a release costs every client new keys."""
    monkeypatch.setattr(core, "__version__", "0.2.0")
    assert plan_of(folder) == PLAN


def test_clients_know_the_server_by_its_signing_key(folder: Path) -> None:
    assert public_hex(signing_key(folder)) == SIGNER


def record(folder: Path) -> None:
    """Makes a folder of this release, and prints what the tests above expect."""
    tokens_of_now, tokens.new = tokens.new, lambda: TOKEN
    plan = plan_of(folder)
    with closing(Ledger(folder, lambda: NOW)) as ledger:
        tokens.add(ledger, "clinic", Quota(7, 8, 9.0, 2, 5, 6))
        tokens.new = tokens_of_now
        tokens.add(ledger, "prometheus", Quota(), operator=True)
        tokens.add(ledger, "gone", Quota())
        tokens.revoke(ledger, "gone")
        who = tokens.client_of(ledger, TOKEN)
        assert who is not None
        usage.charge(ledger, who.id, texts=1, tokens=2, bytes=3, seconds=4.0)
        keys.put(ledger, KeyRow(who.id, KEY, "sst2-tiny", "thor", plan, 100, 100, HASH, True, NOW))
        for number, state in enumerate((State.waiting, State.running, State.done, State.failed)):
            row = RequestRow(
                f"{number:032x}", who.id, "sst2-tiny", "thor", plan, KEY, HASH, state, NOW + number
            )
            if state is State.done:
                row.ended, row.seconds, row.response = NOW + 9, 1.5, HASH
                row.response_bytes, row.signature = 10, "ef" * 64
            requests.add(ledger, row)
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as ledger_file:
        ledger_file.execute("PRAGMA journal_mode=DELETE")
    shutil.rmtree(folder / "offers" / "sst2-tiny" / "thor" / "public")
    print(f'PLAN = "{plan}"\nSIGNER = "{public_hex(signing_key(folder))}"')
    (folder / "signing.key").rename(folder / "signing.pem")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
