"""Ids, digests and seeds as pure functions of content, never of a path or the time."""

import hashlib
import json
import re
from pathlib import Path


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
    """Returns an item's id, from its id in the source or else from its question, so that it survives a new answer.

    In an id of the source, characters other than ASCII letters, digits, `.`, `_` and `-` become `_`; such an id ends in
    a digest of the original one.
    """
    if native_id is None:
        return f"{source}-{digest(question)}"
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", native_id)
    return f"{source}-{safe}" if safe == native_id else f"{source}-{safe}-{digest(native_id, n_hex=8)}"


def make_dialogue_id(item: str, variant: int) -> str:
    """Returns a dialogue's id: the id of its item and the number of the variant."""
    return f"{item}-v{variant}"


def derive_seed(*parts: object) -> int:
    """Returns a seed in [0, 2**63) derived from ids, so that random draws do not depend on order or on workers."""
    return int(digest("seed", *parts), 16) >> 1
