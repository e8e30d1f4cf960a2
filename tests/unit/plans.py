"""Real plans of tiny models, made in a second: what a reader must accept, and what tests then alter."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import tiny

from tacita.api import plan as make_plan
from tacita.checkpoint import Checkpoint
from tacita.planning.request import PlanRequest
from tacita.plans.json_fields import from_json
from tacita.plans.plan import FORMAT, VERSION, Plan

TOKENS = 8


@lru_cache
def model() -> Checkpoint:
    """One layer of 16 features, with a pooler and two labels; it starts from hidden states."""
    return tiny.checkpoint()


@lru_cache
def real_plan(scheme: str = "thor", preset: str = "insecure_toy_n10", packing: str | None = None) -> Plan:
    """Calibrated on three inputs."""
    samples = tuple(tiny.inputs(model(), TOKENS, real, seed) for seed, real in enumerate((8, 5, 8)))
    request = PlanRequest(preset=preset, tokens=TOKENS, scheme=scheme, packing=packing, hidden_states=samples)
    return make_plan(model(), request)


def altered(plan: Plan, change: Callable[[Any], None]) -> str:
    """The plan's file after a change of its JSON data, with the hash of what it then says: as a hostile party
    writes it."""
    data = json.loads(plan.to_text())
    change(data)
    return rehashed(data)


def rehashed(data: Any) -> str:
    """The text with the hash that a reader computes, where the data is a plan at all."""
    fields = {name: value for name, value in data.items() if name not in ("format", "version", "hash")}
    try:
        digest = from_json(Plan, fields).hash
    except Exception:  # a reader refuses it before it comes to the hash
        digest = ""
    return json.dumps({"format": FORMAT, "version": VERSION, **data, "hash": digest})
