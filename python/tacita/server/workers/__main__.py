"""`python -m tacita.server.workers`: started by `server.jobs`, and by nobody else."""

from __future__ import annotations

import os
import sys

from tacita.errors import PeerError
from tacita.server.child import die_with_parent, ignore_signals
from tacita.server.workers.loop import BAD, WorkerLoop
from tacita.server.workers.messages import take_standard


def main() -> int:
    """Serves until the service has gone; the exit status."""
    die_with_parent()
    ignore_signals()
    try:
        return WorkerLoop(take_standard()).serve()
    except BrokenPipeError:  # nobody listens any more
        os._exit(0)
    except PeerError:
        return BAD


if __name__ == "__main__":
    sys.exit(main())
