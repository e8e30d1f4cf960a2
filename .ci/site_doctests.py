"""Puts the examples of docstrings into code blocks, for the site (an extension of griffe, mkdocs.yml).

>>> print(fenced("Adds.\\n\\n>>> 1 + 1\\n2\\n\\nMore."))
Adds.
<BLANKLINE>
```pycon
>>> 1 + 1
2
```
<BLANKLINE>
More.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^[ ]*>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


def fenced(text: str) -> str:
    """A docstring whose examples are Markdown's code blocks. An example ends at an empty line."""
    return EXAMPLE.sub(lambda match: f"```pycon\n{match.group()}\n```", text)


class Doctests(griffe.Extension):
    """Changes the docstrings that the site shows, and none of the package."""

    def on_object(self, *, obj: griffe.Object, **more: Any) -> None:
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
