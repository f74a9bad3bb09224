"""The files of a checkpoint's folder, their headers and digests. This module does not import torch."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open

from data_schemas import ids
from data_schemas.errors import StoreError

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
TOKENIZER = "tokenizer.model"
FACTS = "kame.json"
CARD = "README.md"


def encode_json(content: Mapping[str, Any]) -> bytes:
    """Returns JSON for people to read: indented, in UTF-8, with a newline at the end."""
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


class Header(NamedTuple):
    """The header of a safetensors file.

    Attributes:
        names: names of the tensors.
        dtypes: number of parameters of each type, named as in safetensors (F32, BF16), the most frequent first.
    """

    names: frozenset[str]
    dtypes: dict[str, int]

    @property
    def n_parameters(self) -> int:
        """Number of parameters in the file."""
        return sum(self.dtypes.values())


def read_header(weights: Path) -> Header:
    """Reads the header of a safetensors file, but no tensor.

    Raises:
        StoreError: the file is missing or damaged.
    """
    dtypes: Counter[str] = Counter()
    with translate_read_errors(weights), safe_open(weights, "numpy") as file:
        names = frozenset(file.keys())
        for name in names:
            tensor = file.get_slice(name)
            dtypes[tensor.get_dtype()] += prod(tensor.get_shape())
    return Header(names, dict(dtypes.most_common()))


@contextmanager
def translate_read_errors(path: Path) -> Iterator[None]:
    """Context manager that raises errors of reading and parsing a checkpoint's file as a `StoreError`."""
    try:
        yield
    except (SafetensorError, OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}.", "Download or export the checkpoint again.") from error


def digest_files(paths: Sequence[Path]) -> str:
    """Returns one digest of the contents of weight files, 16 hexadecimal digits; their order matters, not their names.

    Raises:
        StoreError: a file cannot be read.
    """
    try:
        return ids.digest("weights", [ids.compute_sha256(each) for each in paths])
    except OSError as error:
        raise StoreError(f"Weights cannot be read: {error}.", "Check their permissions and the disk.") from error
