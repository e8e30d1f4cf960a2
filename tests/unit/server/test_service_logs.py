"""The service's log: a line of JSON an event, and no flood of the same."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

from tacita.server import logs


def record(event: str, *values: object, **fields: Any) -> logging.LogRecord:
    found = logging.LogRecord("asyncio", logging.ERROR, "x.py", 1, event, values, None)
    setattr(found, logs.FIELDS, fields)
    return found


def lines(*events: tuple[float, logging.LogRecord]) -> list[dict[str, Any]]:
    """What is written of records at these seconds."""
    stream, now = io.StringIO(), [0.0]
    handler = logs.Handler(stream, lambda: now[0])
    for at, each in events:
        now[0] = at
        handler.handle(each)
    handler.close()
    return [
        {k: v for k, v in json.loads(line).items() if k != "at"} for line in stream.getvalue().splitlines()
    ]


def test_a_repeated_event_is_written_once_a_second_with_its_number() -> None:
    flood = [(index / 1000, record("cannot accept %d", index)) for index in range(2500)]
    found = lines(*flood, (2.5, record("well")), (9.0, record("cannot accept %d", 0)))
    assert [(line["event"], line.get("times", 1)) for line in found] == [
        ("cannot accept 0", 1),
        ("cannot accept 1000", 1000),
        ("cannot accept 2000", 1000),
        ("well", 1),
        ("cannot accept 0", 500),
    ]


def test_events_that_differ_are_all_written() -> None:
    found = lines(*((0.0, record("answered", request=index)) for index in range(3)))
    assert [line["request"] for line in found] == [0, 1, 2]


def test_an_event_that_repeats_within_the_second_is_counted_at_the_end() -> None:
    found = lines((0.0, record("failed")), (0.1, record("failed")), (0.2, record("failed")))
    assert [line.get("times", 1) for line in found] == [1, 2]
