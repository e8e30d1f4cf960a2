"""The process that evaluates: `python -m tacita.service.workers`, started by `service.dispatch`, asked over
its standard input (docs/decisions/0033)."""
