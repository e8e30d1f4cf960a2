"""What was computed from an object, kept while that object is there.

`functools.lru_cache` keeps its arguments: tables of linear maps kept the maps themselves, and so the circuits
that planning had tried, 2 GB of them for BERT-base.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import TypeVar
from weakref import WeakKeyDictionary

Of = TypeVar("Of")
Result = TypeVar("Result")


def kept_with(most: int) -> Callable[[Callable[[Of], Result]], Callable[[Of], Result]]:
    """A function of one object, computed once for each of the last `most` objects that are there.

    >>> class Map:
    ...     size = 3
    >>> squared = kept_with(2)(lambda of: of.size**2)
    >>> squared(Map())
    9
    """

    def keeping(compute: Callable[[Of], Result]) -> Callable[[Of], Result]:
        found: WeakKeyDictionary[Of, Result] = WeakKeyDictionary()
        lock = Lock()

        @wraps(compute)
        def looked_up(of: Of) -> Result:
            with lock:
                if of in found:
                    return found[of]
            result = compute(of)
            with lock:
                while len(found) >= most:
                    del found[next(iter(found.keys()))]
                found[of] = result
            return result

        return looked_up

    return keeping
