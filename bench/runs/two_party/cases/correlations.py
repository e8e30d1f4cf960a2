"""Correlated oblivious transfers alone: how many a second a core makes, and what they cost on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bench.runs.two_party.cases.case import Array, Case, Options, Prepared, Report
from bench.runs.two_party.links import LINKS
from bench.runs.two_party.report import computed


class Ferret(Case):
    """2^24 transfers with the server as the sender, taken as the protocols of a session take them; its first
    expansion is set-up.

    The parties of one direction have different work, and each has a core: `session_cots_per_second` is
    transfers by the CPU seconds of the busier one. After the run both parties show further transfers of the
    same pool: `max_abs_error` is how many were wrong.
    """

    name = "ferret"

    def count(self, options: Options) -> int:
        """Transfers taken in the measured run."""
        return 1 << (20 if options.small else 24)

    def checked(self, options: Options) -> int:
        """Transfers shown after it."""
        return 1 << (12 if options.small else 20)

    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        return Prepared(
            warm=lambda: party.take_cots(1),
            run=lambda: np.array([party.take_cots(self.count(options))]),
            check=lambda made: np.array([made[0], party.wrong_cots(self.checked(options))]),
        )

    def judge(self, client: Array, server: Array, options: Options) -> dict[str, float]:
        """Wrong transfers, as each party counted; and both must have made as many."""
        return {"max_abs_error": float(max(client[1], server[1], abs(int(client[0]) - int(server[0]))))}

    def finish(self, figures: dict[str, Any], client: Array) -> Mapping[str, Any]:
        made = int(client[0])
        measured = figures["as_measured"]  # everything here is refills
        return {
            **measured,
            **computed(measured, LINKS[figures["link"]]),
            "cots_made": made,
            "session_cots_per_second": made / max(measured["cpu_seconds"]),
            "bytes_per_cot": 1e6 * measured["megabytes"] / max(made, 1),
        }
