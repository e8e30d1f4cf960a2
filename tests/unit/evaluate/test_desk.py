"""The socket of a server that stays, with a stand-in for evaluations: bounds, hostile bytes, ends."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tacita.errors import FileError, GoneError, InputError, LateError, PeerError
from tacita.evaluate import desk
from tacita.evaluate.desk import ASKED_BYTES, TOLD_BYTES, VERSION, Desk, Lines, connect, listening
from tacita.progress import Progress

NOW = Progress("stage", 0, 2, 0.0, 1.0)
PATIENCE = 180.0  # seconds that a test waits for what must come


@dataclass
class StandIn:
    """Answers folders by the actions that a test puts there."""

    action: Callable[[Path, Callable[[Progress], None]], None] = lambda folder, progress: progress(NOW)
    done: list[Path] = field(default_factory=list)

    def folder(self, name: str) -> Path:
        if "outside" in name:
            raise InputError("no folder of that name", hint="another")
        return Path(name)

    def evaluate(self, folder: Path, progress: Any, notice: Callable[[str], None]) -> str:
        self.action(folder, progress)
        notice("told")
        self.done.append(folder)
        return "server"


@dataclass
class Running:
    at: Path
    standing: StandIn
    told: list[tuple[str, str]]

    def ask(self, folder: str = "/good") -> Lines:
        lines = connect(self.at)
        lines.send({"tacita": VERSION, "evaluate": folder})
        return lines


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """A desk with room for one request beside the one that runs."""
    with served(tmp_path, StandIn()) as found:
        yield found


@contextlib.contextmanager
def served(folder: Path, standing: StandIn, **options: Any) -> Iterator[Running]:
    told: list[tuple[str, str]] = []
    given: dict[str, Any] = {"waiting": 1, "greeting": PATIENCE, **options}
    made = Desk(
        standing,  # type: ignore[arg-type]
        figures=lambda server, seconds: {"server": server},
        told=lambda folder, ending, seconds: told.append((folder, ending)),
        **given,
    )
    with listening(folder / "sock") as listener:
        thread = threading.Thread(target=_until_interrupted, args=(made, listener))
        thread.start()
        found = Running(folder / "sock", standing, told)
        yield found
        standing.action = _interrupt
        end = time.monotonic() + PATIENCE
        while thread.is_alive() and time.monotonic() < end:  # asked in vain while there are many newcomers
            with contextlib.suppress(PeerError):
                all_of(found.ask())
            thread.join(0.1)
        assert not thread.is_alive()


def _until_interrupted(made: Desk, listener: socket.socket) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        made.serve(listener)


def _interrupt(folder: Path, progress: object) -> None:
    raise KeyboardInterrupt


def all_of(lines: Lines) -> list[dict[str, Any]]:
    """Everything that the server says until it closes."""
    found = []
    with contextlib.suppress(GoneError):
        while True:
            found.append(lines.receive(TOLD_BYTES, PATIENCE))
    lines.close()
    return found


def test_an_asker_is_told_how_it_goes(running: Running) -> None:
    found = all_of(running.ask())
    assert [next(iter(message)) for message in found] == ["waiting", "progress", "notice", "done"]
    assert found[1]["progress"] == {"stage": "stage", "index": 0, "total": 2, "seconds": 0.0, "left": 1.0}
    assert found[-1]["done"] == {"server": "server"}
    assert running.standing.done == [Path("/good")]


def test_the_socket_is_the_owners_alone_and_goes_with_the_server(tmp_path: Path) -> None:
    with listening(tmp_path / "sock"):
        assert stat.S_IMODE((tmp_path / "sock").stat().st_mode) == 0o600
    assert not (tmp_path / "sock").exists()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\n", "no JSON"),
        (b"\xff\xfe\n", "no JSON"),
        (b"[1]\n", "no JSON object"),
        (b"[" * (ASKED_BYTES - 1) + b"\n", "no JSON"),
        (b"x" * (ASKED_BYTES + 4096), f"more than {ASKED_BYTES} bytes"),
        (b"{}\n", "another version"),
        (b'{"tacita": 2, "evaluate": "/good"}\n', "another version"),
        (b'{"tacita": 1}\n', "other fields"),
        (b'{"tacita": 1, "evaluate": 5}\n', "other fields"),
        (b'{"tacita": 1, "evaluate": "/good", "more": 1}\n', "other fields"),
        (b'{"tacita": 1, "evaluate": "/outside"}\n', "no folder of that name"),
    ],
)
def test_hostile_bytes_get_an_error_and_the_server_lives_on(running: Running, data: bytes, why: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as raw:
        raw.connect(str(running.at))
        raw.sendall(data)
        (told,) = all_of(Lines(raw))
    assert why in told["error"]
    assert "done" in all_of(running.ask())[-1]
    assert running.standing.done == [Path("/good")]


def test_silence_is_given_up(tmp_path: Path) -> None:
    with served(tmp_path, StandIn(), greeting=0.2) as running:
        (told,) = all_of(connect(running.at))
        assert "nothing in time" in told["error"]
        assert "done" in all_of(running.ask())[-1]


def test_only_so_many_may_be_silent(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = [connect(running.at) for _ in range(desk.NEWCOMERS)]
    (told,) = all_of(connect(running.at))
    assert f"{desk.NEWCOMERS} others have not said" in told["error"]
    for lines in silent:
        lines.close()


def test_one_at_a_time_and_a_bounded_queue(running: Running) -> None:
    go = threading.Event()
    running.standing.action = lambda folder, progress: (progress(NOW), go.wait(PATIENCE))[0]
    first = running.ask("/first")
    assert [next(iter(first.receive(TOLD_BYTES, PATIENCE))) for _ in range(2)] == ["waiting", "progress"]
    second = running.ask("/second")
    assert second.receive(TOLD_BYTES, PATIENCE) == {"waiting": 1}
    assert "1 requests are waiting" in all_of(running.ask("/third"))[-1]["error"]
    go.set()
    assert "done" in all_of(first)[-1] and "done" in all_of(second)[-1]
    assert running.standing.done == [Path("/first"), Path("/second")]


def test_a_place_that_was_told_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second asker's thread stands still between hearing its place and being queued."""
    go, late = threading.Event(), threading.Event()
    with served(tmp_path, StandIn(lambda folder, progress: (progress(NOW), go.wait(PATIENCE))[0])) as running:
        first = running.ask("/first")
        assert [next(iter(first.receive(TOLD_BYTES, PATIENCE))) for _ in range(2)] == ["waiting", "progress"]
        put = queue.Queue.put_nowait

        def held(self: queue.Queue[desk.Request], request: desk.Request) -> None:
            if request.folder == Path("/second"):
                late.wait(PATIENCE)
            put(self, request)

        monkeypatch.setattr(queue.Queue, "put_nowait", held)
        second = running.ask("/second")
        assert second.receive(TOLD_BYTES, PATIENCE) == {"waiting": 1}
        third = running.ask("/third")
        with pytest.raises(LateError):  # nor is the third told anything before the second stands in line
            third.receive(TOLD_BYTES, 0.1)
        late.set()
        assert "1 requests are waiting" in all_of(third)[-1]["error"]
        go.set()
        assert "done" in all_of(first)[-1] and "done" in all_of(second)[-1]


