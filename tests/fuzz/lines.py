"""Which lines inside the functions of a target's modules its corpus runs: `python tests/fuzz/lines.py
TARGET` prints them by module.

Writers and builders share modules with the decoders, so 100 % is not to be had.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "unit")]

import decoders  # noqa: E402

import tacita  # noqa: E402

PACKAGE = Path(tacita.__file__).parent


def main(name: str) -> None:
    ran = lines_run(name)
    parts = []
    for module in decoders.MODULES[name]:
        path = PACKAGE / module
        there = set(_lines(compile(path.read_text(encoding="utf-8"), str(path), "exec")))
        parts.append(f"{module} {len(there & ran[str(path)])} of {len(there)}")
    print(", ".join(parts))


def lines_run(name: str) -> dict[str, set[int]]:
    """File -> lines that ran inside functions while the corpus was replayed."""
    kept = [path.read_bytes() for path in sorted((HERE / "corpus" / name).iterdir())]
    inputs = [*kept, *decoders.seeds(name)]
    ran: dict[str, set[int]] = {str(PACKAGE / module): set() for module in decoders.MODULES[name]}

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        found = ran.get(frame.f_code.co_filename)
        if found is not None:
            found.add(frame.f_lineno)
            return trace
        return None

    sys.settrace(trace)
    try:
        for data in inputs:
            decoders.DECODERS[name](data)
    finally:
        sys.settrace(None)
    return ran


def _lines(code: CodeType) -> Iterator[int]:
    """First lines of the statements in functions; a module's own lines run on import."""
    for const in code.co_consts:
        if isinstance(const, CodeType):
            found = (line for _, _, line in const.co_lines())
            yield from (line for line in found if line is not None and line != const.co_firstlineno)
            yield from _lines(const)


if __name__ == "__main__":
    main(sys.argv[1])
