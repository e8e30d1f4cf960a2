"""One process of sessions, as its supervisor sees it: how it is started, sent messages and ended."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from tacita.errors import RefusedError
from tacita.server.confined import command, environment
from tacita.server.sessions import control
from tacita.server.sessions.control import Begin, Message, Open
from tacita.server.sessions.spec import SessionSpec

MODULE = "tacita.server.sessions.process"


@dataclass(frozen=True)
class Worker:
    """A process of sessions. line: our end of the control sockets."""

    process: subprocess.Popen[bytes]
    line: socket.socket

    async def hear(self) -> Message | None:
        """Returns its next message; None when it is gone. Raises PeerError for what is no message."""
        try:
            data = await asyncio.get_running_loop().sock_recv(self.line, control.MOST)
        except ConnectionError:
            return None
        return control.decode(data) if data else None

    def say(self, message: Message) -> None:
        """Sends a message. Raises OSError when it is gone, or too busy to read."""
        self.line.send(control.encode(message))

    def hand(self, opening: Open, sock: socket.socket) -> None:
        """Gives it a session's socket, which is closed here. Raises RefusedError when it does not take it."""
        with sock:
            try:
                socket.send_fds(self.line, [control.encode(opening)], [sock.fileno()])
            except OSError:  # gone, or too busy to read
                raise RefusedError(
                    "two-party: the process of the sessions takes none now", hint="try again in a moment"
                ) from None

    async def end(self) -> None:
        """Ends it with all its sessions: there is nothing that it would have to save."""
        self.line.close()
        self.process.kill()
        await asyncio.shield(asyncio.to_thread(self.process.wait))


def start_process(spec: SessionSpec) -> Worker:
    """Starts a process that loads the model. It ends with this thread. Raises OSError."""
    ours, theirs = control.pair()
    try:
        with theirs:
            process = subprocess.Popen(
                command_of(spec, theirs.fileno()),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environment(),
            )
        ours.send(control.encode(_begin(spec)))
    except OSError:
        ours.close()
        raise
    ours.setblocking(False)
    return Worker(process, ours)


def command_of(spec: SessionSpec, line: int) -> Sequence[str]:
    """Returns the command of a process that opens model and plan and no other file of the data folder."""
    return command(MODULE, str(line), hidden=spec.plan.parent, reads=[spec.folder, spec.plan])


def _begin(spec: SessionSpec) -> Begin:
    return Begin(
        parent=os.getpid(),
        folder=str(spec.folder),
        plan=str(spec.plan),
        sha256=spec.sha256,
        threads=spec.threads,
        sessions=spec.sessions,
        bits_per_second=spec.bits_per_second,
        silence=spec.silence,
        pooling=spec.pooling,
    )
