"""Every scheme by name, in the order of `plans.scheme.NAMES`, from which commands take their lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacita.errors import InputError, nearest
from tacita.plans.scheme import BUMBLEBEE, NAMES, SCHEMES
from tacita.schemes.base import Scheme
from tacita.schemes.ciphertexts import Ciphertexts
from tacita.schemes.two_parties import TwoParties

REGISTRY: Mapping[str, Scheme[Any]] = {
    **{name: Ciphertexts(name) for name in SCHEMES},
    BUMBLEBEE: TwoParties(),
}


def scheme_of(name: str) -> Scheme[Any]:
    """Raises InputError for an unknown name."""
    if name not in REGISTRY:
        raise InputError(f"no scheme {name!r}", hint=nearest(name, NAMES))
    return REGISTRY[name]
