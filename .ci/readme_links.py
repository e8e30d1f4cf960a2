"""Makes the links of README.md absolute: on PyPI there is no repository beside it.

python .ci/readme_links.py    rewrites README.md, in a checkout of which a release is built (RELEASING.md)
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(\]\(|\b(?:src|srcset|href)=\")(?!https?:|mailto:|#)([^)\"\s]+)")


def absolute(text: str, source: str, tag: str) -> str:
    """Returns the text with links into the repository at a tag; pictures as files.

    >>> absolute("[a](docs/a.md#b) ![c](c.svg) [d](https://d.org) [e](#e)", "https://x.org/t", "v1")
    '[a](https://x.org/t/blob/v1/docs/a.md#b) ![c](https://x.org/t/raw/v1/c.svg) [d](https://d.org) [e](#e)'
    """

    def link(match: re.Match[str]) -> str:
        kind = "raw" if match[2].endswith((".svg", ".png", ".gif")) else "blob"
        return f"{match[1]}{source}/{kind}/{tag}/{match[2]}"

    return LINK.sub(link, text)


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    readme = ROOT / project["readme"]
    text = absolute(readme.read_text(encoding="utf-8"), project["urls"]["Source"], f"v{project['version']}")
    readme.write_text(text, encoding="utf-8")
