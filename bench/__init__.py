"""The laboratory: benches of the engine, of whole runs, of two parties and of a service, with their figures.

It measures the package and does not ship with it. From the repository's root, with `tacita` installed:

    python -m bench --help
"""
