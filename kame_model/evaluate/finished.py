"""What came of each condition that was run to its end, so that an evaluation that was stopped goes on behind it."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from data_schemas import ids
from data_schemas.config.evaluation import EvaluationConfig
from data_schemas.store import Store
from kame_model.checkpoint.folder import digest_files
from kame_model.checkpoint.load import Checkpoint
from kame_model.encode.token_dataset import TokenDataset
from kame_model.evaluate.proof import Outcome

VERSION: Final = 2
"""Of what a run and its judgement come to; raising it has every condition run again.

2: an answer is told by an amount or all its words; a correction waits for the answer behind the lead."""


class Finished:
    """The outcomes of finished conditions, in a folder of the evaluation; of this evaluation alone.

    Args:
        store: the evaluation's folder.
        hears: whether somebody listens: then an outcome holds what was heard.

    Raises:
        StoreError: the weights cannot be read.
    """

    def __init__(
        self, store: Store, checkpoint: Checkpoint, dataset: TokenDataset, config: EvaluationConfig, hears: bool
    ) -> None:
        weights = digest_files([checkpoint.contents.weights])
        self._store = store
        self._key = ids.digest(VERSION, weights, dataset.fingerprint, config.model_dump(mode="json"), hears)

    def of(self, condition: str) -> list[Outcome] | None:
        """What came of a condition; None where it was not run to its end, or with other weights, rows or settings."""
        path = _path(condition)
        if not self._store.exists(path):
            return None
        first, *lines = self._store.read_bytes(path).decode().splitlines()
        return [Outcome(**json.loads(line)) for line in lines] if json.loads(first) == {"of": self._key} else None

    def keep(self, condition: str, outcomes: Sequence[Outcome]) -> None:
        """Keeps what came of a condition, in place of what an earlier evaluation left.

        Raises:
            StoreError: it cannot be written.
        """
        told = [{"of": self._key}, *(asdict(each) for each in outcomes)]
        text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in told)
        self._store.write_bytes(_path(condition), text.encode())


def _path(condition: str) -> str:
    return f"finished/{condition}.jsonl"
