"""The process that evaluates: `python -m tacita.server.workers`, started by `server.jobs`"""
