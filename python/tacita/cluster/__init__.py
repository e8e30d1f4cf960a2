"""Encrypted requests spread over machines by Ray: one client, many evaluators (docs/decisions/0036).

A run, in the order of the files: `where` says which machines, `connect` starts or finds Ray there, `predict`
says what the run will take, `actors` start an `evaluator` on each node, `flight` keeps requests on their way,
`spread` is the client's side of it, and `many` the call in one line. Ray is imported in `connect` alone.
"""
