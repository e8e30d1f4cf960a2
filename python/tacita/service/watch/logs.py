"""The log: a line of JSON an event on standard error, with ids, sizes and seconds, and never a text, a token,
a key, or what a caller sent.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

NAME = "tacita.service"
FIELDS = "tacita_fields"


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))  # as workers write it
        line: dict[str, Any] = {"at": now, "level": record.levelname.lower()}
        line |= {"event": record.getMessage()} | getattr(record, FIELDS, {})
        if record.exc_info and record.exc_info[0]:
            line["error"] = record.exc_info[0].__name__
            line["where"] = _where(record)
        return json.dumps(line, default=str)


def start() -> None:
    """Every line of this process goes to standard error in this form. An error that was not expected is told
    by its type and place: its text may hold anything."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    root = logging.getLogger()
    root.handlers, root.level = [handler], logging.WARNING
    logging.getLogger(NAME).setLevel(logging.INFO)


def say(event: str, **fields: Any) -> None:
    """An event, and what belongs to it."""
    logging.getLogger(NAME).info(event, extra={FIELDS: fields})


def warn(event: str, **fields: Any) -> None:
    """One that an operator should see."""
    logging.getLogger(NAME).warning(event, extra={FIELDS: fields})


def _where(record: logging.LogRecord) -> str:
    """File and line of the innermost call."""
    trace = record.exc_info[2] if record.exc_info else None
    while trace and trace.tb_next:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else ""
