"""Chemical reactions in SMILES, one a line: texts for the reaction models of `checkpoints/`.

There is no data set of reactions in the package registries, so these are made of ten textbook transformations
and common building blocks ("educts>>product", for an amide "CC(=O)O.NCc1ccccc1>>CC(=O)NCc1ccccc1"). They are
what the model was trained to tell apart, but chemists did not write them down.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import cycle, islice

ARYL = ("c1ccccc1", "c1ccc(C)cc1", "c1ccc(OC)cc1", "c1ccc(F)cc1", "c1ccc(Cl)cc1", "c1cccnc1", "c1ccsc1")
ARYL += ("c1ccc(C#N)cc1", "c1ccc(C(F)(F)F)cc1", "c1ccc2ccccc2c1", "c1ccoc1", "c1cnccn1")
ALKYL = ("C", "CC", "CCC", "CCCC", "CC(C)C", "C1CCCCC1", "C1CCCC1", "C1CC1", "CCOC", "CCN(C)C")
AMINE = ("NCc1ccccc1", "NC1CCCCC1", "N1CCOCC1", "N1CCCCC1", "NCCC", "NCc1ccco1", "NCCOC", "N1CCN(C)CC1")

TRIES = 200  # of the generator for each reaction

Maker = Callable[[random.Random], str]


def _amide(r: random.Random) -> str:
    acid, amine = r.choice(ARYL + ALKYL), r.choice(AMINE)
    return f"O=C(O){acid}.{amine}>>O=C({acid}){amine}"


def _acylation(r: random.Random) -> str:
    acid, amine = r.choice(ARYL + ALKYL), r.choice(AMINE)
    return f"O=C(Cl){acid}.{amine}>>O=C({acid}){amine}"


def _suzuki(r: random.Random) -> str:
    left, right = r.choice(ARYL), r.choice(ARYL)
    return f"Br{left}.OB(O){right}>>{_joined(left, right)}"


def _joined(left: str, right: str) -> str:
    """Two rings: the second one's closure is renumbered."""
    return f"{left[:-1]}1-{right}" if left.endswith("1") else f"{left}-{right}"


def _hydrolysis(r: random.Random) -> str:
    acid = r.choice(ARYL + ALKYL)
    return f"COC(=O){acid}>>O=C(O){acid}"


def _esterification(r: random.Random) -> str:
    acid, alcohol = r.choice(ARYL + ALKYL), r.choice(ALKYL)
    return f"O=C(O){acid}.O{alcohol}>>O=C(O{alcohol}){acid}"


def _deprotection(r: random.Random) -> str:
    rest = r.choice(ALKYL) + r.choice(ARYL)
    return f"CC(C)(C)OC(=O)N{rest}>>N{rest}"


def _protection(r: random.Random) -> str:
    rest = r.choice(ALKYL) + r.choice(ARYL)
    return f"CC(C)(C)OC(=O)OC(=O)OC(C)(C)C.N{rest}>>CC(C)(C)OC(=O)N{rest}"


def _nitro(r: random.Random) -> str:
    ring = r.choice(ARYL)
    return f"O=[N+]([O-]){ring}.[H][H]>>N{ring}"


def _reduction(r: random.Random) -> str:
    ring = r.choice(ARYL)
    return f"O=C{ring}.[BH4-].[Na+]>>OC{ring}"


def _alkylation(r: random.Random) -> str:
    ring, chain = r.choice(ARYL), r.choice(ALKYL)
    return f"O{ring}.Br{chain}.O=C([O-])[O-].[K+].[K+]>>{chain}O{ring}"


MAKERS: tuple[Maker, ...] = (
    *(_amide, _acylation, _suzuki, _hydrolysis, _esterification),
    *(_deprotection, _protection, _nitro, _reduction, _alkylation),
)


def reactions(count: int, seed: int = 1) -> list[str]:
    """So many different ones, all transformations in turn while they have others. Raises ValueError for more
    than there are, about a thousand."""
    r, found = random.Random(seed), dict[str, None]()
    for make in islice(cycle(MAKERS), TRIES * count):
        if len(found) == count:
            return list(found)
        found.setdefault(make(r))
    raise ValueError(f"{count} reactions: these building blocks make {len(found)}")


def masked_reactions(count: int, seed: int = 1) -> list[str]:
    """As `reactions`; in each one, an atom of the product is masked."""
    r = random.Random(seed)
    return [_masked(reaction, r) for reaction in reactions(count, seed)]


def _masked(reaction: str, r: random.Random) -> str:
    atoms = list(re.finditer(r"Br|Cl|[BCNOFSbcnos]", reaction))
    behind = [atom for atom in atoms if atom.start() > reaction.index(">>")]
    atom = r.choice(behind)
    return f"{reaction[: atom.start()]}[MASK]{reaction[atom.end() :]}"
