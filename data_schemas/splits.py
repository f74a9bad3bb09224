"""Question groups, and their splits: train, validation and test, as pure functions of the question's text."""

import re
import unicodedata

from data_schemas.config import SplitConfig
from data_schemas.ids import digest


def normalise_question(question: str) -> str:
    """Returns a question without case and usual punctuation, with Unicode and spaces normalised, to find duplicates."""
    text = unicodedata.normalize("NFKC", question).casefold()
    return " ".join(re.findall(r"\w+|[^\w\s.,;:!?\"'()]", text))


def make_group_id(question: str) -> str:
    """Returns the id of the group of all items, from any source, with the same normalised question."""
    return f"q-{digest(normalise_question(question))}"


def choose_split(group: str, config: SplitConfig) -> str:
    """Returns `train`, `validation` or `test`: the same for all items of a group, in all datasets with this split."""
    share = int(digest("split", config.seed, group), 16) / 16**16
    if share < config.test_share:
        return "test"
    return "validation" if share < config.test_share + config.validation_share else "train"
