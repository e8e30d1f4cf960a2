"""What a worker does with a job, in this process: keys that stay and go, and jobs that are refused."""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from service_dispatch import STAGE, World, make_world

from tacita.errors import FileError, PeerError, ResourceError
from tacita.evaluate.keyring import KeyRing, server_bytes
from tacita.evaluate.session import Server
from tacita.plans.files import require_keys_of
from tacita.progress import Progress
from tacita.resources import GB
from tacita.server import logs
from tacita.server.child import MOST_PATH, decode, encode
from tacita.server.jobs.evaluator import EndedError, JobEvaluator, open_evaluator
from tacita.server.jobs.messages import Done, Evaluate, Failed, Order, Passed, Reply, Stop, Stopped

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("evaluator"))


@pytest.fixture(scope="module")
def evaluator(world: World) -> JobEvaluator:
    return made(world)


def made(world: World, **changes: Any) -> JobEvaluator:
    return open_evaluator(dataclasses.replace(world.spec, **changes))


def new(world: World, client: str = "ann") -> Evaluate:
    return world.job(f"job{next(NUMBERS)}", client).order


def answer(evaluator: JobEvaluator, job: Evaluate) -> Done | Failed | Stopped:
    return evaluator.answer(job, lambda _: None)


def test_memory_is_provided_beside_the_wait_for_a_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, goes_on = Event(), Event()
    monkeypatch.setattr(KeyRing, "provide", lambda _: (begun.set(), goes_on.wait(60.0)))
    assert len(made(world).ring) == 0 and begun.wait(60.0)  # it was made while that goes on
    goes_on.set()


def test_keys_used_longest_ago_make_room_and_come_back(world: World) -> None:
    keys = made(world, memory=server_bytes(world.plan) / GB)
    ann, bob = new(world), new(world, "bob")
    read = [(keys.provide(job.key_id, job.keys), len(keys.ring)) for job in (ann, bob, ann, ann)]
    assert read == [(True, 1), (True, 1), (True, 1), (False, 1)]


def test_the_head_of_keys_says_whose_they_are(world: World, tmp_path: Path) -> None:
    job, bad = new(world), tmp_path / "evaluation.keys"
    require_keys_of(job.keys, job.key_id)
    with pytest.raises(FileError, match="sent as 0000"):
        require_keys_of(job.keys, "0" * 32)
    for damaged in (
        b"",
        bytes(1000),
        b"TACITA\x02" + job.keys.read_bytes()[7:200],
        job.keys.read_bytes()[:82],
    ):
        bad.write_bytes(damaged)
        with pytest.raises(FileError, match="not a file of"):
            require_keys_of(bad, job.key_id)


@pytest.mark.parametrize("at", [0, 100, -1], ids=["header", "first key", "last key"])
def test_damaged_keys_push_nothing_out(world: World, tmp_path: Path, at: int) -> None:
    keys, ann, bob = made(world, memory=server_bytes(world.plan) / GB), new(world), new(world, "bob")
    keys.provide(ann.key_id, ann.keys)
    data = bytearray(bob.keys.read_bytes())
    data[at] ^= 1
    (tmp_path / "damaged.keys").write_bytes(data)
    for id in (bob.key_id, ann.key_id):  # and as another client's under her id
        with pytest.raises(FileError):
            keys.provide(id, tmp_path / "damaged.keys")
    assert not keys.provide(ann.key_id, ann.keys), "they are still in memory"
    assert keys.provide(bob.key_id, bob.keys) and len(keys.ring) == 1


def test_keys_that_were_sent_anew_are_read_anew(world: World, evaluator: JobEvaluator) -> None:
    """Also those that somebody else sent under the same id: nobody is answered under another's keys."""
    job, keys = new(world), evaluator
    keys.provide(job.key_id, job.keys)
    assert not keys.provide(job.key_id, job.keys)
    os.utime(job.keys)
    assert keys.provide(job.key_id, job.keys)
    other = world.root / "other.keys"
    shutil.copy(job.keys, other)
    assert keys.provide(job.key_id, other)
    assert keys.provide(job.key_id, job.keys)
    assert not keys.provide(job.key_id, job.keys)
    other.unlink()
    with pytest.raises(FileError, match=r"evaluation.keys: they are not there"):
        keys.provide(job.key_id, other)