def test_nobody_is_worked_for_who_has_gone(running: Running) -> None:
    met, gone = threading.Event(), threading.Event()

    def action(folder: Path, progress: Callable[[Progress], None]) -> None:
        progress(NOW)
        met.set()
        gone.wait(PATIENCE)
        progress(NOW)

    running.standing.action = action
    lines = running.ask("/left")
    assert met.wait(PATIENCE)
    lines.close()
    gone.set()
    running.standing.action = lambda folder, progress: None
    assert "done" in all_of(running.ask("/next"))[-1]
    assert running.standing.done == [Path("/next")]
    assert running.told[0] == ("/left", "ended: its asker has gone")


class Panic(BaseException):
    """As the engine raises it."""


@pytest.mark.parametrize("kind", [ZeroDivisionError, MemoryError, Panic])
def test_a_defect_is_one_requests_and_its_text_stays_here(
    running: Running, kind: type[BaseException]
) -> None:
    def fail(folder: Path, progress: object) -> None:
        raise kind("a text of the server's own")

    running.standing.action = fail
    assert all_of(running.ask())[-1]["error"] == f"the evaluation failed ({kind.__name__})"
    running.standing.action = lambda folder, progress: None
    assert "done" in all_of(running.ask())[-1]


def test_whoever_waits_is_told_of_the_end(tmp_path: Path) -> None:
    met, go = threading.Event(), threading.Event()

    def action(folder: Path, progress: object) -> None:
        met.set()
        go.wait(PATIENCE)
        raise KeyboardInterrupt

    with served(tmp_path, StandIn(action)) as running:
        first = running.ask("/first")
        assert met.wait(PATIENCE)
        second = running.ask("/second")
        assert second.receive(TOLD_BYTES, PATIENCE) == {"waiting": 1}
        go.set()
        assert all_of(first)[-1]["error"] == all_of(second)[-1]["error"] == "the server has ended"


def test_a_killed_servers_socket_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    at = tmp_path / "sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(at))
    with listening(at), pytest.raises(FileError, match="another server listens"), listening(at):
        pass
    at.write_text("mine")
    with pytest.raises(FileError, match="no socket"), listening(at):
        pass
    assert at.read_text() == "mine"


def test_long_names_and_absent_servers_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="107 bytes"), listening(tmp_path / ("x" * 120)):
        pass
    with pytest.raises(PeerError, match="no server listens"):
        connect(tmp_path / "sock")


def test_a_message_has_a_bound_and_a_time() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with pytest.raises(LateError):
            Lines(ours).receive(10, 0.05)
        theirs.sendall(json.dumps({"long": "x" * 20}).encode() + b"\n")
        with pytest.raises(PeerError, match="more than 10 bytes"):
            Lines(ours).receive(10, PATIENCE)
