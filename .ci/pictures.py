"""Draws the pictures of the documents, into docs/images.

    python .ci/pictures.py            says which of them are not of today
    python .ci/pictures.py --write    draws them

Costs and levels are those of the default plan with the price table that is shipped; speeds are read from the
table of docs/which-protection.md, so that a figure stands in one place. docs/images/errors.svg is drawn by
`tacita accuracy --plot`, from data that is not in this repository.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from tacita import api
from tacita.cli.estimate import cost_chart
from tacita.cli.plot import HEIGHT, STYLE, Frame, bars, chart
from tacita.plans.plan import Plan

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
ROW = re.compile(r"^\| (two parties, no dealer|ciphertexts|two parties, a dealer) \| ([^|]*) \| ([\d.]+)")


def pictures() -> Iterator[tuple[str, str]]:
    """(file name, SVG) of each picture."""
    yield "parties.svg", parties()
    yield "speed.svg", speed()
    plan = api.plan(scheme="thor", prices=None)
    assert isinstance(plan, Plan)
    yield "cost.svg", cost_chart(plan, {})
    yield "levels.svg", levels(plan)


def levels(plan: Plan) -> str:
    """The level of the highest ciphertext at each stage, and where bootstraps raise it."""
    both = ((stage.name, levels) for stage in plan.stages for levels in (stage.levels, stage.out_levels))
    values = [(name, float(max(levels.values(), default=0))) for name, levels in both]
    frame, track = Frame(float(len(values)), max(level for _, level in values) * 1.05), [(0.0, values[0][1])]
    lines = frame.axes(("stages, in and out", "level"))
    for number, (name, level) in enumerate(values):
        if level > track[-1][1]:
            x, y = frame.at(number, level)
            mark = f'<circle class="k1" cx="{x:.1f}" cy="{y:.1f}" r="4">'
            lines.append(f"{mark}<title>{escape(name)}</title></circle>")
        track += [(float(number), level), (number + 1.0, level)]
    words = f"{len(plan.stages)} stages use up levels; {plan.bootstraps} bootstraps bring them back."
    lines.append(frame.path(track[1:], "path"))
    return chart("Levels over the circuit of sst2-tiny", words, HEIGHT, lines)


def speed() -> str:
    """Seconds of one text of BERT-base's size, from the page that names sources and machines."""
    page, rows = (ROOT / "docs" / "which-protection.md").read_text(encoding="utf-8"), []
    for line in page.splitlines():
        if (match := ROW.match(line)) and "default" not in line:
            system = re.sub(r"[*`]", "", match[2]).split(", ")
            rows.append((", ".join(system[:2]), {match[1]: float(match[3])}))
    words = "Other machines and other promises in each row: see the page on what protects whom."
    return bars("Seconds of a text through BERT-base's shape", rows, "s", words)


ARROW = '<path class="path" d="M{x1} {y} H{x2}" marker-end="url(#tip)"/>'


def parties() -> str:
    """Client and server, and what travels between them."""
    said = (
        (110, "ink title", "You"),
        (110, "soft", "text, secret key, answer"),
        (650, "ink title", "The server"),
        (650, "soft", "weights, plan"),
    )
    lines = [
        f'<text class="{kind}" x="{x}" y="{60 + 24 * (i % 2)}" text-anchor="middle">{words}</text>'
        for i, (x, kind, words) in enumerate(said)
    ]
    travels = (
        (120, 220, 540, "evaluation keys, once", "about 2 GB, made for this plan"),
        (185, 220, 540, "the encrypted request", "about 15 MB, of one size for every text"),
        (250, 540, 220, "the encrypted answer", "about 2 MB"),
    )
    for y, x1, x2, what, more in travels:
        lines.append(ARROW.format(x1=x1, x2=x2, y=y))
        lines.append(f'<text class="ink" x="380" y="{y - 8}" text-anchor="middle">{what}</text>')
        lines.append(f'<text class="soft" x="380" y="{y + 18}" text-anchor="middle">{more}</text>')
    sees = ("sees that you ask, and when.", "Its numbers look random:", "no text, no length, no answer")
    lines += [
        f'<text class="soft" x="650" y="{140 + 20 * i}" text-anchor="middle">{each}</text>'
        for i, each in enumerate(sees)
    ]
    does = ("encrypt before you send;", "decrypt, check and round", "what comes back")
    lines += [
        f'<text class="soft" x="110" y="{140 + 20 * i}" text-anchor="middle">{each}</text>'
        for i, each in enumerate(does)
    ]
    words = (
        "You keep text, secret key and answer. Keys and an encrypted request go to the server, an encrypted "
    )
    words += "answer comes back. The server has weights and plan, and sees neither text, length nor answer."
    tip = '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
    tip += 'orient="auto"><path class="k0" d="M0 0 8 4 0 8z"/></marker></defs>'
    frames = [f'<rect class="line" x="{x}" y="30" width="200" height="250" rx="10"/>' for x in (10, 550)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 300" role="img" aria-label="{words}">'
    paper = '<rect class="paper" width="760" height="300" rx="8"/>'
    return (
        "\n".join([head, "<title>What travels</title>", STYLE, tip, paper, *frames, *lines, "</svg>"]) + "\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="draw them")
    write = parser.parse_args().write
    for name, drawn in pictures():
        path = IMAGES / name
        if write:
            path.write_text(drawn, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != drawn:
            print(f"{name} is not of today: python .ci/pictures.py --write")


if __name__ == "__main__":
    main()
