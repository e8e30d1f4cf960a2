"""What a plan says about how often texts leave its intervals. How that is measured: see `excesses`."""

from __future__ import annotations

from dataclasses import dataclass

HELD_OUT, FOLDS, NOT_ESTIMATED = "held out", "folds", "not estimated"


@dataclass(frozen=True)
class Population:
    """method: "held out", "folds" or "not estimated". texts: tested. outside, far: how many of them left an
    interval, or left it far. per_text: share of texts outside; per_request: expected share of requests in
    which some text may spoil the answers of others, and for one text a request the same as per_text. The
    bounds hold with 95 % confidence (Clopper-Pearson; for folds about).
    """

    method: str
    texts: int
    outside: int
    far: int
    per_text: float
    per_text_bound: float
    per_request: float
    per_request_bound: float


UNKNOWN = Population(NOT_ESTIMATED, 0, 0, 0, 0.0, 1.0, 0.0, 1.0)
