"""The ledger: tokens, uploads, requests and quotas, also over a restart, a full disk and a foreign file."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import IntegrityError

from tacita.errors import FileError, InputError, ResourceError
from tacita.plans.wire import State
from tacita.server.sessions.messages import Used
from tacita.server.store import keys, requests, tokens, usage
from tacita.server.store import ledger as module
from tacita.server.store import ledger as reserve
from tacita.server.store.ledger import NAME, Ledger
from tacita.server.store.tables import VERSION, KeyRow, Quota, RequestRow

ID, OTHER, SHA = "a" * 32, "b" * 32, "c" * 64
DAY = 86400.0


class Clock:
    """Says what it is told to."""

    now = 10 * DAY + 5.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock) -> Ledger:
    return Ledger(tmp_path, clock)


def client(ledger: Ledger, name: str = "clinic", quota: Quota | None = None) -> str:
    found = tokens.client_of(ledger, tokens.add(ledger, name, quota or Quota()))
    assert found is not None
    return found.id


def request(client: str, id: str = ID, again: str | None = None) -> RequestRow:
    return RequestRow(id, client, "m", "thor", SHA, ID, SHA, State.waiting, 1.0, again)


def test_a_token_is_known_until_it_is_revoked(ledger: Ledger) -> None:
    token = tokens.add(ledger, "clinic", Quota(texts=7), operator=True)
    who = tokens.client_of(ledger, token)
    assert who is not None and (who.name, who.quota.texts, who.operator) == ("clinic", 7, True)
    tokens.revoke(ledger, "clinic")
    assert tokens.client_of(ledger, token) is None
    assert [each.revoked for each in tokens.everyone(ledger)] == [ledger.clock()]


def test_the_file_holds_no_token_and_is_its_owners_alone(ledger: Ledger, tmp_path: Path) -> None:
    token = tokens.add(ledger, "clinic", Quota())
    ledger.close()
    whole = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert token.encode() not in whole and tokens.hashed(token).encode() in whole
    assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 65, "anybody"])
def test_a_bad_name_is_refused(ledger: Ledger, name: str) -> None:
    with pytest.raises(InputError):
        tokens.add(ledger, name, Quota())


def test_a_name_is_one_clients_and_free_again_when_it_is_revoked(ledger: Ledger) -> None:
    first = client(ledger)
    with pytest.raises(InputError, match="clinic has one"):
        tokens.add(ledger, "clinic", Quota())
    tokens.revoke(ledger, "clinic")
    assert client(ledger) != first
    with pytest.raises(InputError, match="no client is called"):
        tokens.revoke(ledger, "nobody")


@pytest.mark.parametrize("token", ["", "tacita_", "tacita_" + "x" * 43, "x" * 10_000, "tacita_ä"])
def test_what_is_no_token_is_nobodys(ledger: Ledger, token: str) -> None:
    client(ledger)
    assert tokens.client_of(ledger, token) is None


def test_a_rotated_token_is_the_same_clients_and_the_one_before_for_a_while(
    ledger: Ledger, clock: Clock
) -> None:
    first = tokens.add(ledger, "clinic", Quota())
    who = tokens.client_of(ledger, first)
    second = tokens.rotate(ledger, "clinic", overlap=60.0)
    assert tokens.client_of(ledger, first) == tokens.client_of(ledger, second) == who
    clock.now += 61.0
    assert tokens.client_of(ledger, first) is None and tokens.client_of(ledger, second) == who
    with pytest.raises(InputError, match="no client is called"):
        tokens.rotate(ledger, "bank", overlap=60.0)


def test_a_token_expires_and_is_renewed(ledger: Ledger, clock: Clock) -> None:
    token = tokens.add(ledger, "clinic", Quota(), seconds=DAY)
    clock.now += DAY
    assert tokens.client_of(ledger, token) is None and not ledger.all(tokens.gone(ledger))
    with pytest.raises(InputError, match="has expired"):
        tokens.rotate(ledger, "clinic", overlap=0.0)
    assert tokens.client_of(ledger, tokens.rotate(ledger, "clinic", overlap=0.0, seconds=DAY)) is not None


def test_visitors_are_clients_for_a_day(ledger: Ledger, clock: Clock) -> None:
    token = tokens.new()
    who = tokens.visit(ledger, token, "192.0.2.1", Quota(texts=3))
    assert tokens.client_of(ledger, token) == who and tokens.visitors(ledger, "192.0.2.1") == 1
    assert tokens.everyone(ledger) == [] and tokens.visitors(ledger, "192.0.2.2") == 0
    usage.charge(ledger, who.id, texts=1)
    clock.now += DAY
    assert tokens.client_of(ledger, token) is None and ledger.all(tokens.gone(ledger)) == [who.id]
    clock.now += DAY + 1
    tokens.drop_visitors(ledger)
    assert ledger.all(tokens.gone(ledger)) == []


def test_any_number_of_clients_may_be_gone(ledger: Ledger) -> None:
    """More than SQLite takes values in a statement: 32,766 as it is built by default, here six."""
    names = [f"client-{number}" for number in range(7)]
    ids = [client(ledger, name) for name in names]
    requests.add(ledger, request(ids[3]))
    for name in names:
        tokens.revoke(ledger, name)
    with ledger.change() as db:
        connection = db.connection().connection.driver_connection
        assert isinstance(connection, sqlite3.Connection)
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 6)
    assert [row.id for row in requests.of_clients(ledger, tokens.gone(ledger))] == [ID]


def as_of_version_1(folder: Path) -> None:
    """Turns the ledger of a folder into one of the first version."""
    with sqlite3.connect(folder / NAME) as database:
        database.execute("DROP INDEX by_former")
        for column in ("former", "former_until", "expires", "address", "tokens", "caches", "cache_bytes"):
            database.execute(f"ALTER TABLE clients DROP COLUMN {column}")
        database.execute("ALTER TABLE usage DROP COLUMN tokens")
        database.execute("PRAGMA user_version=1")
    database.close()


def columns(folder: Path) -> dict[str, set[tuple[object, ...]]]:
    """Returns name, type and NOT NULL of each table's columns."""
    with sqlite3.connect(folder / NAME) as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {
            name: {row[1:4] for row in database.execute(f"PRAGMA table_info({name})")} for name in tables
        }
    database.close()
    return found


