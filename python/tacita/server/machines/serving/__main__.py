"""`python -m tacita.server.machines.serving ADDRESS NODE CORES SHARE FOLDER`: the service's worker for a plan
at a node of Ray's, started by `node_set`, and by nobody else."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from tacita.errors import PeerError
from tacita.server.child import die_with_parent, ignore_signals
from tacita.server.machines.connect import member
from tacita.server.machines.serving.forward import ActorSite, Forward, LostError, open_forward
from tacita.server.workers.loop import BAD, WorkerLoop
from tacita.server.workers.messages import Log, Setup, take_standard

LOST = 3  # exit status when the node is no more


def main(words: Sequence[str]) -> int:
    """Serves until the service or the node has gone; the exit status."""
    die_with_parent()
    ignore_signals()
    address, node, cores, share, folder = words
    site = ActorSite(address, node, int(cores), float(share), folder)
    try:
        with ExitStack() as stack:
            channel = take_standard()

            def begin(setup: Setup, log: Log) -> Forward:
                ray = stack.enter_context(member(address))
                ignore_signals()  # Ray sets its own
                return open_forward(ray, site, setup, log)

            return WorkerLoop(channel, begin).serve()
    except BrokenPipeError:  # nobody listens any more
        os._exit(0)
    except LostError:
        os._exit(LOST)
    except PeerError:
        return BAD


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
