"""The files of a checkpoint's folder, and what they tell of themselves without torch, which is not imported here."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open

from data_schemas import ids
from data_schemas.errors import StoreError

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
TOKENIZER = "tokenizer.model"
FACTS = "kame.json"
CARD = "README.md"


class Header(NamedTuple):
    """What a safetensors file says of itself.

    Attributes:
        names: of its tensors.
        dtypes: how many numbers of each type, as safetensors names them (F32, BF16), the most frequent first.
    """

    names: frozenset[str]
    dtypes: dict[str, int]

    @property
    def n_parameters(self) -> int:
        """All numbers in it."""
        return sum(self.dtypes.values())


def read_header(weights: Path) -> Header:
    """The header of a safetensors file; no tensor is read.

    Raises:
        StoreError: the file is missing or damaged.
    """
    dtypes: Counter[str] = Counter()
    with reading(weights), safe_open(weights, "numpy") as file:
        names = frozenset(file.keys())
        for name in names:
            tensor = file.get_slice(name)
            dtypes[tensor.get_dtype()] += prod(tensor.get_shape())
    return Header(names, dict(dtypes.most_common()))


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """A block that reads a file of a checkpoint; what goes wrong there is a `StoreError`."""
    try:
        yield
    except (SafetensorError, OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}.", "Fetch or export the checkpoint again.") from error


def digest_files(paths: Sequence[Path]) -> str:
    """Stands for weights: 16 hexadecimal digits. Reads all of them.

    Raises:
        StoreError: a file cannot be read.
    """
    try:
        return ids.digest("weights", [ids.sha256_of(each) for each in paths])
    except OSError as error:
        raise StoreError(f"Weights cannot be read: {error}.", "Look at their rights and disk.") from error
