"""Cases for `bench.runs.two_party` without the engine: parties that exchange bytes over a socket and count
them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import numpy as np

from bench.runs.two_party.cases.case import Array, Case, Options, Prepared, Report, decode, errors, mine
from bench.runs.two_party.cost import Cost, Reading
from tacita.errors import InputError

LENGTH = 100
REFILLS = {"prepare/cot": Cost(0.5, 0.25, 1000, 3000, 1, 1)}  # of a session: 2,000 COTs


class Party:
    """Sends and receives arrays."""

    def __init__(self, connection: Connection, *, client: bool) -> None:
        self.is_client, self.connection = client, connection
        self.sent = self.received = self.rounds = self.used = 0

    def exchange(self, values: Array) -> Array:
        self.connection.send_bytes(values.tobytes())
        data = self.connection.recv_bytes()
        self.sent, self.received, self.rounds = (
            self.sent + values.nbytes,
            self.received + len(data),
            self.rounds + 1,
        )
        return np.frombuffer(data, values.dtype)


class FakeSession:
    def __init__(self, connection: Connection, *, client: bool) -> None:
        self.party = Party(connection, client=client)

    def set_up(self) -> None:
        self.party.exchange(np.zeros(1000, np.uint8))

    def meet(self) -> None:
        self.party.connection.send_bytes(b"here")
        assert self.party.connection.recv_bytes() == b"here"

    def read(self) -> Reading:
        p = self.party
        operations = REFILLS | {"swap": Cost(0.001, 0.001, p.sent, p.received, p.rounds, p.rounds)}
        return Reading(p.sent, p.received, p.rounds, 2000, p.used, operations)

    def close(self) -> None:
        self.party.connection.close()


class Swap(Case):
    """Both parties learn the sum of their shares; uses 500 COTs."""

    name = "swap"

    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        share = mine(self.rng("inputs").standard_normal(LENGTH), self.rng("shares"), client=party.is_client)

        def run() -> Array:
            party.used += 500
            report("run", 0.5)
            return np.asarray(share + party.exchange(share))

        return Prepared(
            lambda: party.exchange(share[:1]),
            run,
            {"pid": os.getpid(), "cores": sorted(os.sched_getaffinity(0))},
        )

    def judge(self, client: Array, server: Array, options: Options) -> dict[str, float]:
        assert np.array_equal(client, server)
        return errors(decode(client), self.rng("inputs").standard_normal(LENGTH))

    def listen(self, options: Options, announce: Callable[[int, str], None]) -> FakeSession:
        with Listener(("127.0.0.1", 0)) as listener:
            announce(listener.address[1], "")
            return FakeSession(listener.accept(), client=False)

    def connect(self, options: Options, port: int, certificate: str) -> FakeSession:
        return FakeSession(Client(("127.0.0.1", port)), client=True)


class Failing(Swap):
    """The server refuses while the client waits."""

    name = "failing"

    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        if not party.is_client:
            raise InputError("the weights are not there", hint="look for them")
        return super().prepare(party, options, report)


class Crashing(Swap):
    """The client's process ends without a word of its own."""

    name = "crashing"

    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        if party.is_client:
            print("Killed by a test", file=__import__("sys").stderr, flush=True)
            os._exit(9)
        return super().prepare(party, options, report)


class Endless(Swap):
    """Runs until it is ended from outside; says its process number in a file."""

    name = "endless"

    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        def run() -> Array:
            folder = os.environ["TACITA_TEST_FOLDER"]
            with open(os.path.join(folder, f"{'client' if party.is_client else 'server'}.pid"), "w") as file:
                file.write(str(os.getpid()))
            while True:
                time.sleep(0.05)

        return Prepared(lambda: None, run)


class Absent(Swap):
    """Cannot run on any machine."""

    name = "absent"

    def available(self, options: Options) -> str:
        return "there is no such model here"


CASES = {case.name: case for case in (Swap(), Failing(), Crashing(), Endless(), Absent())}
