"""The log: a line of JSON an event on standard error, with ids, sizes and seconds, and never a text, a token,
a key, or what a caller sent. An event that repeats is written once a second with its number, so that a flood
of the same fills no disk.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import IO, Any

NAME = "tacita.server"
FIELDS = "tacita_fields"
WINDOW = 1.0  # seconds
FRAMES = 8  # of an error: where it was, from the inside


class _Lines(logging.Formatter):
    def __init__(self, labels: Mapping[str, Any]) -> None:
        super().__init__()
        self._labels = labels

    def format(self, record: logging.LogRecord) -> str:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        line: dict[str, Any] = {"at": now, "level": record.levelname.lower(), **self._labels}
        line |= {"event": record.getMessage()} | getattr(record, FIELDS, {})
        if record.exc_info and record.exc_info[0]:
            line["error"] = record.exc_info[0].__name__
            line["where"] = where(record.exc_info[2])
        return json.dumps(line, default=str)


@dataclass
class _Repeats:
    """Equal records within a window. since: seconds, when a line was last written. count: records after it,
    the last of them is `record`."""

    record: logging.LogRecord
    since: float
    count: int = 0


class Handler(logging.StreamHandler[IO[str]]):
    """Writes the first of equal records at once, and those that follow as one line a second with `times`,
    their number: with the next record of any kind, or at the end. clock: seconds that do not go back. labels:
    fields of every line."""

    def __init__(
        self,
        stream: IO[str],
        clock: Callable[[], float] = time.monotonic,
        labels: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        super().__init__(stream)
        self.setFormatter(_Lines(labels))
        self._clock = clock
        self._recent: dict[Hashable, _Repeats] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Writes or counts a record, as `logging` calls it: under the handler's lock."""
        now, key = self._clock(), _key(record)
        repeats = self._recent.setdefault(key, _Repeats(record, -math.inf))
        repeats.record, repeats.count = record, repeats.count + 1
        for each in [each for each, earlier in self._recent.items() if earlier.since <= now - WINDOW]:
            self._write(self._recent.pop(each))
        self._recent.setdefault(key, _Repeats(record, now))

    def close(self) -> None:
        """Writes what was counted."""
        for each in self._recent.values():
            self._write(each)
        self._recent.clear()
        super().close()

    def _write(self, repeats: _Repeats) -> None:
        if repeats.count > 1:
            fields = getattr(repeats.record, FIELDS, {}) | {"times": repeats.count}
            setattr(repeats.record, FIELDS, fields)
        if repeats.count:
            super().emit(repeats.record)


def _key(record: logging.LogRecord) -> Hashable:
    """Returns a key that is equal for records that say the same, whatever their arguments."""
    return record.name, record.levelno, record.msg, repr(getattr(record, FIELDS, None))


def start(**labels: str | int) -> None:
    """Sends every line of this process to standard error in this form. An error that was not expected is told
    by its type and place: its text may hold anything. labels: fields of every line, such as a worker's."""
    root = logging.getLogger()
    root.handlers, root.level = [Handler(sys.stderr, labels=labels)], logging.WARNING
    logging.getLogger(NAME).setLevel(logging.INFO)


def say(event: str, **fields: Any) -> None:
    """Logs an event, and what belongs to it."""
    logging.getLogger(NAME).info(event, extra={FIELDS: fields})


def warn(event: str, **fields: Any) -> None:
    """Logs an event that an operator should see."""
    logging.getLogger(NAME).warning(event, extra={FIELDS: fields})


def error(event: str, **fields: Any) -> None:
    """Logs an event of the error that is being handled, told by its type and place."""
    logging.getLogger(NAME).warning(event, exc_info=True, extra={FIELDS: fields})


def where(trace: TracebackType | None) -> str:
    """Returns the functions and lines where an error arose, innermost first, without any value."""
    places = []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{trace.tb_frame.f_globals.get('__name__', '?')}.{code.co_name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return " < ".join(places[: -FRAMES - 1 : -1])
