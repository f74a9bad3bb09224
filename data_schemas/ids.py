"""Names of things as pure functions of what they are: ids, groups, splits and seeds. Never of a path or a clock."""

import hashlib
import json
import re
import unicodedata
from pathlib import Path

from data_schemas.config import SplitConfig


def digest(*parts: object, n_hex: int = 16) -> str:
    """The first `n_hex` hexadecimal digits of the SHA-256 of the parts' canonical JSON."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:n_hex]


def sha256_of(file: Path) -> str:
    """The SHA-256 of a file's content, 64 hexadecimal digits.

    Raises:
        OSError: it cannot be read.
    """
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def item_id(source: str, native_id: str | None, question: str) -> str:
    """An item's id: by the id its source gives it, else by its question, so that a corrected answer keeps it."""
    if native_id is None:
        return f"{source}-{digest(question)}"
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", native_id)
    return f"{source}-{safe}" if safe == native_id else f"{source}-{safe}-{digest(native_id, n_hex=8)}"


def dialogue_id(item: str, variant: int) -> str:
    """A dialogue's id: its item and the number of the variant made from it."""
    return f"{item}-v{variant}"


def normalise_question(question: str) -> str:
    """A question without case, accents' forms, punctuation and white space: equal for what people call the same one."""
    text = unicodedata.normalize("NFKC", question).casefold()
    return " ".join(re.findall(r"\w+|[^\w\s.,;:!?\"'()]", text))


def group_id(question: str) -> str:
    """The group of all items, of any source, that ask the same question."""
    return f"q-{digest(normalise_question(question))}"


def split_of(group: str, config: SplitConfig) -> str:
    """`train`, `validation` or `test`, the same for all items of a group, whatever else is in the dataset."""
    share = int(digest("split", config.seed, group), 16) / 16**16
    if share < config.test_share:
        return "test"
    return "validation" if share < config.test_share + config.validation_share else "train"


def seed_for(*parts: object) -> int:
    """A seed in [0, 2**63) derived from ids, so that order and number of workers cannot change a draw."""
    return int(digest("seed", *parts), 16) >> 1
