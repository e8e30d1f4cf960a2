"""Code that no command or API call reaches is not a feature: every module of the package, and of
the benches, hangs on one of them."""

from __future__ import annotations

import grimp

ENTRIES = ("tacita", "tacita.__main__", "tacita.cli", "bench", "bench.__main__")
# Why a module may stand alone.
ALONE = {
    "tacita.blocks.conformance": "exported suite of interpreters",
    "tacita.packings.conformance": "exported suite of packings",
    "tacita.slots.conformance": "exported suite of backends",
    "bench.models.family_vectors": "`bench family-vectors` runs it under another Python",
    "tacita.server.jobs.worker": "the service starts it as a process that evaluates",
    "tacita.server.machines.forward": "the service starts it as a process that hands on to a node",
    "tacita.server.sessions.process": "the service starts it as a process of sessions",
}


def test_every_module_is_reached() -> None:
    graph = grimp.build_graph("tacita", "bench")
    seen, waiting = set[str](), [*ENTRIES, *ALONE]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        waiting += graph.find_modules_directly_imported_by(name)
        waiting += [name.rpartition(".")[0]] if "." in name else []
        waiting += graph.find_descendants(name) if name in ALONE else []
    assert sorted(graph.modules - seen) == []


def test_what_stands_alone_is_still_there() -> None:
    assert graph_has(ALONE)


def graph_has(names: dict[str, str]) -> bool:
    return set(names) <= set(grimp.build_graph("tacita", "bench").modules)
