"""Runs the notebooks of `examples/notebooks`, in order of their cells, without Jupyter.

    python .ci/notebooks.py            runs each; an error of a cell ends it
    python .ci/notebooks.py --write    and stores what the cells print and return in the files

A cell is compiled as Python compiles a module. What its last expression returns is shown as Jupyter shows it:
by `_repr_html_` and by repr. Run it where `tacita models fetch minilm` and the folder of
docs/guides/guard-prompts.md, as the model nanoguard, are at hand.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebooks"


def main() -> int:
    """Runs all of them. Returns 0; an error of a cell is raised."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        run(notebook, str(path))
        if "--write" in sys.argv:
            path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(path.name)
    return 0


def run(notebook: dict[str, Any], name: str) -> dict[str, Any]:
    """Runs the cells of a notebook, whose outputs become those of this run. Returns the names that they
    defined.

    >>> cell = {"cell_type": "code", "source": ["x = 3\\n", "print(x)\\n", "x + 1"]}
    >>> run({"cells": [cell]}, "three")["x"]
    3
    >>> [output.get("text") or output["data"]["text/plain"] for output in cell["outputs"]]
    [['3\\n'], ['4']]
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, cell in enumerate(cells, 1):
        cell["execution_count"], cell["outputs"] = (
            count,
            _run_cell("".join(cell["source"]), names, name, count),
        )
    return names


def _run_cell(source: str, names: dict[str, Any], name: str, count: int) -> list[dict[str, Any]]:
    tree, screen, value = ast.parse(source), io.StringIO(), None
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(screen):
        exec(compile(tree, name, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
    text = screen.getvalue().splitlines(keepends=True)
    outputs: list[dict[str, Any]] = (
        [{"name": "stdout", "output_type": "stream", "text": text}] if text else []
    )
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if (html := getattr(value, "_repr_html_", lambda: None)()) is not None:
            data["text/html"] = html.splitlines(keepends=True)
        shown = {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data}
        outputs.append(shown)
    return outputs


if __name__ == "__main__":
    sys.exit(main())
