"""Messages between the service and a worker process: one JSON object a line, capped, typed in every field.

    to the worker:  Setup, once; then Evaluate, one at a time, and Stop for the one that runs
    from it:        Ready or Unable; for each Evaluate any number of Passed, then Done, Failed or Stopped

Nothing of a request passes, only the names of its files. Paths are whole; `folder`, `plan` and `root` of
Setup are as in `jobs.queue.WorkerSpec`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO, ClassVar

from tacita.errors import PeerError
from tacita.plans.json_fields import from_json, to_json
from tacita.progress import Progress

ORDER_BYTES = 1 << 16  # of a line to a worker: five paths
MOST_BYTES = 1 << 20  # of a line from it: the seconds of all stages
MOST_TEXT = 2000  # characters of an error


@dataclass(frozen=True)
class Setup:
    """What a worker is for. save_every: seconds between resume points, 0 for one after each stage."""

    tag: ClassVar[str] = "setup"
    model: str
    scheme: str
    folder: str
    plan: str
    root: str
    threads: int
    memory: float
    allow_insecure: bool
    sha256: str
    save_every: float


@dataclass(frozen=True)
class Evaluate:
    """A job: request.ct of `folder`, under the keys of that id in the file `keys`."""

    tag: ClassVar[str] = "evaluate"
    id: str
    key_id: str
    keys: str
    folder: str


@dataclass(frozen=True)
class Stop:
    """Ends this job before its next stage. Nothing happens when it has ended."""

    tag: ClassVar[str] = "stop"
    id: str


@dataclass(frozen=True)
class Ready:
    """Says that the model is loaded. seconds: that this took."""

    tag: ClassVar[str] = "ready"
    seconds: float


@dataclass(frozen=True)
class Unable:
    """Says that the model cannot be loaded; the process ends. error, hint: for the operator."""

    tag: ClassVar[str] = "unable"
    error: str
    hint: str


@dataclass(frozen=True)
class Passed:
    """Says that the job goes on."""

    tag: ClassVar[str] = "passed"
    id: str
    progress: Progress


@dataclass(frozen=True)
class Done:
    """Says that response.ct is there. seconds: reading keys included. resident: keys in memory now."""

    tag: ClassVar[str] = "done"
    id: str
    seconds: float
    figures: Mapping[str, float]
    resident: int


@dataclass(frozen=True)
class Failed:
    """Says that the job has no response. code, detail, hint: see `jobs.queue.Watcher.failed`."""

    tag: ClassVar[str] = "failed"
    id: str
    code: str
    detail: str
    hint: str
    resident: int


@dataclass(frozen=True)
class Stopped:
    """Says that the job was ended on order; a resume point stays, if there was one."""

    tag: ClassVar[str] = "stopped"
    id: str
    resident: int


Order = Setup | Evaluate | Stop
Reply = Ready | Unable | Passed | Done | Failed | Stopped


def line(message: Order | Reply) -> bytes:
    """Returns a message as a line, with its end."""
    return json.dumps(to_json(message)).encode() + b"\n"


def parsed(text: bytes, most: int) -> dict[str, Any]:
    """The object that a line without its end holds. Raises PeerError for a line of more than `most` bytes and
    for one that is no JSON object."""
    if len(text) > most:
        raise PeerError(f"a line of more than {most} bytes", hint="use one release")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PeerError("a line that is no JSON", hint="use one release") from error
    if not isinstance(document, dict):
        raise PeerError("a line that is no JSON object", hint="use one release")
    return document


def parse_order(text: bytes) -> Order:
    """Returns the order of a line without its end. Raises PeerError for what is none."""
    return _read(Order, parsed(text, ORDER_BYTES))  # type: ignore[no-any-return]


def parse_reply(text: bytes) -> Reply:
    """Returns the worker's message of a line without its end. Raises PeerError for what is none."""
    return _read(Reply, parsed(text, MOST_BYTES))  # type: ignore[no-any-return]


def _read(kinds: Any, data: dict[str, Any]) -> Any:
    try:
        return from_json(kinds, data)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise PeerError(
            f"a line between service and worker is no message ({error!s:.200})", hint="use one release"
        ) from error


# Standard input and output as a channel of messages, of which nothing that is printed becomes part.


class Channel:
    """Orders from one descriptor, replies to another. One thread reads, one writes."""

    def __init__(self, source: BinaryIO, sink: int) -> None:
        self._source, self._sink = source, sink

    def orders(self) -> Iterator[Order]:
        """Yields orders until the other end is closed. Raises PeerError for what is none."""
        while text := self._source.readline(ORDER_BYTES + 1):
            if not text.endswith(b"\n"):
                raise PeerError("an order that is cut off or too long", hint="use one release")
            yield parse_order(text[:-1])

    def tell(self, message: Reply) -> None:
        """Writes a message. Raises BrokenPipeError when nobody reads."""
        rest = line(message)
        while rest:
            rest = rest[os.write(self._sink, rest) :]


def take_standard() -> Channel:
    """Returns a channel over standard input and output of this process. From now on what anything prints,
    Python or not, goes to standard error, and standard input is empty."""
    channel = Channel(os.fdopen(os.dup(0), "rb"), os.dup(1))
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return channel


# The log of a worker: one JSON object a line on standard error, which names jobs and shows no
# contents.

STDERR = 2
FRAMES = 8  # of a defect: where it was, from the inside


class Log:
    """The log of a worker, whose lines name model, scheme and process."""

    def __init__(self, model: str, scheme: str) -> None:
        self._labels = {"model": model, "scheme": scheme, "worker": os.getpid()}

    def __call__(self, event: str, **fields: str | int | float) -> None:
        """Writes a line. fields: ids, counts, seconds. One write, so that lines of processes do not mix."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        os.write(STDERR, json.dumps({"at": now, **self._labels, "event": event, **fields}).encode() + b"\n")


def where(trace: TracebackType | None) -> str:
    """Returns the functions and lines where an error arose, innermost first, without any value."""
    places = []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{trace.tb_frame.f_globals.get('__name__', '?')}.{code.co_name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return " < ".join(places[: -FRAMES - 1 : -1])
