"""A service that evaluates on Ray's nodes: `tacita serve --https ... --ray` (docs/decisions/0036).

The service itself knows nothing of Ray. Its `node_set` starts a `watcher`, a process that says which nodes
there are, and for each plan at each node a worker process as any other (`__main__`), which hands its jobs on
(`forward`) to an actor on the node (`node`). So what Ray does to a process, it does to one that is
replaced.
"""
