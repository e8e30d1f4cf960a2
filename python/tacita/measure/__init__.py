"""Measuring the engine of this machine: figures beside the yardstick, and the price table that plans use."""

from tacita.measure.engine import Bench, measure_engine, measure_prices

__all__ = ["Bench", "measure_engine", "measure_prices"]
