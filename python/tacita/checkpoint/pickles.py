"""The pickle inside a file of torch.save -> the tensors that it describes; nothing in it is executed.

A pickle is a program, and Python's own reader calls whatever functions it names. Here `pickletools`, which
executes nothing, takes the bytes apart, and the few instructions with which torch writes a dictionary of
tensors are carried out on data of our own; every other instruction and every other name is refused by name.

    torch.save({"w": torch.zeros(2, 3)}, ...)
    # the name "torch._utils _rebuild_tensor_v2", then a call of it with (storage "0", 0, (2, 3), (3, 1), ...)
    # -> {"w": Described(Storage("FloatStorage", "0", 6), 0, (2, 3), (3, 1))}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pickletools import OpcodeInfo, genops
from typing import Any

from tacita.errors import CheckpointError

HINT = "only dictionaries of tensors are read: save `model.state_dict()`, or convert to model.safetensors"
MOST_AXES = 8
REBUILD, ORDERED = "torch._utils _rebuild_tensor_v2", "collections OrderedDict"
STORAGES = {
    "torch DoubleStorage": "F64",
    "torch FloatStorage": "F32",
    "torch HalfStorage": "F16",
    "torch BFloat16Storage": "BF16",
    "torch LongStorage": "I64",  # tables of positions: named here, and refused where one is asked for
    "torch IntStorage": "I32",
    "torch BoolStorage": "BOOL",
    "torch ByteStorage": "U8",
}
# what an instruction does, by its name in `pickletools`
IGNORED = ("PROTO", "FRAME")
CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": dict,
}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
LITERALS = ("BININT", "BININT1", "BININT2", "BINFLOAT", "LONG1", "BINUNICODE", "SHORT_BINUNICODE")
PUTS, GETS = ("BINPUT", "LONG_BINPUT", "MEMOIZE"), ("BINGET", "LONG_BINGET")


@dataclass(frozen=True)
class Named:
    """A name that the pickle mentions; one of those above."""

    name: str


@dataclass(frozen=True)
class Storage:
    """Numbers in a file of their own. dtype: as safetensors calls it. key: the file. count: how many."""

    dtype: str
    key: str
    count: int


@dataclass(frozen=True)
class Described:
    """A view of a storage, whose elements all lie inside."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Mark:
    """Where the items of a tuple or a list begin on the stack."""


def described(data: bytes, where: str) -> Mapping[str, Described]:
    """Describes the tensors by name. Cost: linear in the data, which the caller caps. Raises CheckpointError
    naming what is not admitted."""
    try:
        content = _Machine().run(data)
    except CheckpointError as error:
        raise CheckpointError(f"{where}: {error.args[0]}", hint=HINT) from None
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise CheckpointError(f"{where}: a damaged pickle ({error!s:.80})", hint=HINT) from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{where}: holds a {type(content).__name__}", hint=HINT)
    return _tensors(content)


def _tensors(content: dict[str, Any]) -> Mapping[str, Described]:
    """Returns the tensors of the dictionary or, where it has none, of the one dictionary in it that has some,
    as in checkpoints of a training: {"model_state_dict": {...}, "config": {...}}."""
    inner = {id(value): value for value in content.values() if type(value) is dict}
    nested = [each for each in inner.values() if any(isinstance(v, Described) for v in each.values())]
    flat = any(isinstance(value, Described) for value in content.values())
    chosen = nested[0] if not flat and len(nested) == 1 else content
    return {name: value for name, value in chosen.items() if isinstance(value, Described)}


