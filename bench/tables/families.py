"""The table family x task x scheme of docs/families.md, from the list that the tests run.

    python -m bench families-page

A cell that says "works" stands for a test that runs. A cell that is refused says why, in words that the error
has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.options import markdown
from bench.tables import pages

SLOTS = {"thor": "thor", "thor, diagonals": "thor:multidiagonal", "leaf": "leaf"}
SLOTS |= {"arion": "arion", "moai": "moai"}  # heading -> scheme, with the packing where it is not the first
TWO_PARTY = "bumblebee"


@dataclass(frozen=True)
class Case:
    """family and task as the page has them. name: of a folder in tests/vectors/families."""

    family: str
    task: str
    name: str


CLASSES, VECTOR, TAGS, SPANS, MASKED = "labels", "vector", "labels of tokens", "answers", "masked words"
GOES_ON = "next token"
CASES = (
    Case("BERT", CLASSES, "bert-class"),
    Case("BERT", VECTOR, "bert-model"),
    Case("BERT", TAGS, "bert-tokens"),
    Case("BERT", SPANS, "bert-span"),
    Case("BERT", MASKED, "bert-words"),
    Case("RoBERTa", CLASSES, "roberta-class"),
    Case("RoBERTa", VECTOR, "roberta-model"),
    Case("RoBERTa (XLM-R)", TAGS, "xlm-roberta-tokens"),
    Case("RoBERTa (CamemBERT)", SPANS, "camembert-span"),
    Case("RoBERTa", MASKED, "roberta-words"),
    Case("DistilBERT", CLASSES, "distilbert-class"),
    Case("DistilBERT", SPANS, "distilbert-span"),
    Case("DistilBERT", MASKED, "distilbert-words"),
    Case("ELECTRA", CLASSES, "electra-class"),
    Case("ELECTRA", VECTOR, "electra-model"),
    Case("ELECTRA", MASKED, "electra-words"),
    Case("ALBERT", CLASSES, "albert-class"),
    Case("ALBERT", MASKED, "albert-words"),
    Case("MPNet", CLASSES, "mpnet-class"),
    Case("MPNet", VECTOR, "mpnet-model"),
    Case("MPNet", MASKED, "mpnet-words"),
    Case("ModernBERT, by [CLS]", CLASSES, "modernbert-class"),
    Case("ModernBERT, by the mean", CLASSES, "modernbert-mean"),
    Case("ModernBERT", VECTOR, "modernbert-model"),
    Case("ModernBERT", TAGS, "modernbert-tokens"),
    Case("ModernBERT", MASKED, "modernbert-words"),
    Case("ViT", CLASSES, "vit-class"),
    Case("ViT", VECTOR, "vit-model"),
    Case("DeiT", CLASSES, "deit-class"),
    Case("DINOv2", VECTOR, "dinov2-model"),
    Case("NanoGuard", CLASSES, "nanoguard-class"),
    Case("LLaMA", GOES_ON, "llama-next"),
    Case("LLaMA, slower positions", GOES_ON, "llama-linear-next"),
    Case("LLaMA 3", GOES_ON, "llama3-next"),
    Case("Mistral", GOES_ON, "mistral-next"),
    Case("Qwen2", GOES_ON, "qwen2-next"),
    Case("Qwen3", GOES_ON, "qwen3-even-next"),
    Case("Qwen3, heads of another size", GOES_ON, "qwen3-next"),
    Case("Gemma", GOES_ON, "gemma-next"),
    Case("Phi-3", GOES_ON, "phi3-next"),
    Case("Phi-3, half of a head turns", GOES_ON, "phi3-partial-next"),
)
# (name, scheme) -> part of the error's text, and what the page says; scheme "": all on ciphertexts
REFUSED = {
    ("modernbert-mean", ""): ("no packing has the step head.activation", "a function of the mean"),
    ("electra-words", ""): ("has a function of 8 features", "a function of fewer features"),
    ("albert-words", ""): ("has a function of 8 features", "a function of fewer features"),
}
WIDER = ("features on 12 hidden ones", "heads of another size")
REFUSED |= {
    (name, scheme): WIDER
    for name in ("llama-linear-next", "llama3-next", "mistral-next", "qwen3-next", "gemma-next")
    for scheme in ("thor:multidiagonal", "arion", "moai")
}
WITHIN = {"leaf": 0.02}  # its functions by a bootstrap are fitted to 2e-3; the others: 0.01
# Planning on diagonals takes ten times as long as on rows: run for these, and for the others not at all
DIAGONALS = ("bert-class", "modernbert-class", "modernbert-mean", "llama3-next")
# one of each family is encrypted, on a toy ring
ENCRYPTED_CASES = (
    "bert-class",
    "roberta-class",
    "distilbert-class",
    "electra-class",
    "albert-class",
    "mpnet-class",
    "modernbert-class",
    "vit-class",
    "dinov2-model",
    "nanoguard-class",
)
# what is refused of a folder by its config.json: name of the test's case -> what a reader looks for
FOLDERS = {
    "deberta": "DeBERTa",
    "decoder": "decoders but GPT-2, LLaMA, Mistral, Qwen2, Qwen3, Gemma and Phi-3 (GPT-NeoX, OPT)",
    "gemma 2": "Gemma 2 and 3, which have soft caps, windows or two bases of positions",
    "decoding bert": "`is_decoder` of any family",
    "t5": "T5, BART and other pairs of encoder and decoder",
    "dinov2 classifier": "classifiers of DINOv2, which read [CLS] beside the mean of the patches",
    "dinov2 swiglu": "DINOv2 with SwiGLU (its largest size)",
    "quantised": "weights that are quantised (`quantization_config`)",
    "activation": "an activation that is none of gelu, its forms with tanh, relu, relu squared, silu, elu",
    "problem": "a `problem_type` that transformers does not have",
    "relative key": "BERT's relative_key positions",
    "albert groups": "ALBERT with several groups of layers",
    "masked words": "masked words of more than 4,096",
    "choices": "heads for multiple choice, and all others that are not above",
}


def why(name: str, scheme: str) -> tuple[str, str] | None:
    """The error's text and the page's words, where a scheme on ciphertexts refuses a case."""
    return REFUSED.get((name, scheme)) or REFUSED.get((name, ""))


def slot_cases() -> list[tuple[str, str]]:
    """(name, scheme) of every run on ciphertexts' schemes."""
    pairs = [(case.name, scheme) for case in CASES for scheme in SLOTS.values()]
    return [(name, scheme) for name, scheme in pairs if ":" not in scheme or name in DIAGONALS]


def told(name: str, scheme: str) -> str:
    """What the page says in a cell."""
    if scheme == TWO_PARTY:
        return "works"
    if (name, scheme) not in slot_cases():
        return "not run"
    return f"refused: {refused[1]}" if (refused := why(name, scheme)) else "works"


def rows() -> Iterator[tuple[str, ...]]:
    """One a case; those that are encrypted as well are in bold."""
    for case in CASES:
        mark = "**" if case.name in ENCRYPTED_CASES else ""
        cells = (told(case.name, scheme) for scheme in (*SLOTS.values(), TWO_PARTY))
        yield case.family, case.task, f"{mark}{case.name}{mark}", *cells


def parts() -> dict[str, list[str]]:
    """Returns the lines of the page by the names of their markers."""
    table = markdown(("family", "answer", "folder", *SLOTS, TWO_PARTY), rows())
    return {"families": [*table], "refused-folders": [f"* {words}" for words in FOLDERS.values()]}


def families_page() -> None:
    """Write the tables of docs/families.md: family x task x scheme, from the list that the tests run."""
    for name, lines in parts().items():
        pages.write(pages.DOCS / "families.md", name, lines)
