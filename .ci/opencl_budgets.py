"""Compiles the OpenCL kernels for cards that are not here, and holds what they take within budgets.

    python .ci/opencl_budgets.py            fails where a kernel takes more than its budget
    python .ci/opencl_budgets.py --write    writes the budgets of today
    python .ci/opencl_budgets.py --print    prints what each kernel takes

The budgets are `crates/opencl/kernels/budgets.toml`. clang-16 compiles for nvptx64 and for amdgcn with libclc
(`make setup-opencl`); NVIDIA's ptxas, which `make opencl-budgets` brings, turns PTX into code for sm_80 and
sm_90 and says what it takes. A part whose tools are missing is left out, in words. Nothing runs.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
CRATE = ROOT / "crates" / "opencl"
TABLE = CRATE / "kernels" / "budgets.toml"
PTXAS = ROOT / "build" / "opencl" / "nvidia" / "cu13" / "bin" / "ptxas"
LIBCLC = Path("/usr/lib/clc")
SHAPE = {"LOG_N": 16, "LOG_RADIX": 4, "LOG_SHARED": 3}  # what the host chooses at N = 2^16
FLAVOURS = "F64", "U64"
NVIDIA = {"sm_80": "A100", "sm_90": "H100"}
AMD = {"gfx90a": "MI200"}
NVIDIA_BITCODE, AMD_BITCODE = "nvptx64--nvidiacl.bc", "amdgcn--amdhsa.bc"
GRAIN = {"registers": 8}  # a card gives registers by eights
FIRST = """\
# What each kernel may take at N = 2^16, by card. It is checked by `python .ci/opencl_budgets.py` and written
# by its `--write`. Bytes of local memory are of a work-group, all else is of a work-item: registers, bytes
# spilled, additions and products of doubles (fp64, fused ones among them: fma), slow conversions between
# doubles and integers.
"""

Figures = dict[str, int]  # what -> how much
Table = dict[str, dict[str, Figures]]  # "F64.sm_80" -> kernel -> figures
Rows = Mapping[str, Mapping[str, Figures]]


def sources() -> str:
    """Returns the text of all kernels in the order in which the host compiles it."""
    names = re.findall(r'include_str!\("\.\./(kernels/\w+\.cl)"\)', (CRATE / "src" / "build.rs").read_text())
    if not names:
        raise SystemExit("crates/opencl/src/build.rs includes no kernels")
    return "\n".join((CRATE / name).read_text(encoding="utf-8") for name in names)


def assembly_of(source: Path, flavour: str, options: list[str], bitcode: str) -> str:
    """Returns what clang makes of the kernels: PTX or GCN assembly."""
    defines = [f"-D{flavour}", *(f"-D{name}={value}" for name, value in SHAPE.items())]
    link = [word for each in ("-mlink-builtin-bitcode", str(LIBCLC / bitcode)) for word in ("-Xclang", each)]
    target = source.with_suffix(".s")
    command = ["clang-16", "-x", "cl", "-cl-std=CL1.2", "-O2", "-nogpulib", "-Wno-linker-warnings", *options]
    subprocess.run([*command, *defines, *link, "-S", "-o", str(target), str(source)], check=True)
    return target.read_text(encoding="utf-8")


def parts(text: str, begin: str) -> Iterator[tuple[str, str]]:
    """Yields each kernel's name and its part of an assembly.

    >>> list(parts(".entry a( x\\n.entry b( y", r"\\.entry (\\w+)\\("))
    [('a', ' x\\n'), ('b', ' y')]
    """
    heads = list(re.finditer(begin, text))
    ends = [each.start() for each in heads[1:]] + [len(text)]
    yield from ((each.group(1), text[each.end() : end]) for each, end in zip(heads, ends, strict=True))


def arithmetic(code: str) -> Figures:
    """Counts instructions on doubles, and conversions, of a kernel in PTX or GCN.

    >>> arithmetic("fma.rn.f64 a; add.rn.f64 b; ld.global.f64 c; cvt.rni.f64.f64 d")
    {'fp64': 2, 'fma': 1, 'conversions': 1}
    >>> arithmetic("v_fma_f64 a; v_mul_f64 b; v_rndne_f64_e32 c")
    {'fp64': 2, 'fma': 1, 'conversions': 1}
    """
    kinds = Counter(re.findall(r"\b(?:v_)?(fma|add|mul|sub)(?:\.rn\.|_)f64\b", code))
    slow = re.findall(r"\bcvt\.\w+\.(?:f64\.\w+|\w+\.f64)\b|\bv_(?:rndne|cvt)_(?:f64\w*|\w+_f64)\b", code)
    return {"fp64": kinds.total(), "fma": kinds["fma"], "conversions": len(slow)}


def of_ptxas(log: str) -> dict[str, Figures]:
    """Reads what ptxas says of each kernel.

    >>> log = "Compiling entry function 'k' for 'sm_80' 0 bytes stack frame, 8 bytes spill stores, 4 bytes"
    >>> of_ptxas(log + " spill loads Used 30 registers, used 1 barriers, 2048 bytes smem, 392 bytes cmem[0]")
    {'k': {'registers': 30, 'spilled': 12, 'local': 2048}}
    """

    def number(pattern: str, text: str) -> int:
        return sum(map(int, re.findall(pattern, text)))

    return {
        name: {
            "registers": number(r"Used (\d+) registers", text),
            "spilled": number(r"(\d+) bytes spill", text),
            "local": number(r"(\d+) bytes smem", text),
        }
        for name, text in parts(log, r"Compiling entry function '(\w+)'")
    }


def of_gcn(assembly: str) -> dict[str, Figures]:
    """Reads what the metadata of an AMD assembly says of each kernel.

    >>> fields = ".group_segment_fixed_size: 64 .name: k .private_segment_fixed_size: 0 .vgpr_count: 9"
    >>> of_gcn(fields)
    {'k': {'registers': 9, 'spilled': 0, 'local': 64}}
    """
    names = {"vgpr_count": "registers", "private_segment_fixed_size": "spilled"}
    names["group_segment_fixed_size"] = "local"
    kernels: dict[str, Figures] = {}
    pattern = r"\.group_segment_fixed_size:(?:(?!\.group_segment_fixed_size).)*\.vgpr_count:\s+\d+"
    for text in re.findall(pattern, assembly, re.DOTALL):
        fields = dict(re.findall(r"\.(\w+):\s+(\w+)", text))
        kernels[fields["name"]] = {ours: int(fields[theirs]) for theirs, ours in names.items()}
    return kernels


def measure(ptxas: Path) -> tuple[Table, list[str]]:
    """Returns what each kernel takes on each card, and what was left out for want of a tool."""
    table: Table = {}
    if not shutil.which("clang-16") or not LIBCLC.is_dir():
        return table, ["clang-16 or libclc is not installed: all budgets are left out (make setup-opencl)"]
    with tempfile.TemporaryDirectory(prefix="tacita-budgets-") as folder:
        source = Path(folder) / "all.cl"
        source.write_text(sources(), encoding="utf-8")
        for flavour in FLAVOURS:
            for card in AMD:
                code = assembly_of(
                    source, flavour, ["--target=amdgcn-amd-amdhsa", f"-mcpu={card}"], AMD_BITCODE
                )
                bodies = dict(parts(code, r"Begin function (\w+)"))
                table[f"{flavour}.{card}"] = {
                    name: figures | arithmetic(bodies[name]) for name, figures in of_gcn(code).items()
                }
            for card in NVIDIA if ptxas.is_file() else ():
                options = ["--target=nvptx64-nvidia-nvcl", "-Xclang", "-target-cpu", "-Xclang", card]
                ptx = [*options, "-Xclang", "-target-feature", "-Xclang", "+ptx71"]
                code = assembly_of(source, flavour, ptx, NVIDIA_BITCODE)
                bodies = dict(parts(code, r"\.entry (\w+)\("))
                log = _assemble(ptxas, card, code, Path(folder))
                table[f"{flavour}.{card}"] = {
                    name: figures | arithmetic(bodies[name]) for name, figures in of_ptxas(log).items()
                }
    missing = [] if ptxas.is_file() else [f"ptxas is not in {ptxas}: NVIDIA's budgets are left out"]
    return table, missing


def _assemble(ptxas: Path, card: str, code: str, folder: Path) -> str:
    (folder / "all.ptx").write_text(code, encoding="utf-8")
    command = [str(ptxas), "-v", f"-arch={card}", str(folder / "all.ptx"), "-o", str(folder / "all.cubin")]
    return subprocess.run(command, check=True, capture_output=True, text=True).stderr


def problems(table: Rows, budgets: Rows) -> list[str]:
    """Lists what exceeds its budget, kernels that have none, and budgets of kernels that are gone.

    >>> problems({"F64.x": {"k": {"registers": 9}}}, {"F64.x": {"k": {"registers": 8}}})
    ['F64.x k: registers 9, budget 8']
    >>> problems({"F64.x": {"k": {}}}, {"F64.x": {"l": {}}})
    ['F64.x k: no budget', 'F64.x l: a budget, but no kernel']
    """
    lines = []
    for target, kernels in table.items():
        rows = budgets.get(target, {})
        for name, figures in kernels.items():
            if name not in rows:
                lines.append(f"{target} {name}: no budget")
                continue
            over = {what: n for what, n in figures.items() if n > rows[name].get(what, 0)}
            lines += [f"{target} {name}: {w} {n}, budget {rows[name].get(w, 0)}" for w, n in over.items()]
        lines += [f"{target} {name}: a budget, but no kernel" for name in rows if name not in kernels]
    return lines


def render(table: Rows) -> str:
    """Returns the text of a table of budgets: the figures, registers rounded up to what a card gives."""
    lines = [FIRST.rstrip()]
    for target, kernels in sorted(table.items()):
        lines.append(f"\n[{target}]")
        for name, figures in sorted(kernels.items()):
            rounded = {w: -(-n // GRAIN.get(w, 1)) * GRAIN.get(w, 1) for w, n in figures.items()}
            lines.append(f"{name} = {{ {', '.join(f'{w} = {n}' for w, n in rounded.items())} }}")
    return "\n".join(lines) + "\n"


def by_target(document: Mapping[str, Mapping[str, dict[str, Figures]]]) -> Table:
    """Returns a table of budgets as TOML reads it, by flavour and card."""
    return {f"{flavour}.{card}": rows for flavour, cards in document.items() for card, rows in cards.items()}


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description="Hold what OpenCL kernels take within budgets.")
    parser.add_argument("--write", action="store_true", help="write the budgets of today")
    parser.add_argument("--print", action="store_true", help="print what each kernel takes")
    parser.add_argument("--ptxas", type=Path, default=PTXAS, help="NVIDIA's assembler")
    arguments = parser.parse_args()
    table, missing = measure(arguments.ptxas)
    for line in missing:
        print(line)
    if arguments.print:
        print(render(table))
    if arguments.write:
        if missing:
            raise SystemExit("budgets are written where all tools are")
        TABLE.write_text(render(table), encoding="utf-8")
        return 0
    lines = problems(table, by_target(tomllib.loads(TABLE.read_text(encoding="utf-8"))))
    for line in lines:
        print(line, file=sys.stderr)
    kernels = sum(map(len, table.values()))
    print(f"{kernels} compilations of kernels, {len(lines)} outside their budgets")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
