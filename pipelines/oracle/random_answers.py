"""The random simulator: every event has the true answer to another question of its source, without a chat model.

For pre-training of copying and for ablations: events that look like oracles and know nothing. The answers come from the
same part, so from the same source and split, and nothing depends on the order of parts. An item that is alone in its
part takes answers from the first part, by id, that has another item: later parts have greater ids and change nothing.
The answer of an event is drawn by seed and ids.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar

from backends.chat.protocol import Endpoint
from data_schemas import ids
from data_schemas.config import OracleConfig
from data_schemas.fingerprint import dump_relevant_fields
from data_schemas.records import Dialogue, OracleRow
from pipelines.oracle.events import RequestOutcome, add_row_or_reject, make_oracle_row
from pipelines.oracle.plan import PlannedRequest, plan_dialogue
from pipelines.oracle.share import select_share
from pipelines.stage import StageResult, make_reject

ONLY_ITEM = "only_item_of_its_source"
DialoguesOf = Callable[[str, str], Iterator[Sequence[Dialogue]]]
"""The dialogues of each part of a source and split, in order of the parts' ids."""
NOBODY = Endpoint(name="random", base_url="", model="random", model_digest="")


class RandomOracleStage:
    """Makes oracle rows without a chat model.

    Args:
        dialogues_of: called if a part has only one item. If its source and split have no other either, its dialogues
            are rejected, and tried again by a later run.
    """

    name: ClassVar[str] = "oracle"
    version: ClassVar[int] = 4
    inputs: ClassVar[tuple[str, ...]] = ("mixing",)
    input_types: ClassVar[tuple[type, ...]] = (Dialogue,)
    output_type: ClassVar[type] = OracleRow

    def __init__(
        self, config: OracleConfig, seed: int, dialogues_of: DialoguesOf = lambda _source, _split: iter(())
    ) -> None:
        self.config = config
        self.seed = seed
        self.dialogues_of = dialogues_of

    def get_fingerprint_fields(self) -> dict[str, Any]:
        """Returns what determines the rows besides the inputs: the schedule's configuration and the seed."""
        return {"config": dump_relevant_fields(self.config), "seed": self.seed, "simulator": "random"}

    def run(self, batch: Sequence[tuple[Dialogue]]) -> StageResult[OracleRow]:
        """Returns a row for each dialogue in this version's share; `taken_from` names the origin of an answer.

        A dialogue is rejected if its source has no other item to take answers from, or if too many of its events
        failed.
        """
        everyone = [dialogue for (dialogue,) in batch]
        result: StageResult[OracleRow] = StageResult([], [])
        n_alone = 0
        for dialogue in select_share(everyone, self.config, self.seed):
            others = self._find_others(dialogue, everyone)
            if not others:
                n_alone += 1
                detail = f"{dialogue.dialogue_id}: no other item of {dialogue.source}, {dialogue.split}, to take from"
                result.rejects.append(make_reject(dialogue, self.name, ONLY_ITEM, detail))
                continue
            plan = plan_dialogue(dialogue.turns, self.config)
            answers = [
                self._draw_answer(dialogue, number, request, others) for number, request in enumerate(plan.requests)
            ]
            row = make_oracle_row(dialogue, plan.events, answers, self.config, NOBODY, None, self.seed)
            add_row_or_reject(dialogue, row, self.config.max_failed_share, result)
        return replace(result, n_to_retry=n_alone)

    def _find_others(self, dialogue: Dialogue, everyone: Sequence[Dialogue]) -> list[Dialogue]:
        """Returns dialogues of other items, sorted by id: those of its part, else of the first part that has any."""
        for part in chain([everyone], self.dialogues_of(dialogue.source, dialogue.split)):
            if others := [other for other in part if other.group_id != dialogue.group_id]:
                return sorted(others, key=lambda other: other.dialogue_id)
        return []

    def _draw_answer(
        self, dialogue: Dialogue, number: int, request: PlannedRequest, others: Sequence[Dialogue]
    ) -> RequestOutcome:
        """Returns a turn's body that the speaker of the request says in another dialogue, but not the true answer.

        It is drawn by seed. If there is none, the outcome has the status `failed`.

        Args:
            number: index of the request among those of the dialogue.
            others: dialogues to draw from.
        """
        bodies = [
            (other.dialogue_id, turn.body)
            for other in others
            for turn in other.turns
            if turn.speaker == request.speaker and turn.body and turn.body != request.hint
        ]
        if not bodies:
            return RequestOutcome("failed", error="random: no other item has such a turn, or all say the same")
        draw = random.Random(ids.derive_seed(self.seed, dialogue.dialogue_id, "random", number))
        other_id, text = draw.choice(bodies)
        return RequestOutcome("answered", text, taken_from=other_id)
