"""Draws results for notebooks: a small table in HTML, in the colours of the page around it.

>>> card("Classes", {"answer": "<b>"}, [("positive", "", 0.963)]).count("&lt;b&gt;")
1

Everything that is drawn is escaped: a model's labels and a text are anybody's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tacita.bar import duration, size
from tacita.texts.answer import Answer
from tacita.texts.ranking import Ranking
from tacita.texts.spans import Extract, Fill, Tags

Score = tuple[str, str, float | None]  # what, where or which, from 0 to 1
MOST, LONGEST = 10, 200  # rows of scores; characters of a cell
STYLE = "text-align:left;padding:2px 10px;vertical-align:top"


def card(title: str, rows: Mapping[str, str], scores: Sequence[Score] = ()) -> str:
    """Returns a table: a title, rows of names and values, and a bar for each score."""
    lines = [_row("th", name, _cell(value)) for name, value in rows.items()]
    lines += [_row("td", what, _bar(of, score)) for what, of, score in scores[:MOST]]
    if len(scores) > MOST:
        lines.append(_row("td", "", f"and {len(scores) - MOST} more"))
    head = f"<caption style='{STYLE};font-weight:bold'>{_cell(title)}</caption>"
    return f"<table style='border-collapse:collapse'>{head}{''.join(lines)}</table>"


def _row(tag: str, name: str, value: str) -> str:
    first = f"<{tag} style='{STYLE}'>{_cell(name)}</{tag}>"
    return f"<tr>{first}<td style='{STYLE}'>{value}</td></tr>"


def _cell(text: str) -> str:
    return escape(text if len(text) <= LONGEST else text[: LONGEST - 3] + "...")


def _bar(label: str, score: float | None) -> str:
    """Draws a score beside its label; only one from 0 to 1 has a bar."""
    if score is None:
        return _cell(label)
    width = 120 * min(max(score, 0.0), 1.0)
    bar = f"display:inline-block;width:{width:.0f}px;height:0.7em;background:currentColor;opacity:0.5"
    return f"{_cell(label)} <span style='{bar}'></span> {score:.3f}"


def answer_card(answer: Answer | Ranking) -> str:
    """Draws an answer of any task: what it says, what protected the text, the warnings, the scores."""
    rows = {"privacy": answer.privacy or "unknown"}
    if isinstance(answer, Answer):
        rows = {"answer": answer.summary, **rows}
        rows |= {f"warning {number}": each for number, each in enumerate(answer.warnings[:MOST], 1)}
    return card(type(answer).__name__, rows, _scores(answer))


def _scores(answer: Answer | Ranking) -> list[Score]:
    match answer:
        case Ranking():
            return [(each.document, "", each.score) for each in answer.ranks]
        case Tags():
            return [(span.text, span.label, span.score) for span in answer.spans]
        case Extract() if not answer.empty:
            where = f"characters {answer.span.start} to {answer.span.end}"
            return [(answer.span.text, where, answer.span.score)]
        case Fill():
            masks = enumerate(answer.masks, 1)
            return [(one.label, f"mask {n}", one.score) for n, mask in masks for one in mask.best()]
    return [(each.label, "", each.score) for each in getattr(answer, "scores", ())]


def plan_card(plan: Any, links: Mapping[str, Any]) -> str:
    """Draws what a request of a plan costs, on the machine of its prices and over links, and what protects a
    text."""
    rows = {"scheme": f"{plan.scheme}, {plan.batch} texts a request of up to {plan.tokens} tokens"}
    rows |= {"protection": plan.privacy, "a request": duration(plan.predicted_seconds())}
    rows |= {f"over {name}": duration(plan.predicted_seconds(link)) for name, link in links.items()}
    rows["sent, both ways"] = size(plan.predicted_bytes())
    if once := getattr(plan, "prediction", None):  # of ciphertexts
        rows["keys, once"] = f"{size(once.bytes['evaluation_keys'])}, {duration(once.seconds['keygen'])}"
        rows |= {"bootstraps": str(plan.bootstraps), "error of the logits": str(once.error)}
    return card(f"Plan of {plan.name}", rows)


class Estimate(dict[str, Any]):
    """What a run would cost: a scheme's figures by name, as `tacita estimate --json` writes them."""

    def __repr__(self) -> str:
        """Returns at most 300 characters."""
        texts, seconds = f"inputs={self['inputs']}", f"wall_seconds={self['wall_seconds']:.3g}"
        return f"Estimate({self['model']!r:.80}, scheme={self['scheme']!r}, {texts}, {seconds}, ...)"

    def _repr_html_(self) -> str:
        """Draws the figures that are one number or one text."""
        rows = {"wall_seconds": duration(self["wall_seconds"])}
        rows |= {k: f"{v:,}" if isinstance(v, int) else f"{v:.4g}" for k, v in self.items() if _number(v)}
        for name, many in self.items():
            if isinstance(many, dict) and many and all(map(_number, many.values())):
                rows |= {f"{name}: {k}": size(v) if "bytes" in name else f"{v:.3g}" for k, v in many.items()}
        rows = {name: rows[name] for name in rows if not name.startswith("stage_")}
        return card(f"Estimate of {self['model']} by {self['scheme']}", rows)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
