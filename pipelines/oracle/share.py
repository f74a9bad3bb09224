"""Which dialogues a version of the oracles is made for, where several simulators share a corpus."""

from collections.abc import Sequence

from data_schemas import ids
from data_schemas.config import OracleConfig
from data_schemas.records import Dialogue


def select_share(dialogues: Sequence[Dialogue], config: OracleConfig, seed: int) -> list[Dialogue]:
    """Those of some dialogues that a version is made for."""
    return [each for each in dialogues if is_in_share(each.dialogue_id, seed, config.share_from, config.share_to)]


def is_in_share(dialogue_id: str, seed: int, share_from: float, share_to: float) -> bool:
    """Whether the place that a dialogue draws in [0, 1), by its id and the run's seed, lies from one bound to below the
    other; so versions with bounds 0 to 0.3 and 0.3 to 1 have no dialogue in common and leave none out."""
    place = int(ids.digest("oracle share", seed, dialogue_id), 16) / 16**16
    return share_from <= place < share_to
