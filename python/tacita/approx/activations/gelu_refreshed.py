"""GELU computed by the bootstrap of its argument: see `refreshed`."""

from __future__ import annotations

from tacita.approx.activations.gelu import exact
from tacita.approx.activations.refreshed import WIDE as WIDE
from tacita.approx.activations.refreshed import Refreshed

fit = Refreshed("gelu", exact).fit
