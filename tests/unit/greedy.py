"""The simplest runner: run every stage; when levels run out, bootstrap everything live and run it again.

For tests and comparisons; `planning.place.placement` finds cheaper placements before a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tacita.errors import LevelError
from tacita.slots.base import Backend, Ct, Kind
from tacita.slots.stage import Live, Stage

Inspect = Callable[[str, Live], None]


def run_greedily(
    be: Backend,
    stages: Sequence[Stage],
    live: Live,
    *,
    fixed: frozenset[str] = frozenset(),
    inspect: Inspect = lambda _name, _live: None,
) -> tuple[Live, dict[str, tuple[str, ...]]]:
    """(tensors after the last stage, stage -> tensors bootstrapped before it). fixed: never bootstrapped.

    inspect: called after each stage. Errors: LevelError when a stage does not fit above freshly bootstrapped
    tensors.
    """
    placed: dict[str, tuple[str, ...]] = {}
    complex_names: frozenset[str] = frozenset()
    for stage in stages:
        with be.stage(stage.name):
            try:
                after = stage.run(be, dict(live))
            except LevelError:
                names = tuple(name for name in live if name not in fixed)
                live = live | {name: _refresh(be, live[name], name in complex_names) for name in names}
                placed[stage.name] = names
                after = stage.run(be, dict(live))
        complex_names = (complex_names & frozenset(after)) | stage.complex_outputs
        live = after
        inspect(stage.name, live)
    return live, placed


def _refresh(be: Backend, cts: tuple[Ct, ...], is_complex: bool) -> tuple[Ct, ...]:
    kind: Kind = "complex" if is_complex else "real"
    return tuple(be.bootstrap(cts, [kind] * len(cts)))
