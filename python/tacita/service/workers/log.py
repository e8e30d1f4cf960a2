"""The log of a worker: one JSON object a line on standard error, which names jobs and shows no
contents."""

from __future__ import annotations

import json
import os
import time
from types import TracebackType

STDERR = 2
FRAMES = 8  # of a defect: where it was, from the inside


class Log:
    """Of a lane: model, scheme."""

    def __init__(self, model: str, scheme: str) -> None:
        self._lane = {"model": model, "scheme": scheme, "worker": os.getpid()}

    def __call__(self, event: str, **fields: str | int | float) -> None:
        """fields: ids, counts, seconds. One write, so that lines of processes do not mix."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        os.write(STDERR, json.dumps({"at": now, **self._lane, "event": event, **fields}).encode() + b"\n")


def where(trace: TracebackType | None) -> str:
    """Functions and lines of the program in which an error arose, innermost first, without any value."""
    found = []
    while trace is not None:
        code = trace.tb_frame.f_code
        found.append(f"{trace.tb_frame.f_globals.get('__name__', '?')}.{code.co_name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return " < ".join(found[: -FRAMES - 1 : -1])
