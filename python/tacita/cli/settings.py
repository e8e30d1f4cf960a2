"""Reads settings from their sources: a command line comes before the environment, that before a file.

>>> with tempfile.TemporaryDirectory() as folder:
...     file = Path(folder) / "tacita.toml"
...     _ = file.write_text("[plan]\\ntokens = 64\\npreset = 'leveled'\\n")
...     plan = read_settings(file, {"plan": {"tokens": 32}}).plan
>>> plan.tokens, plan.preset
(32, 'leveled')
"""

from __future__ import annotations

import os
import tempfile  # noqa: F401 -- for the example
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import SettingsConfigDict

from tacita.errors import FileError, InputError
from tacita.settings import DELIMITER, FILE, PREFIX, Keys, Settings, fields_of, flag_of

SHOWN = 60  # characters of a value in an error
Line = Mapping[str, Mapping[str, object]]  # values of a command line, by section and key


def read_settings(file: Path | None = None, line: Line | None = None) -> Settings:
    """Reads the settings. file: a tacita.toml. line: values of a command line, by section and key.

    Raises FileError for a file that cannot be read, InputError for a key that there is not and for a value
    that its check refuses, both with the key's place; a value of a key that there is not is not repeated.
    """

    class Here(Settings):
        model_config = SettingsConfigDict(toml_file=file)

    try:
        if file is not None:
            file.open("rb").close()  # a file that is not there would be passed over
        _require_sections()
        return Here(**(line or {}))  # type: ignore[arg-type]  # which it reads into sections
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{file}: cannot be read as settings ({error})", hint="docs/settings.md") from error
    except ValidationError as error:
        raise _explained(error.errors()[0], file, line or {}) from None


def variable_of(section: str, name: str) -> str:
    """Returns the environment variable of a key.

    >>> variable_of("plan", "tokens")
    'TACITA_PLAN__TOKENS'
    """
    return f"{PREFIX}{section}{DELIMITER}{name}".upper()


def variables(settings: Line) -> dict[str, str]:
    """Returns the environment variables that give these values, as of a process that is started.

    >>> variables({"service": {"drain": 0, "proxy": ("10.0.0.1", "10.0.0.2")}})
    {'TACITA_SERVICE__DRAIN': '0', 'TACITA_SERVICE__PROXY': '10.0.0.1,10.0.0.2'}
    """
    return {
        variable_of(section, name): ",".join(value) if isinstance(value, tuple) else str(value)
        for section, values in settings.items()
        for name, value in values.items()
    }


def _require_sections() -> None:
    """Raises InputError for a variable of a section that there is not."""
    for name in os.environ:
        section, delimiter, _ = name.upper().removeprefix(PREFIX).partition(DELIMITER)
        if delimiter and name.upper().startswith(PREFIX) and section.lower() not in Settings.model_fields:
            raise InputError(f"{name}: no such setting", hint=_near(section.lower(), Settings.model_fields))


def _explained(problem: Mapping[str, Any], file: Path | None, line: Line) -> InputError:
    """Turns the first problem that pydantic found into an error with the key's place."""
    section, name, *_ = (*map(str, problem["loc"]), "", "")
    place = _place(section, name, file, line)
    if problem["type"] == "extra_forbidden":
        known = fields_of(section) if name else Settings.model_fields
        return InputError(f"{place}: no such setting", hint=_near(name or section, known))
    value = f"{str(problem['input'])!r:.{SHOWN}}"
    return InputError(f"{place}: {value}: {problem['msg']}", hint="docs/settings.md")


def _place(section: str, name: str, file: Path | None, line: Line) -> str:
    if name in line.get(section, {}):
        return flag_of(name, fields_of(section)[name])
    if name and (variable := variable_of(section, name)) in {each.upper() for each in os.environ}:
        return variable
    return f"{file}: [{section}] {name}".rstrip()


def _near(name: str, known: Mapping[str, object]) -> str:
    near = get_close_matches(name, known, 1)
    return f"did you mean {near[0]}?" if near else f"one of {', '.join(sorted(known))}"


def place_of(flag: str, keys: Keys) -> str | None:
    """Says where an option went that is one of these keys by section; None for any other."""
    for section, names in keys.items():
        for name in names:
            if flag_of(name, fields_of(section)[name]) == flag:
                variable = variable_of(section, name)
                return f"{flag} is now [{section}] {name} in {FILE}, or the variable {variable}"
    return None
