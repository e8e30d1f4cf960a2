"""How fine a step of rounding may be beside the noise of decryption, which depends on the secret key.

With a step of at least `QUIET` times the noise, at most one number in `QUIET` is rounded otherwise than
without noise. That makes the known attacks impractical; it is not IND-CPA-D security.
"""

from __future__ import annotations

MOST = 3  # decimals
QUIET = 2.0**6


def quiet(decimals: int, noise: float) -> bool:
    """Whether answers with this noise may be shown to so many decimals."""
    return 0 <= decimals <= MOST and 10.0**-decimals >= QUIET * noise


def finest(noise: float, decimals: int) -> float:
    """The least step that is quiet, of an answer without decimals to count; not below that of `MOST`
    decimals, nor below that of more `decimals`, which only who measures asks for."""
    return max(QUIET * noise, 10.0 ** -max(decimals, MOST))
