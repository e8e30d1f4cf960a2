"""Measuring the engine of this machine: figures beside the yardstick, and the price table that plans use."""

from tacita.measure.engine import measure_engine

__all__ = ["measure_engine"]
