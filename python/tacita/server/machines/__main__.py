"""`python -m tacita.server.machines SITE FD`: the worker for a plan at a node of Ray's, started by
`node_set`, and by nobody else."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from tacita.plans.json_fields import from_json
from tacita.server.child import channel_of, ignore_signals
from tacita.server.machines.cluster import member
from tacita.server.machines.forward import ActorSite, Forward, LostError, open_forward
from tacita.server.machines.watcher import send_errors_to
from tacita.server.workers.loop import WorkerLoop
from tacita.server.workers.messages import Log, Order, Setup

LOST = 3  # exit status when the node is no more


def main(words: Sequence[str]) -> int:
    """Serves until the server or the node has gone; the exit status."""
    channel, site = channel_of(words, Order), from_json(ActorSite, json.loads(words[0]))
    send_errors_to(site.log)
    try:
        with ExitStack() as stack:

            def begin(setup: Setup, log: Log) -> Forward:
                ray = stack.enter_context(member(site.address))
                ignore_signals()  # Ray sets its own
                return open_forward(ray, site, setup, log)

            return WorkerLoop(channel, begin).serve()
    except LostError:
        os._exit(LOST)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