def test_a_ledger_of_an_earlier_version_takes_the_steps_to_this_one(ledger: Ledger, tmp_path: Path) -> None:
    token, wanted = tokens.add(ledger, "clinic", Quota()), columns(tmp_path)
    ledger.close()
    as_of_version_1(tmp_path)
    again = Ledger(tmp_path)
    who = tokens.client_of(again, token)
    assert who is not None and columns(tmp_path) == wanted and who.quota == Quota()
    usage.charge(again, who.id, texts=1)
    assert usage.today(again, who.id) == Used(1)
    before = tmp_path / f"{NAME}.version-1"
    assert before.stat().st_mode & 0o777 == 0o600
    with sqlite3.connect(before) as database:
        assert database.execute("SELECT name FROM clients").fetchall() == [("clinic",)]
        assert database.execute("PRAGMA user_version").fetchone() == (1,)
    database.close()


@pytest.mark.parametrize("version", [1, VERSION])
def test_a_caller_is_looked_up_without_reading_all_clients(
    ledger: Ledger, tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no token is that of anybody, now or before its rotation."""
    ledger.close()
    if version == 1:
        as_of_version_1(tmp_path)
    again, asked = Ledger(tmp_path), list[Any]()
    monkeypatch.setattr(again, "one", asked.append)
    tokens.client_of(again, tokens.new())
    query = asked[0].compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
    with again.change() as db:
        steps = db.connection().exec_driver_sql(f"EXPLAIN QUERY PLAN {query}").all()
    text = "\n".join(step[-1] for step in steps)
    assert "SCAN" not in text and "(token=?)" in text and "(former=?)" in text


def test_a_step_that_fails_leaves_the_ledger_as_it_was(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.close()
    as_of_version_1(tmp_path)
    earlier = columns(tmp_path)
    step, *_ = module.STEPS
    with monkeypatch.context() as patch:
        patch.setattr(module, "STEPS", ((*step, "ALTER TABLE absent ADD COLUMN x"),))
        with pytest.raises(FileError, match="no such table"):
            Ledger(tmp_path)
    assert columns(tmp_path) == earlier
    Ledger(tmp_path).close()
    assert columns(tmp_path) != earlier


def test_an_upload_goes_on_after_a_restart(ledger: Ledger, tmp_path: Path, clock: Clock) -> None:
    who = client(ledger)
    row = KeyRow(who, ID, "m", "thor", SHA, 100, 40, SHA, False, 1.0)
    keys.put(ledger, row)
    ledger.close()
    again = Ledger(tmp_path, clock)
    assert keys.get(again, who, ID) == row
    keys.put(again, replace(row, received=100, complete=True))
    keys.touch(again, who, ID)
    assert keys.of_client(again, who) == [replace(row, received=100, complete=True, used=clock.now)]
    assert keys.count(again) == 1
    assert keys.drop(again, who, ID) and not keys.drop(again, who, ID)


def test_more_bytes_than_the_whole_are_never_written_down(ledger: Ledger) -> None:
    row = KeyRow(client(ledger), ID, "m", "thor", SHA, 100, 101, SHA, False, 1.0)
    with pytest.raises(IntegrityError):
        keys.put(ledger, row)


def test_a_request_is_its_clients_alone(ledger: Ledger) -> None:
    who, other = client(ledger), client(ledger, "bank")
    requests.add(ledger, request(who))
    assert requests.get(ledger, who, ID) == request(who)
    assert requests.get(ledger, other, ID) is None
    assert requests.open_of(ledger, who, ID) == 1 and requests.open_of(ledger, other, ID) == 0


def test_an_idempotency_key_is_used_once(ledger: Ledger) -> None:
    who, other = client(ledger), client(ledger, "bank")
    requests.add(ledger, request(who, again="x"))
    with pytest.raises(IntegrityError):
        requests.add(ledger, request(who, OTHER, "x"))
    requests.add(ledger, request(other, OTHER, "x"))
    found = requests.asked_before(ledger, who, "x")
    assert found is not None and found.id == ID


def test_failures_of_a_client_take_few_rows(ledger: Ledger) -> None:
    """They give their texts back, so that no quota bounds them. Nobody else's go, and no answers."""
    who, other = client(ledger), client(ledger, "bank")
    rows = [replace(request(who, f"{n:032x}"), came=float(n)) for n in range(requests.MOST_FAILED + 2)]
    for row in (*rows, request(other, "f" * 32)):
        requests.add(ledger, row)
    requests.fail(ledger, request(other, "f" * 32), ended=0.0)
    requests.change(ledger, rows[0].id, state=State.done, ended=0.5)
    for row in rows[1:]:
        requests.fail(ledger, row, ended=row.came, problem="{}")
    gone = [row.id for row in rows if requests.by_id(ledger, row.id) is None]
    assert gone == [rows[1].id] and requests.by_id(ledger, "f" * 32) is not None


def test_what_is_unfinished_is_found_in_its_order(ledger: Ledger) -> None:
    who = client(ledger)
    rows = [replace(request(who, f"{n:032x}"), came=float(9 - n)) for n in range(4)]
    for row in rows:
        requests.add(ledger, row)
    requests.change(ledger, rows[0].id, state=State.running)
    requests.change(ledger, rows[1].id, state=State.done, ended=2.0)
    assert [row.id for row in requests.unfinished(ledger)] == [rows[3].id, rows[2].id, rows[0].id]
    assert requests.old(ledger, 3.0) == [rows[1].id] and requests.old(ledger, 2.0) == []
    requests.drop(ledger, rows[1].id)
    assert requests.by_id(ledger, rows[1].id) is None


def test_quotas_are_a_days(ledger: Ledger, clock: Clock) -> None:
    token = tokens.add(ledger, "clinic", Quota(texts=2, bytes=100, seconds=9.0))
    who = tokens.client_of(ledger, token)
    assert who is not None
    usage.charge(ledger, who.id, texts=1, seconds=4.0)
    assert usage.lacking(ledger, who, Used(1)) is None
    assert usage.reserve(ledger, who, Used(1, 500, 101)) == "bytes", "then nothing is charged"
    assert usage.reserve(ledger, who, Used(1, 500)) is None
    assert usage.lacking(ledger, who, Used(1)) == "texts"
    usage.charge(ledger, who.id, tokens=-501)
    assert usage.today(ledger, who.id) == Used(2, 0, 0, 4.0), "nothing is given back beyond nothing"
    assert usage.seconds_to_midnight(ledger) == DAY - 5 + 1
    clock.now += DAY
    assert usage.lacking(ledger, who, Used(1)) is None


def test_a_change_that_fails_changes_nothing(ledger: Ledger) -> None:
    who = client(ledger)
    with pytest.raises(RuntimeError), ledger.change() as db:
        db.connection().exec_driver_sql("DELETE FROM clients")
        raise RuntimeError
    assert [each.id for each in tokens.everyone(ledger)] == [who]


def test_a_full_disk_is_told(ledger: Ledger) -> None:
    who = client(ledger)
    with ledger.change() as db:
        pages = db.connection().exec_driver_sql("PRAGMA page_count").scalar_one()
    with pytest.raises(ResourceError, match="disk is full"), ledger.change() as db:
        db.connection().exec_driver_sql(f"PRAGMA max_page_count={pages}")
        for n in range(1000):
            row = f"INSERT INTO usage VALUES ('{who}', {n}, 0, 0, 0, 0.0)"
            db.connection().exec_driver_sql(row)
            db.connection().exec_driver_sql(
                "INSERT INTO requests (id, client, model, scheme, plan, key, sha256, state, came)"
                f" VALUES ('{n:032x}', '{who}', 'm', 's', '{SHA}', '{ID}', '{SHA}', 'done', 1.0)"
            )
    assert usage.today(ledger, who) == Used()


def test_what_must_be_written_has_a_reserve(ledger: Ledger, tmp_path: Path) -> None:
    reserve.hold(tmp_path)
    file = tmp_path / reserve.RESERVE
    assert file.stat().st_size == reserve.BYTES and file.stat().st_mode & 0o077 == 0
    with ledger.change() as db:
        pages = db.connection().exec_driver_sql("PRAGMA page_count").scalar_one()

    def change() -> bool:
        there = file.exists()
        with ledger.change() as db:
            db.connection().exec_driver_sql(f"PRAGMA max_page_count={pages if there else 1 << 20}")
            db.connection().exec_driver_sql("CREATE TABLE much AS SELECT randomblob(100000)")
        return there

    assert ledger.insist(change) is False, "the second time, without the reserve"


def test_a_file_that_is_no_ledger_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"not a database, but somebody's file" * 100)
    with pytest.raises(FileError, match="no ledger"):
        Ledger(tmp_path)
    assert (tmp_path / NAME).read_bytes().startswith(b"not a database")


def test_a_ledger_of_another_version_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / NAME) as database:
        database.execute("PRAGMA user_version=99")
    database.close()
    with pytest.raises(FileError, match="version 99"):
        Ledger(tmp_path)
