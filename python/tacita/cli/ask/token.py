"""Where a command takes its token from: a file, or the environment; never the command line, which others of
the machine can read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from tacita.cli.options import option
from tacita.errors import InputError

VARIABLE = "TACITA_TOKEN"
MOST = 4096  # bytes
TokenFile = Annotated[
    Path | None,
    option(
        "--token-file",
        help=f"With --connect https://...: file that holds the token (default: variable {VARIABLE}).",
    ),
]


def token_of(path: Path | None) -> str | None:
    """The token, or None where nobody gave one. Raises InputError, without what the file holds."""
    if path is None:
        return os.environ.get(VARIABLE, "").strip() or None
    try:
        with path.open("rb") as file:
            token = file.read(MOST + 1).decode("ascii").strip()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})", hint="a file with a token") from None
    except UnicodeDecodeError:
        token = ""
    if not token or len(token) > MOST or not token.isprintable() or " " in token:
        raise InputError(f"{path}: holds no token", hint="one line, as the operator gave it")
    return token
