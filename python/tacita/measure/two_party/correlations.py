"""Correlated oblivious transfers alone: how many a second a core makes, and what they cost on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacita.measure.two_party.case import Array, Case, Options, Prepared, Report
from tacita.measure.two_party.links import LINKS
from tacita.measure.two_party.report import computed


class Ferret(Case):
    """2^24 transfers with the server as the sender; the session's first, small expansion is set-up.

    The parties of one direction have different work, and each has a core: `cots_per_second` is transfers by the CPU seconds of
    the busier one.
    """

    name = "ferret"

    def count(self, options: Options) -> int:
        """Transfers made in the measured run."""
        return 1 << (12 if options.small else 24)

    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        return Prepared(lambda: party.make_cots(1), lambda: np.array([party.make_cots(self.count(options))]))

    def judge(self, client: Array, server: Array, options: Options) -> dict[str, float]:
        """Nothing to compare (the engine's tests check every transfer): zero when both made as many."""
        return {"max_abs_error": float(np.max(np.abs(client - server)))}

    def finish(self, figures: dict[str, Any], client: Array) -> Mapping[str, Any]:
        made = int(client[0])
        measured = figures["as_measured"]  # everything here is refills
        return {
            **measured,
            **computed(measured, LINKS[figures["link"]]),
            "cots_made": made,
            "cots_per_second": made / max(measured["cpu_seconds"]),
            "bytes_per_cot": 1e6 * measured["megabytes"] / made,
        }