class _Machine:
    """Interprets the instructions that are known, on a stack and a memory."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memory: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        """What the program leaves. Raises CheckpointError for an instruction that is not known, ValueError
        for bytes that are no pickle."""
        for instruction, argument, _ in genops(data):
            if instruction.name == "STOP":
                return self._stack.pop()
            if instruction.name not in IGNORED:
                self._step(instruction, argument)
        raise ValueError("it ends in the middle")

    def _step(self, instruction: OpcodeInfo, argument: Any) -> None:
        stack, name = self._stack, instruction.name
        if name in CONSTANTS:
            stack.append(CONSTANTS[name]())
        elif name in TUPLES:
            stack[-TUPLES[name] :] = [tuple(stack[-TUPLES[name] :])]
        elif name in LITERALS:
            stack.append(argument)
        elif name in PUTS:
            self._memory[len(self._memory) if argument is None else argument] = stack[-1]
        elif name in GETS:
            stack.append(self._memory[argument])
        else:
            self._act(instruction, argument)

    def _act(self, instruction: OpcodeInfo, argument: Any) -> None:
        stack, name = self._stack, instruction.name
        match name:
            case "MARK":
                stack.append(_Mark())
            case "TUPLE":
                stack.append(tuple(self._pop_to_mark()))
            case "GLOBAL":
                stack.append(_parse_name(argument))
            case "STACK_GLOBAL":
                attribute, module = stack.pop(), stack.pop()
                stack.append(_parse_name(f"{module:.100} {attribute:.100}"))
            case "SETITEM" | "SETITEMS":
                self._set(self._pop_to_mark() if name == "SETITEMS" else [stack.pop(), stack.pop()][::-1])
            case "BINPERSID":
                stack.append(_storage(stack.pop()))
            case "REDUCE":
                arguments = stack.pop()
                stack.append(_call(stack.pop(), arguments))
            case "BUILD":  # attributes of an OrderedDict, such as _metadata, which are no tensors
                stack.pop()
            case _:
                raise CheckpointError(f"the instruction {instruction.code.encode('latin-1')!r}")

    def _pop_to_mark(self) -> list[Any]:
        """What lies above the last mark, which goes too."""
        at = max(i for i, item in enumerate(self._stack) if isinstance(item, _Mark))
        items = self._stack[at + 1 :]
        del self._stack[at:]
        return items

    def _set(self, items: list[Any]) -> None:
        target = self._stack[-1]
        names = items[::2]
        if type(target) is not dict or len(items) % 2 or not all(type(name) is str for name in names):
            raise CheckpointError("a dictionary whose keys are no names")
        "".join(names).encode()  # raises ValueError for half a character
        target.update(zip(names, items[1::2], strict=True))


def _parse_name(name: str) -> Named:
    if name not in (REBUILD, ORDERED, *STORAGES):
        raise CheckpointError(f"the name {name!r:.120}")
    return Named(name)


def _storage(identity: Any) -> Storage:
    """Parses ("storage", kind, key, place, count)."""
    if type(identity) is not tuple or len(identity) != 5 or identity[0] != "storage":
        raise CheckpointError("a persistent id that is no storage")
    _, kind, key, _, count = identity
    if not isinstance(kind, Named) or kind.name not in STORAGES or type(key) is not str or not _size(count):
        raise CheckpointError("a storage of unknown kind, name or size")
    return Storage(STORAGES[kind.name], key, count)


def _call(function: Any, arguments: Any) -> Any:
    """Returns what one of the two known functions gives."""
    if function == Named(ORDERED) and arguments == ():
        return {}
    if function != Named(REBUILD) or type(arguments) is not tuple or len(arguments) not in (6, 7):
        raise CheckpointError("a call of something that makes no tensor")
    storage, offset, shape, strides = arguments[:4]
    if not isinstance(storage, Storage) or type(shape) is not tuple or type(strides) is not tuple:
        raise CheckpointError("a tensor without storage, shape or strides")
    return _inside(Described(storage, offset, shape, strides))


def _inside(tensor: Described) -> Described:
    """Checks that every element lies in the storage, and that there are no more than it has."""
    numbers = (tensor.offset, *tensor.shape, *tensor.strides)
    fits = len(tensor.shape) == len(tensor.strides) <= MOST_AXES and all(map(_size, numbers))
    if fits and all(tensor.shape):
        last = tensor.offset + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides, strict=True))
        count = 1
        for n in tensor.shape:
            count *= n
        fits = last < tensor.storage.count and count <= tensor.storage.count
    if not fits:
        raise CheckpointError(
            f"a tensor of shape {tensor.shape!s:.60} and strides {tensor.strides!s:.60} outside its storage"
        )
    return tensor


def _size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 40
