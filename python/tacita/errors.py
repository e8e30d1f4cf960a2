"""The exception tree of the package; every message names the operation, the clashing values and a hint."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class TacitaError(Exception):
    """Base of all errors raised on purpose; the command line prints it as one line and exits with status
    2."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class PrivacyWarning(UserWarning):
    """Nothing is encrypted, and the caller did not name the backend that does so."""


class KeyBudgetWarning(UserWarning):
    """A key has decrypted more answers than a server that chose them may see (`plans.presets`)."""


class InputError(TacitaError):
    """A text, an array or an option outside what the plan admits."""


class CheckpointError(TacitaError):
    """A model folder that cannot be used; names the file and the tensor."""


class PlanError(TacitaError):
    """A plan that cannot be made or does not fit."""


class NoiseError(PlanError):
    """A plan whose answers would be hardly more than noise; names the noise."""


class ResourceError(PlanError):
    """Too little memory or disk: what a run needs is checked before it starts, and a disk that fills up is
    told during it."""


class FileError(TacitaError):
    """A file that fails its checks; names the path, what was expected and what was found."""


class PeerError(TacitaError):
    """The other party cannot be reached, cannot be trusted, broke off or sent what the protocol does not
    admit."""


class LateError(PeerError):
    """The other party was silent for too long, or took longer than it may in all."""


class GoneError(PeerError):
    """The other party closed the connection."""


class RefusedError(PeerError):
    """The server refused in due form; reason is one of `tacita.two_party.protocol.refusal.Reason`, 0 for one
    that is not known here.
    """

    def __init__(self, message: str, *, hint: str = "", reason: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class LevelError(TacitaError):
    """An operation needs more levels than are left; names the operation, the level and the need."""


class KeyMissingError(TacitaError):
    """A rotation has no key; names the steps that the plan must add."""


class ShapeError(TacitaError):
    """Operands whose shapes do not fit; names both."""


def nearest(name: str, names: Iterable[str]) -> str:
    """Returns a hint for a name that there is not: the nearest one, or all of them.

    >>> nearest("thorn", ("thor", "leaf")), nearest("x", ("thor", "leaf"))
    ('did you mean thor? one of thor, leaf', 'one of thor, leaf')
    """
    known = list(names)
    near = get_close_matches(name, known, 1)
    return (f"did you mean {near[0]}? " if near else "") + f"one of {', '.join(known)}"


def require_keywords(names: Iterable[str], known: Iterable[str], function: str = "") -> None:
    """Raises TypeError for the first name that is no keyword of a function, with the nearest one."""
    allowed = sorted(known)
    for name in names:
        if name not in allowed:
            raise TypeError(
                f"{function}{': ' if function else ''}no keyword {name!r}: {nearest(name, allowed)}"
            )