def test_others_keys_are_not_replaced_by_a_file_of_their_id(world: World, evaluator: JobEvaluator) -> None:
    """ann sends bob's keys as hers: bob's next request is answered with those of bob's own file."""
    ann, bob, keys = new(world), new(world, "bob"), evaluator
    keys.provide(bob.key_id, bob.keys)
    copy = world.root / "keys" / "ann" / "copied.keys"
    shutil.copy(bob.keys, copy)
    with pytest.raises(FileError, match="not the keys of that id"):
        keys.provide(ann.key_id, copy)
    assert keys.provide(bob.key_id, bob.keys)


@pytest.mark.parametrize("name", ["ann", "bob"])
def test_two_clients_get_what_a_fresh_server_gives(world: World, evaluator: JobEvaluator, name: str) -> None:
    job = new(world, name)
    assert isinstance(answer(evaluator, job), Done)
    answered = (job.folder / "response.ct").read_bytes()
    (job.folder / "evaluation.keys").symlink_to(job.keys)
    Server(world.plan, world.model, job.folder, allow_insecure=True, threads=1).evaluate()
    assert (job.folder / "response.ct").read_bytes() == answered


def test_no_folder_outside_the_root_is_answered(
    world: World, evaluator: JobEvaluator, tmp_path: Path
) -> None:
    job = new(world)
    (link := world.root / "link").symlink_to(tmp_path)
    inside = job.folder
    names = (tmp_path, link, inside / ".." / ".." / ".." / tmp_path.name, inside / "no", "requests")
    for name in map(Path, names):
        failed = answer(evaluator, dataclasses.replace(job, folder=name))
        assert isinstance(failed, Failed) and "no folder of that name" in failed.detail


