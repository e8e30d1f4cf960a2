"""Runs one Python target under atheris: `python tests/fuzz/run.py TARGET CORPUS... [libFuzzer's options]`;
`--list` prints all targets.

`make fuzz` calls it. Mutations change bytes, as libFuzzer does; where the input is a JSON document every
second one changes a place of it instead (`trees`), every fourth one for a CKKS plan, whose document takes a
hundred times as long to check as a few wrong bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "unit")]
INSTRUMENTED = ("plans", "server", "evaluate", "checkpoint", "models", "texts", "client", "two_party")
EVERY = {
    "two_party_plan": 2,
    "ckks_plan": 4,
    "resume_manifest": 2,
    "public_list": 2,
    "program": 2,
    "http_bodies": 2,
    "receipt": 2,
    "control": 2,
}  # of so many mutations one is a tree's
LONGEST = {
    "public_part": 1 << 15,
    "two_party_plan": 1 << 12,
    "ckks_plan": 1 << 14,
    "embedding_tables": 1 << 14,
    "program": 1 << 14,
    "http_bodies": 1 << 11,
}


def main() -> None:
    if sys.argv[1:] == ["--list"]:
        import decoders

        print("\n".join(f"{name} {LONGEST.get(name, 1 << 10)}" for name in decoders.DECODERS))
        return
    fuzz(sys.argv[1], sys.argv[2:])


def fuzz(name: str, words: list[str]) -> None:
    import atheris

    with atheris.instrument_imports(include=[f"tacita.{part}" for part in INSTRUMENTED]):
        import decoders
    import trees

    def mutate(data: bytes, longest: int, seed: int) -> bytes:
        if (
            seed % EVERY[name] == 0
            and (changed := trees.mutated(data, seed)) is not None
            and len(changed) <= longest
        ):
            return changed
        return bytes(atheris.Mutate(data, longest))

    folder = Path(next(word for word in words if not word.startswith("-")))
    for index, seed in enumerate(decoders.seeds(name)):
        (folder / f"honest-{index}").write_bytes(seed)
    options = {"custom_mutator": mutate} if name in EVERY else {}
    atheris.Setup([sys.argv[0], *words], decoders.DECODERS[name], **options)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
