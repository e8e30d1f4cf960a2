"""Shows the help of commands in panels: of each option its first sentence, and with --help-all the rest.

>>> brief("Cores to use. A thread waits for none other (default: all).")
'Cores to use (default: all).'

A flag shows no type. Commands of the panel Expert are listed by name alone, until --help-all is asked for.
"""

from __future__ import annotations

import re
from copy import copy
from typing import Any

from typer.core import TyperCommand, TyperGroup, TyperOption

from tacita.settings import EXPERT, PANELS

ALL = "--help-all"
SENTENCE = re.compile(r"(?<=[.)])\s+(?=[A-Z`-]|\w+[:,] )")  # where the next begins, or what a value means
DEFAULT = re.compile(r"\s*\(default: [^()]*(?:\([^()]*\)[^()]*)*\)\.?$")


def brief(text: str) -> str:
    """Returns the first sentence of an option's help, and its default."""
    default = DEFAULT.search(text)
    sentence = SENTENCE.split(DEFAULT.sub("", text))[0].removesuffix(".")
    return f"{sentence}{default.group().removesuffix('.') if default else ''}."


class Command(TyperCommand):
    """A command with brief help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Takes --help-all for --help, of which it says more."""
        return super().parse_args(ctx, _with_all(ctx, args, args))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super(Command, _shortened(self, ctx)).format_help(ctx, formatter)


class Group(TyperGroup):
    """A command of commands with brief help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Takes --help-all for --help, of which it says more, where it stands before a command."""
        return super().parse_args(ctx, _with_all(ctx, args, args[:1]))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super(Group, _shortened(self, ctx)).format_help(ctx, formatter)


def _place(option: Any) -> int:
    """Returns the number of an option's panel; options without one come first."""
    return PANELS.index(option.rich_help_panel) if option.rich_help_panel in PANELS else -1


def _with_all(ctx: Any, args: list[str], places: list[str]) -> list[str]:
    ctx.meta[ALL] = ALL in places
    return ["--help"] if ALL in places else args


def _shortened(command: Any, ctx: Any) -> Any:
    """Returns a copy whose options say their first sentence alone, unless all was asked for."""
    whole, result = ctx.meta.get(ALL), copy(command)
    ours = [copy(each) for each in command.get_params(ctx)]
    result.params, result.add_help_option = sorted(ours, key=_place), False
    for each in ours:
        if isinstance(each, TyperOption) and each.is_flag:
            each.metavar, each.secondary_opts = "", each.secondary_opts if whole else []
        if isinstance(each, TyperOption) and each.help and not whole:
            each.help = brief(each.help)
        each.hidden = getattr(each, "hidden", False) or (not whole and "completion" in (each.name or ""))
    if whole:
        return result
    more = [f"Options in full: {ctx.command_path} {ALL}."]
    if isinstance(command, TyperGroup):
        panels = {name: getattr(each, "rich_help_panel", "") for name, each in command.commands.items()}
        expert = [name for name, panel in panels.items() if panel == EXPERT]
        result.commands = {name: each for name, each in command.commands.items() if name not in expert}
        more = [f"For experts: {', '.join(expert)}."] * bool(expert) + more
    result.epilog = " ".join(more)
    return result
