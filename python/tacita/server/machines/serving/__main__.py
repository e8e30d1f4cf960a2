"""`python -m tacita.server.machines.serving ADDRESS NODE CORES SHARE FOLDER FD`: the service's worker for a
plan at a node of Ray's, started by `node_set`, and by nobody else."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from tacita.server.child import channel_of, ignore_signals
from tacita.server.machines.connect import member
from tacita.server.machines.serving.forward import ActorSite, Forward, LostError, open_forward
from tacita.server.workers.loop import WorkerLoop
from tacita.server.workers.messages import Log, Order, Setup

LOST = 3  # exit status when the node is no more


def main(words: Sequence[str]) -> int:
    """Serves until the service or the node has gone; the exit status."""
    address, node, cores, share, folder, _ = words
    channel = channel_of(words, Order)
    site = ActorSite(address, node, int(cores), float(share), folder)
    try:
        with ExitStack() as stack:

            def begin(setup: Setup, log: Log) -> Forward:
                ray = stack.enter_context(member(address))
                ignore_signals()  # Ray sets its own
                return open_forward(ray, site, setup, log)

            return WorkerLoop(channel, begin).serve()
    except LostError:
        os._exit(LOST)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
