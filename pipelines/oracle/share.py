"""Selects the dialogues for a version of the oracles, if several simulators share a corpus."""

from collections.abc import Sequence

from data_schemas import ids
from data_schemas.config import OracleConfig
from data_schemas.records import Dialogue


def select_share(dialogues: Sequence[Dialogue], config: OracleConfig, seed: int) -> list[Dialogue]:
    """Returns the dialogues that are in the share of `config`'s version of the oracles (`is_in_share`)."""
    return [each for each in dialogues if is_in_share(each.dialogue_id, seed, config.share_from, config.share_to)]


def is_in_share(dialogue_id: str, seed: int, share_from: float, share_to: float) -> bool:
    """Returns whether a dialogue's position in [0, 1), drawn by its id and the run's seed, lies within the bounds.

    The upper bound is excluded, so versions with bounds 0 to 0.3 and 0.3 to 1 share no dialogue and cover all.
    """
    place = int(ids.digest("oracle share", seed, dialogue_id), 16) / 16**16
    return share_from <= place < share_to
