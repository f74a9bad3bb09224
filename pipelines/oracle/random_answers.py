"""The simulator that asks nobody: every event says what was the true answer to another question of its source.

For copying pre-training and for ablations: events that look like oracles and know nothing. Others' answers are taken
from the same part, so from the same source and split, and nothing depends on the order of parts. Which one an event
takes is drawn by seed and ids.
"""

import random
from collections.abc import Sequence
from typing import Any, ClassVar

from backends.protocols import Endpoint
from data_schemas import ids
from data_schemas.config import OracleConfig
from data_schemas.fingerprint import what_matters
from data_schemas.records import Dialogue, OracleRow
from pipelines.oracle.events import Said, oracle_row, row_or_reject
from pipelines.oracle.plan import PlannedRequest, plan_dialogue
from pipelines.oracle.share import in_share
from pipelines.stage import StageResult

NOBODY = Endpoint(name="random", base_url="", model="random", model_digest="")


class RandomOracleStage:
    """Oracle rows without a chat model. A part with one item alone has no other answers: its dialogues are refused."""

    name: ClassVar[str] = "oracle"
    version: ClassVar[int] = 3
    inputs: ClassVar[tuple[str, ...]] = ("mixing",)
    input_types: ClassVar[tuple[type, ...]] = (Dialogue,)
    output_type: ClassVar[type] = OracleRow

    def __init__(self, config: OracleConfig, seed: int) -> None:
        self.config = config
        self.seed = seed

    def matters(self) -> dict[str, Any]:
        """The schedule's configuration and the seed."""
        return {"config": what_matters(self.config), "seed": self.seed, "simulator": "random"}

    def run(self, batch: Sequence[tuple[Dialogue]]) -> StageResult[OracleRow]:
        """A row for each dialogue in this version's share, each event with the answer of another item of the batch;
        `taken_from` says whose."""
        everyone = sorted((dialogue for (dialogue,) in batch), key=lambda dialogue: dialogue.dialogue_id)
        result: StageResult[OracleRow] = StageResult([], [])
        for dialogue in in_share([dialogue for (dialogue,) in batch], self.config, self.seed):
            plan = plan_dialogue(dialogue.turns, self.config)
            others = [other for other in everyone if other.group_id != dialogue.group_id]
            answers = [
                self._other_answer(dialogue, number, request, others) for number, request in enumerate(plan.requests)
            ]
            row = oracle_row(dialogue, plan.events, answers, self.config, NOBODY, None, self.seed)
            row_or_reject(dialogue, row, self.config.max_failed_share, result)
        return result

    def _other_answer(
        self, dialogue: Dialogue, number: int, request: PlannedRequest, others: Sequence[Dialogue]
    ) -> Said:
        bodies = [
            (other.dialogue_id, turn.body)
            for other in others
            for turn in other.turns
            if turn.speaker == request.speaker and turn.body and turn.body != request.hint
        ]
        if not bodies:
            return Said("failed", error="random: its part has no other item with such a turn")
        draw = random.Random(ids.seed_for(self.seed, dialogue.dialogue_id, "random", number))
        other_id, text = draw.choice(bodies)
        return Said("answered", text, taken_from=other_id)
