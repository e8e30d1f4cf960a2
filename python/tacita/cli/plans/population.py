"""What a plan says of texts outside its intervals, in words."""

from __future__ import annotations

from collections.abc import Iterator

from tacita.calibrate.excesses import FAR, FEW
from tacita.plans.plan import Plan
from tacita.plans.population import FOLDS, NOT_ESTIMATED, Population

MADE_BY = {
    "held out": "held out (every fifth line)",
    FOLDS: "tested by folds (each fifth against the other four)",
}


def told(plan: Plan) -> Iterator[str]:
    """One line for texts, one for what they do to others in the same request."""
    found = plan.population
    if found.method == NOT_ESTIMATED:
        yield (
            f"texts outside the intervals: not estimated: too few texts (under {FEW}); give more with --texts"
        )
    else:
        yield (
            f"texts outside the intervals: {found.outside} of {found.texts} {MADE_BY[found.method]}: "
            f"{_rates(found.per_text, found.per_text_bound)} of texts; their own answers may be off"
        )
    if plan.batch > 1:
        yield _others(plan, found)


def _others(plan: Plan, found: Population) -> str:
    where = f"a text further than {FAR:g} half-widths out can spoil every answer of its request"
    if found.method == NOT_ESTIMATED:
        return f"requests: {where}; how often is not known"
    rates = _rates(found.per_request, found.per_request_bound)
    return (
        f"requests of {plan.batch} texts: {where}; {found.far} texts did, which makes {rates} of full "
        "requests"
    )


def _rates(expected: float, bound: float) -> str:
    return f"{100 * expected:.2g} %, at most {100 * bound:.2g} % (95 % confidence),"
