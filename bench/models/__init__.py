"""Models to measure: shapes with random weights, converters of published checkpoints, made-up texts."""
