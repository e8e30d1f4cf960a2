"""Cost of the known lattice attacks on the parameters in inputs.json, by the public lattice estimator.

    python -m bench lattice --python SAGE/bin/python --estimator DIR                 every row, into outputs/
    python -m bench lattice --python SAGE/bin/python --estimator DIR --row to_sparse --attack usvp

DIR is a checkout of github.com/malb/lattice-estimator (Albrecht, Player, Scott, ePrint 2015/046) at the
commit that inputs.json names; another one is refused, since figures move between versions. SAGE is an
environment with Sage: see README.md. A dense row takes seconds, a sparse one minutes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
INPUTS: dict[str, Any] = json.loads((HERE / "inputs.json").read_text())
Attack = Callable[[Any], Any]


def check_version(folder: Path) -> None:
    """Exits unless `folder` is a clean checkout of the pinned commit."""

    def git(*command: str) -> str:
        return subprocess.check_output(["git", "-C", str(folder), *command], text=True).strip()

    commit, changes = git("rev-parse", "HEAD"), git("status", "--porcelain", "-uno")
    if commit != INPUTS["estimator"] or changes:
        state = "with changes" if changes else "unchanged"
        sys.exit(f"{folder} is at {commit}, {state}; git checkout {INPUTS['estimator']}")


def problem(row: dict[str, Any]) -> Any:
    """The estimator's learning-with-errors instance of a row. As many samples as an attacker may want."""
    from estimator import LWE, ND

    n, weight = 1 << row["log2_n"], row["weight"]
    secret = ND.Uniform(-1, 1) if weight is None else ND.SparseTernary(weight // 2, weight - weight // 2, n)
    modulus = int(2 ** (row["log2_q"] % 1) * 2**52) << int(row["log2_q"]) >> 52
    return LWE.Parameters(n=n, q=modulus, Xs=secret, Xe=ND.DiscreteGaussian(INPUTS["sigma"]))


def attacks() -> dict[str, Attack]:
    """Returns them by name, with the estimator's default models: MATZOV's costs, geometric series."""
    from estimator import LWE
    from estimator.lwe_dual import dual_hybrid

    return {
        "usvp": LWE.primal_usvp,
        "bdd": LWE.primal_bdd,
        "drop_and_solve": drop_and_solve,
        "bdd_hybrid": lambda p: primal_hybrid(p, mitm=False, babai=False),
        "bdd_mitm_hybrid": lambda p: primal_hybrid(p, mitm=True, babai=True),
        "dual_matzov": LWE.dual_hybrid,
        "dual_hybrid": dual_hybrid,
        "dual_mitm_hybrid": lambda p: dual_hybrid(p, mitm_optimization=True),
    }


def grid(params: Any) -> range:
    """Coordinates that are not guessed: 20 to 60 for each bit of the modulus. The estimator's own search over
    all numbers begins with nothing guessed, where reduction fails or costs hours."""
    bits = int(params.q).bit_length() - 1
    return range(20 * bits, 60 * bits + 1, 5 * bits)


def drop_and_solve(params: Any) -> Any:
    """Guess that all but `kept` coordinates hold few nonzeros, reduce the rest, repeat: the best of the
    grid."""
    from estimator import LWE
    from estimator.lwe_guess import guess_composition

    def cost(kept: int) -> Any:
        guessed = params.n - kept
        repeat, _, _, _ = guess_composition.gammaf(params.n, params.Xs.hamming_weight, guessed, 2)
        found = LWE.primal_usvp(params.updated(n=kept)).repeat(repeat)
        found["zeta"] = guessed
        return found

    return min((cost(kept) for kept in grid(params)), key=lambda c: c["rop"])


def primal_hybrid(params: Any, **how: bool) -> Any:
    """Guess part of the secret, find a close vector in the lattice of the rest: the best of the grid."""
    from estimator import LWE

    found = (LWE.primal_hybrid(params, zeta=params.n - kept, **how) for kept in grid(params))
    return min(found, key=lambda c: c["rop"])


def estimate(row: dict[str, Any], attack: str) -> str:
    """One line: the attack's name, log2 of its operations, the estimator's own description."""
    cost = attacks()[attack](problem(row))
    bits = float(cost["rop"].log(2)) if hasattr(cost["rop"], "log") else float("inf")
    return f"{attack:17s} 2^{bits:6.1f}   {cost!r}"


def write(name: str, row: dict[str, Any], fresh: dict[str, str]) -> None:
    """Writes outputs/NAME.txt: versions, input, costs. Lines of attacks that were not run again stay."""
    weight, sigma = row["weight"], INPUTS["sigma"]
    head = [
        f"# {name}: {row['what']}",
        f"# estimator {INPUTS['estimator']}, passagemath-standard {metadata.version('passagemath-standard')}",
        f"# n = 2^{row['log2_n']}, log2 q = {row['log2_q']}, weight {weight}, sigma {sigma}",
    ]
    path = HERE / "outputs" / f"{name}.txt"
    old = path.read_text().splitlines() if path.exists() else []
    kept = {line.split()[0]: line for line in old[3:]} if old[:3] == head else {}
    lines = [(kept | fresh)[attack] for attack in INPUTS["attacks"][row["attacks"]] if attack in kept | fresh]
    path.write_text("\n".join([*head, *lines]) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--estimator", type=Path, required=True)
    parser.add_argument("--row", choices=list(INPUTS["rows"]), help="one row instead of all")
    parser.add_argument("--attack", help="one attack instead of all of the row")
    options = parser.parse_args()
    check_version(options.estimator)
    sys.path.insert(0, str(options.estimator))
    for name, row in INPUTS["rows"].items():
        listed = INPUTS["attacks"][row["attacks"]]
        wanted = [attack for attack in listed if options.attack in (None, attack)]
        for attack in wanted if options.row in (None, name) else []:
            line = estimate(row, attack)
            print(f"{name}: {line}", flush=True)
            write(name, row, {attack: line})


if __name__ == "__main__":
    main()
