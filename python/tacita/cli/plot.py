"""Draws charts as SVG files: in the colours of the reader's screen, light or dark, with words for who cannot
see them.

>>> chart = bars("Seconds by stage", [("layer0", {"bootstraps": 2.0, "products": 1.0})], "s", "One stage.")
>>> chart.count('class="k0"'), "<desc>One stage.</desc>" in chart
(2, True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

WIDTH, ROW, MARGIN, TEXT = 760, 22, 16, 13
LABELS, VALUES = 210, 70  # widths of what stands left and right of bars
HEIGHT = 380  # of a chart with two axes
CHARACTER = 6.7  # width of one, on average
STYLE = """<style>
.paper{fill:#fff}.ink{fill:#1c2b2f}.soft{fill:#51646a}.line{stroke:#b9c6ca;fill:none}
.k0{fill:#0b6b7b}.k1{fill:#c8790a}.k2{fill:#7a5ea8}.k3{fill:#7a888d}
.path{stroke:#0b6b7b;stroke-width:2;fill:none}
@media(prefers-color-scheme:dark){
.paper{fill:#12191b}.ink{fill:#e8f0f2}.soft{fill:#a9bbc0}.line{stroke:#40525a}
.k0{fill:#4fb3c4}.k1{fill:#e8a33d}.k2{fill:#b79fe0}.k3{fill:#7d8c92}.path{stroke:#4fb3c4}}
text{font:13px system-ui,sans-serif}.title{font-size:16px;font-weight:600}
</style>"""


def bars(title: str, rows: Sequence[tuple[str, Mapping[str, float]]], unit: str, words: str) -> str:
    """Stacked bars, one a row: (label, kind -> value). unit: of the values, written behind each sum."""
    kinds = list(dict.fromkeys(kind for _, parts in rows for kind in parts))
    most = max((sum(parts.values()) for _, parts in rows), default=0.0) or 1.0
    scale, top = (WIDTH - LABELS - VALUES - 2 * MARGIN) / most, 2 * MARGIN + 2 * ROW
    lines = _legend(kinds) if len(kinds) > 1 else []
    for number, (label, parts) in enumerate(rows):
        x, y = float(MARGIN + LABELS), top + number * ROW
        lines.append(_text(x - 8, y + TEXT, _cut(label, LABELS), "ink", "end"))
        for kind, value in parts.items():
            lines.append(
                _box(x, y, value * scale, f"k{kinds.index(kind)}", f"{label}, {kind}: {value:.3g} {unit}")
            )
            x += value * scale
        lines.append(_text(x + 6, y + TEXT, f"{_number(sum(parts.values()))} {unit}", "soft"))
    return chart(title, words, top + len(rows) * ROW + MARGIN, lines)


def points(
    title: str,
    groups: Mapping[str, Sequence[tuple[float, float]]],
    axes: tuple[str, str],
    words: str,
    lines: Sequence[tuple[float, float, str]] = (),
) -> str:
    """Points of named groups over two axes from 0. lines: (x, y, label) of lines from the origin."""
    every = [point for group in groups.values() for point in group]
    right, high = (max((p[i] for p in every), default=0.0) * 1.05 or 1.0 for i in (0, 1))
    frame = Frame(right, high)
    drawn = [*frame.axes(axes), *(_legend(list(groups)) if len(groups) > 1 else [])]
    for x, y, label in lines:
        end = min(right, high * x / y)
        drawn.append(frame.path([(0.0, 0.0), (end, end * y / x)], "line"))
        across, down = frame.at(end, end * y / x)
        left = end < right / 2
        drawn.append(_text(across + (6 if left else -6), down + 4, label, "soft", "start" if left else "end"))
    for number, group in enumerate(groups.values()):
        for x, y in group:
            cx, cy = frame.at(x, y)
            drawn.append(f'<circle class="k{number}" cx="{cx:.1f}" cy="{cy:.1f}" r="3"/>')
    return chart(title, words, HEIGHT, drawn)


class Frame:
    """The place of a chart with two axes: values from 0 to `right` and from 0 to `high`."""

    def __init__(self, right: float, high: float) -> None:
        self.right, self.high = right, high

    def at(self, x: float, y: float) -> tuple[float, float]:
        wide, tall = WIDTH - 5 * MARGIN, HEIGHT - 8 * MARGIN
        return 4 * MARGIN + x / self.right * wide, HEIGHT - 3 * MARGIN - y / self.high * tall

    def path(self, track: Sequence[tuple[float, float]], kind: str) -> str:
        places = " ".join("{:.1f},{:.1f}".format(*self.at(x, y)) for x, y in track)
        return f'<polyline class="{kind}" points="{places}"/>'

    def axes(self, names: tuple[str, str]) -> list[str]:
        """Lines at round values, with their numbers, and the names of both axes."""
        drawn = [_text(WIDTH - MARGIN, HEIGHT - 8, names[0], "soft", "end")]
        drawn.append(_text(MARGIN, 3 * MARGIN + ROW, names[1], "soft"))
        for value in _round_values(self.high):
            x, y = self.at(0.0, value)
            drawn.append(self.path([(0.0, value), (self.right, value)], "line"))
            drawn.append(_text(x - 6, y + 4, _number(value), "soft", "end"))
        for value in _round_values(self.right):
            x, y = self.at(value, 0.0)
            drawn.append(_text(x, y + 18, _number(value), "soft", "middle"))
        return drawn


def _round_values(most: float) -> list[float]:
    """Up to six values from 0, apart by 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(most / 5))
    step = next(power * each for each in (1, 2, 5, 10) if most / (power * each) <= 5)
    return [step * number for number in range(int(most / step + 1e-9) + 1)]


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _legend(kinds: Sequence[str]) -> list[str]:
    lines, x, y = list[str](), float(MARGIN), MARGIN + 1.5 * ROW
    for number, kind in enumerate(kinds):
        lines += [_box(x, y - 10, 12, f"k{number}", kind, 12), _text(x + 18, y, kind, "ink")]
        x += 40 + CHARACTER * len(kind)
    return lines


def _cut(label: str, width: int) -> str:
    most = int(width / CHARACTER)
    return label if len(label) <= most else f"{label[: most - 1]}…"


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _box(x: float, y: float, width: float, kind: str, words: str, height: float = ROW - 6) -> str:
    shape = f'class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f"<rect {shape}><title>{escape(words)}</title></rect>"


def chart(title: str, words: str, height: float, lines: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img"'
    head += f" aria-label={quoteattr(f'{title}. {words}')}>"
    named = f"<title>{escape(title)}</title>\n<desc>{escape(words)}</desc>"
    paper = f'<rect class="paper" width="{WIDTH}" height="{height:.0f}" rx="8"/>'
    text = f'<text class="ink title" x="{MARGIN}" y="{MARGIN + 8}">{escape(title)}</text>'
    return "\n".join([head, named, STYLE, paper, text, *lines, "</svg>"]) + "\n"
