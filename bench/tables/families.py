"""The table family x task x scheme of docs/families.md, from the list that the tests run.

    python -m bench families-page > docs/families.md

A cell that says "works" stands for a test that runs: `cell` gives its name, and a test of the page looks for
it. A cell that is refused says why, in words that the error has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SLOTS = {"thor": "thor", "thor, diagonals": "thor:multidiagonal", "leaf": "leaf"}
SLOTS |= {"arion": "arion", "moai": "moai"}  # heading -> scheme, with the packing where it is not the first
TWO_PARTY = "bumblebee"
IN_SLOTS = "tests/unit/models/test_family_schemes.py::test_a_familys_folder_gets_its_answer"
ON_SHARES = "tests/unit/two_party/test_two_party_families.py::test_shares_keep_a_familys_answer"
ENCRYPTED = "tests/integration/test_families_ckks.py::test_a_family_is_answered_encrypted"
BEFORE_WEIGHTS = (
    "tests/unit/models/test_family_refusals.py::test_a_folder_is_refused_before_a_file_of_weights_is_opened"
)


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


def cell(name: str, scheme: str) -> str:
    """The test behind a cell; empty where there is none."""
    if scheme == TWO_PARTY:
        return f"{ON_SHARES}[{name}]"
    return f"{IN_SLOTS}[{name}-{scheme}]" if (name, scheme) in slot_cases() else ""


def told(name: str, scheme: str) -> str:
    """What the page says in a cell."""
    if not cell(name, scheme):
        return "not run"
    refused = why(name, scheme) if scheme != TWO_PARTY else None
    return f"refused: {refused[1]}" if refused else "works"


def page() -> Iterator[str]:
    """Line by line."""
    yield "# Families, tasks and schemes"
    yield ""
    yield "Made by `python -m bench families-page`; do not edit."
    yield ""
    yield from TEXT.strip().splitlines()
    yield ""
    heads = (*SLOTS, TWO_PARTY)
    yield f"| family | answer | folder | {' | '.join(heads)} |"
    yield "|---" * (3 + len(heads)) + "|"
    for case in CASES:
        cells = [told(case.name, scheme) for scheme in (*SLOTS.values(), TWO_PARTY)]
        mark = "**" if case.name in ENCRYPTED_CASES else ""
        yield f"| {case.family} | {case.task} | {mark}{case.name}{mark} | {' | '.join(cells)} |"
    yield ""
    yield from REST.strip().splitlines()
    yield ""
    yield from (f"* {words}" for words in FOLDERS.values())


TEXT = f"""
Each row is a folder of `tests/vectors/families`, as transformers' `save_pretrained` writes it (NanoGuard's as
its converter does): tiny, of odd sizes, with random weights. "Works" stands for a test that takes the folder
to an answer and compares it with floats. On the schemes with ciphertexts it is planned for a toy ring and run
on `plain`, within 0.01 (leaf, whose functions are fitted less closely: 0.02); of two parties both run, on
shares:

    {IN_SLOTS}[FOLDER-SCHEME]
    {ON_SHARES}[FOLDER]

Folders in bold are encrypted as well, in thor on a toy ring:

    {ENCRYPTED}[FOLDER]

That the weights mean what transformers makes of them is another test, `tests/unit/models/test_families.py`
(1e-9).

The first test multiplies the matrices of the layers by one half and keeps one layer, of ModernBERT two and of
NanoGuard all three. The folders' random weights make what a layer gives larger with every layer, as those of
trained models do not: a toy ring's noise then leaves one decimal or none, to which a plan rounds its answers.
"Not run" says that no test plans this row on diagonals, where planning takes ten times as long; the packing's
own suite (`tests/unit/packings/test_packings_conformance.py`) has the blocks of all rows.
"""
REST = f"""
A head that maps to fewer features and takes a function of them (masked words of a model whose tables of words
are narrower than its layers) runs as copies that fill the width where the width is a multiple of them, as it
is in the published sizes of ALBERT and ELECTRA (`tests/unit/packings/test_widened.py`); the folders of this
table have other sizes, and no packing. Nor has a head with a function after the mean. Between two parties all
work.

Heads that do not divide the hidden states among them (`head_dim`) lie in rows and, between two parties,
anywhere; columns and diagonals refuse them.

Decoders (GPT-2, LLaMA, Mistral, Qwen, Gemma, Phi-3) go on behind a text in every scheme:
`tests/unit/two_party/test_writing.py` of two parties, `tests/unit/generation/test_generation_encrypted.py` of
the others, encrypted in thor on a toy ring.

Pairs of texts, several labels and regression are heads of the rows with labels, in every scheme
(`tests/unit/cli/test_pairs.py`, `tests/unit/texts/test_tasks.py`). Labels of tokens, answers and masked words
are told as spans, answers and words in every scheme by `tests/unit/texts/test_token_tasks.py`.

These folders are refused before a file of weights is opened, with what to do instead:

    {BEFORE_WEIGHTS}
"""


def families_page() -> None:
    """Print docs/families.md: family x task x scheme, from the list that the tests run."""
    print("\n".join(page()))
