"""Writes the tables of docs/settings.md from the declarations in `tacita.settings`.

python .ci/settings.py            prints them
python .ci/settings.py --write    puts them between the markers of docs/settings.md
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from tacita.cli.options import fields_of, section_of, variable_of
from tacita.settings import Settings

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
BEGIN, END = "<!-- settings: begin -->\n", "<!-- settings: end -->"


def tables() -> str:
    """Returns a heading, a sentence and a list for each section."""
    return "\n".join(line for section in Settings.model_fields for line in _section(section)) + "\n"


def _section(section: str) -> Iterator[str]:
    title, kind = section + ".NAME" * (section == "models"), section_of(section)
    yield from (f"## [{title}]", *_wrapped((kind.__doc__ or "").split(), ""), "")
    inherited = fields_of("plan") if section == "models" else {}
    for name, field in fields_of(section).items():
        if name in inherited:
            continue
        default = field.default
        shown = "" if default in (None, "", ()) else f" Default: {str(default).lower()}."
        variable = "" if section == "models" else f" Variable `{variable_of(section, name)}`."
        words = f"* `{name}`: {field.description}{shown}{variable}"
        yield from _wrapped(words.split(), "  ")
    yield ""


def _wrapped(words: list[str], indent: str, width: int = 110) -> Iterator[str]:
    line = ""
    for word in words:
        if line and len(line) + 1 + len(word) > width:
            yield line
            line = indent + word
        else:
            line = f"{line} {word}" if line else word
    yield line


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--write", action="store_true")
    if not options.parse_args().write:
        print(tables(), end="")
        return
    head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    PAGE.write_text(head + BEGIN + tables() + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
