"""The laboratory: everything that is measured of the package, which does not ship with it.

From the repository's root, with `tacita` installed:

    python -m bench --help

`kernels/` has the engine and the protocols piece by piece, `runs/` whole runs (one harness: model, scheme and
backend to a row of JSON), `models/` what is run (converters of published checkpoints, shapes, made-up texts),
`tables/` what is computed without a run, and the tables of documents. Some hold the secret key beside the
evaluator, to decrypt what lies between the layers: research, never the product's way.
"""
