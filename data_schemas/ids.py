"""Ids, question groups, splits and seeds as pure functions of content, never of a path or the time."""

import hashlib
import json
import re
import unicodedata
from pathlib import Path

from data_schemas.config import SplitConfig


def digest(*parts: object, n_hex: int = 16) -> str:
    """Returns the first `n_hex` hexadecimal digits of the SHA-256 of the parts' canonical JSON."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:n_hex]


def compute_sha256(file: Path) -> str:
    """Returns the SHA-256 of a file's content as 64 hexadecimal digits.

    Raises:
        OSError: if the file cannot be read.
    """
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def make_item_id(source: str, native_id: str | None, question: str) -> str:
    """Returns an item's id, from its id in the source or else from its question, so that it survives a new answer."""
    if native_id is None:
        return f"{source}-{digest(question)}"
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", native_id)
    return f"{source}-{safe}" if safe == native_id else f"{source}-{safe}-{digest(native_id, n_hex=8)}"


def make_dialogue_id(item: str, variant: int) -> str:
    """Returns a dialogue's id: the id of its item and the number of the variant."""
    return f"{item}-v{variant}"


def normalise_question(question: str) -> str:
    """Returns a question with case, Unicode forms, punctuation and white space normalised, to find duplicates."""
    text = unicodedata.normalize("NFKC", question).casefold()
    return " ".join(re.findall(r"\w+|[^\w\s.,;:!?\"'()]", text))


def make_group_id(question: str) -> str:
    """Returns the id of the group of all items, from any source, with the same normalised question."""
    return f"q-{digest(normalise_question(question))}"


def choose_split(group: str, config: SplitConfig) -> str:
    """Returns `train`, `validation` or `test`: the same for all items of a group, in any dataset."""
    share = int(digest("split", config.seed, group), 16) / 16**16
    if share < config.test_share:
        return "test"
    return "validation" if share < config.test_share + config.validation_share else "train"


def derive_seed(*parts: object) -> int:
    """Returns a seed in [0, 2**63) derived from ids, so that random draws do not depend on order or on workers."""
    return int(digest("seed", *parts), 16) >> 1