def test_a_row_is_evaluated_in_the_folder_of_a_text_below_the_root_alone(
    world: World, evaluator: JobEvaluator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that keeps no rows takes no text."""
    job = new(world)
    (outside := world.root / "outside").symlink_to(tmp_path)
    for keeps, text in [
        (False, job.folder),
        *((True, each) for each in (None, tmp_path, outside, world.root / "no", job.folder / "request.ct")),
    ]:
        monkeypatch.setattr(evaluator, "_keeps", keeps)
        failed = answer(evaluator, dataclasses.replace(job, text=text))
        assert isinstance(failed, Failed) and "not a text of a plan that keeps rows" in failed.detail, text


def test_what_is_wrong_with_rows_is_told_without_their_place(
    world: World, evaluator: JobEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    (text := world.root / "texts" / "of a client").mkdir(parents=True)

    def evaluate(server: Server, *_: object) -> SimpleNamespace:
        raise ResourceError(f"a ciphertext in {server._text}/.tacita-rows", hint=f"room in {server._text}")

    monkeypatch.setattr(evaluator, "_keeps", True)
    monkeypatch.setattr(Server, "evaluate", evaluate)
    failed = answer(evaluator, dataclasses.replace(new(world), text=text))
    assert isinstance(failed, Failed) and failed.code == "resources"
    assert (failed.detail, failed.hint) == ("a ciphertext in .tacita-rows", "room in the text's folder")


def truncated(job: Evaluate) -> Evaluate:
    with (job.folder / "request.ct").open("r+b") as file:
        file.truncate(1000)
    return job


def altered(job: Evaluate) -> Evaluate:
    with (job.folder / "request.ct").open("r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(b"\xff" * 8)
    return job


def without_request(job: Evaluate) -> Evaluate:
    (job.folder / "request.ct").unlink()
    return job


def with_the_keys_of_bob(job: Evaluate) -> Evaluate:
    return dataclasses.replace(job, keys=job.keys.parents[1] / "bob" / "evaluation.keys")


def under_another_id(job: Evaluate) -> Evaluate:
    return dataclasses.replace(job, key_id="0" * len(job.key_id))


def with_keys_elsewhere(job: Evaluate) -> Evaluate:
    return dataclasses.replace(job, keys=job.keys.parents[3] / "evaluation.keys")


def elsewhere(job: Evaluate) -> Evaluate:
    return dataclasses.replace(job, folder=job.folder.parents[2])


def with_a_request_for_keys(job: Evaluate) -> Evaluate:
    return dataclasses.replace(job, keys=job.folder / "request.ct")


@pytest.mark.parametrize(
    ("spoiled", "said"),
    [
        (truncated, "request.ct: "),
        (altered, "request.ct: "),
        (without_request, "request.ct: no such file"),
        (with_the_keys_of_bob, "evaluation.keys: they are not the keys of that id"),
        (under_another_id, "request.ct: made with other keys than it is sent for"),
        (with_keys_elsewhere, "evaluate: keys outside the folder that this worker answers"),
        (elsewhere, "evaluate: no folder of that name below the one that this server answers"),
        (with_a_request_for_keys, "request.ct: "),
    ],
)
def test_what_a_client_did_wrong_is_refused_without_the_places_of_files(
    world: World, evaluator: JobEvaluator, spoiled: Callable[[Evaluate], Evaluate], said: str
) -> None:
    failed = answer(evaluator, spoiled(new(world)))
    assert isinstance(failed, Failed)
    assert failed.code == "refused"
    assert failed.detail.startswith(said), failed.detail
    assert str(world.root) not in failed.detail + failed.hint


def test_the_next_job_is_well(world: World, evaluator: JobEvaluator) -> None:
    bad, good = truncated(new(world)), new(world)
    assert isinstance(answer(evaluator, bad), Failed)
    done = answer(evaluator, good)
    assert isinstance(done, Done) and done.seconds >= done.figures["evaluate_seconds"] > 0
    assert (good.folder / "response.ct").is_file()


def test_too_little_memory_is_told_as_such(world: World) -> None:
    failed = answer(made(world, memory=0.001), new(world))
    assert isinstance(failed, Failed)
    assert failed.code == "resources"
    assert "keys and process alone need" in failed.detail


class Panic(BaseException):
    """Is raised as the engine raises its own."""


@pytest.mark.parametrize("kind", [ArithmeticError, MemoryError, Panic])
def test_a_defect_is_told_by_its_type(
    world: World,
    evaluator: JobEvaluator,
    kind: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def evaluate(*_arguments: object) -> SimpleNamespace:
        raise kind("a number of the text: 4711")

    monkeypatch.setattr(Server, "evaluate", evaluate)
    job, (root, named) = new(world), map(logging.getLogger, (None, logs.NAME))
    for logger, name in ((root, "handlers"), (root, "level"), (named, "level")):
        monkeypatch.setattr(logger, name, getattr(logger, name))
    logs.start(model="sst2")
    failed = answer(evaluator, job)
    assert isinstance(failed, Failed)
    assert (failed.code, failed.detail) == ("internal", f"the evaluation failed ({kind.__name__})")
    log = capfd.readouterr().err
    assert "4711" not in log
    line = json.loads(log)
    assert (line["model"], line["job"], line["error"]) == ("sst2", job.id, kind.__name__)
    assert line["where"].startswith("test_service_evaluator.evaluate:")


def test_a_report_ends_an_evaluation(world: World, evaluator: JobEvaluator) -> None:
    passed = list[Progress]()

    def report(now: Progress) -> None:
        passed.append(now)
        if now.index == 3:
            raise EndedError

    job = new(world)
    said = evaluator.answer(job, report)
    assert isinstance(said, Stopped) and said.resident >= 1
    assert [now.index for now in passed] == [0, 1, 2, 3]
    assert not (job.folder / "response.ct").exists()


@pytest.mark.parametrize(
    "message",
    [Passed("a", STAGE), Done("a", 1.5, {"x": 2.0}, 3), Stopped("a", 0), Stop("\udcff")],
    ids=lambda m: m.tag,
)
def test_messages_come_as_they_were_sent(message: Any) -> None:
    """Names of files need not be UTF-8."""
    assert decode(Order | Reply, encode(message)[:-1]) == message


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_other_bytes_are_no_message(data: bytes) -> None:
    for kinds in (Order, Reply):
        with pytest.raises(PeerError):
            decode(kinds, data)


@pytest.mark.parametrize(
    "text",
    [
        '{"kind": "done", "id": "a", "seconds": 1e0, "figures": {"x": "y"}, "resident": 1}',
        '{"kind": "done", "id": "a", "seconds": 1' + "0" * 400 + ', "figures": {}, "resident": 1}',
        '{"kind": "stopped", "id": "a", "resident": true}',
        '{"kind": "stopped", "id": "a", "resident": -1}',
        '{"kind": "stopped", "id": "a", "resident": 1, "more": 1}',
        '{"kind": "stopped", "id": "a"}',
        '{"kind": ["stopped"], "id": "a", "resident": 1}',
        '{"kind": "evaluate", "id": "a", "key_id": "b", "keys": "c", "folder": "d"}',
        '{"kind": "stopped", "id": "' + "a" * (MOST_PATH + 1) + '", "resident": 1}',
    ],
    ids=["figure", "large", "bool", "less than none", "more", "less", "kind", "order", "long"],
)
def test_a_message_with_other_fields_is_refused(text: str) -> None:
    with pytest.raises(PeerError):
        decode(Reply, text.encode())
