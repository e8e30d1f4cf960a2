"""Reads the character vectors of an R package's data (`Rdata.rdx`, `Rdata.rdb`) without R.

The index (.rdx) says where each object lies in the database (.rdb), in which an object is four bytes of its
length and a zlib stream. Both hold R's binary serialisation, of which this knows what lists, integers and
strings need.
"""

import gzip
import struct
import zlib
from pathlib import Path

HEADER = 14  # "X\n", three integers of versions
NIL, REFERENCE, SYMBOL, PAIR, TEXT = 254, 255, 1, 2, 9
LOGICALS, INTEGERS, STRINGS, LIST = 10, 13, 16, 19
WITH_ATTRIBUTES, WITH_TAG = 0x200, 0x400


class Stream:
    """One serialised object. Raises ValueError for a kind that it does not know."""

    def __init__(self, data: bytes):
        self.data, self.at, self.symbols = data, HEADER, []
        if data[:2] != b"X\n" or self._peek(2) not in (2, 3):
            raise ValueError("lazyload: not R's binary serialisation")
        if self._peek(2) == 3:  # the name of the encoding follows
            self.at += 4 + self._peek(self.at)

    def _peek(self, at: int) -> int:
        return struct.unpack_from(">i", self.data, at)[0]

    def _integer(self) -> int:
        self.at += 4
        return self._peek(self.at - 4)

    def _text(self) -> str:
        size = self._integer()
        if size < 0:  # R's NA
            return ""
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def value(self):
        """A list, a dictionary (of a list with names), an integer, a string, or None."""
        flags = self._integer()
        kind, attributes = flags & 0xFF, flags & WITH_ATTRIBUTES
        if kind == NIL:
            return None
        if kind == TEXT:
            return self._text()
        if kind == SYMBOL:
            self.symbols.append(self.value())
            return self.symbols[-1]
        if kind == REFERENCE:
            return self.symbols[(flags >> 8) - 1]
        if kind == PAIR:
            return self._pairs(flags)
        found = self._vector(kind)
        names = (self.value() or {}).get("names") if attributes else None
        return dict(zip(names, found, strict=True)) if names else found

    def _pairs(self, flags: int) -> dict:
        """A pair list, tag to value; its rest follows as one more object."""
        if flags & WITH_ATTRIBUTES:
            self.value()
        tag = self.value() if flags & WITH_TAG else ""
        return {tag: self.value(), **(self.value() or {})}

    def _vector(self, kind: int) -> list:
        integer, value = self._integer, self.value
        one = {LOGICALS: integer, INTEGERS: integer, STRINGS: value, LIST: value}.get(kind)
        if one is None:
            raise ValueError(f"lazyload: a value of kind {kind}")
        return [one() for _ in range(self._integer())]


def read(folder: Path) -> dict[str, list[str]]:
    """Every object of `folder`'s data by its name."""
    index = Stream(gzip.decompress((folder / "Rdata.rdx").read_bytes())).value()
    data = (folder / "Rdata.rdb").read_bytes()
    return {
        name: Stream(zlib.decompress(data[start + 4 : start + size])).value()
        for name, (start, size) in index["variables"].items()
    }
