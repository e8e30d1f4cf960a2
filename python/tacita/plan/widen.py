"""How far an observed interval is widened by a margin, and rounded outwards: what a plan publishes."""

from __future__ import annotations

import math

import numpy as np

from tacita.plan.outwards import Interval, outwards


def signed(interval: Interval, margin: float, fall: float = 0.0) -> Interval:
    """By margin times its width on each side. fall: margins of the widened interval that the lower end falls besides."""
    lo, hi = interval
    pad = margin * max(hi - lo, np.finfo(np.float64).eps)
    return outwards((lo - pad - fall * margin * (hi - lo + 2.0 * pad), hi + pad))


def positive(interval: Interval, margin: float, rise: float = 0.0) -> Interval:
    """By a factor, as `plan.calibrate` says; both ends above 0. rise: margins, in nats, that the upper end rises besides."""
    lo, hi = interval
    factor = math.exp(margin * min(max(2.0, math.log(hi / lo)), 6.0))
    return outwards((lo / factor, hi * factor * math.exp(rise * margin)))
