"""The script stage: an item becomes a dialogue of two turns, in words, by rules."""

from collections.abc import Sequence
from typing import Any, ClassVar

from data_schemas import ids
from data_schemas.config import ScriptConfig
from data_schemas.fingerprint import what_matters
from data_schemas.records import Dialogue, Item, Placement, Provenance, Turn, Utterance, WrittenSpan
from pipelines.script.phrasing import Exchange, phrase
from pipelines.script.refusals import NotAskable
from pipelines.script.speakable import Unspeakable, spoken_words
from pipelines.stage import StageResult, refused

METHOD = "rules-2"


class ScriptStage:
    """Items to dialogues of a question (B, the user) and its answer (A, the assistant)."""

    name: ClassVar[str] = "script"
    version: ClassVar[int] = 2
    inputs: ClassVar[tuple[str, ...]] = ("items",)
    input_types: ClassVar[tuple[type, ...]] = (Item,)
    output_type: ClassVar[type] = Dialogue

    def __init__(self, config: ScriptConfig, seed: int) -> None:
        self._config = config
        self._seed = seed

    def matters(self) -> dict[str, Any]:
        """The limits and the seed; the rules themselves are told by the stage's version."""
        return {**what_matters(self._config), "seed": self._seed}

    def run(self, batch: Sequence[tuple[Item]]) -> StageResult[Dialogue]:
        """One dialogue an item, or one reject with the reason of `refusals` or `spoken`."""
        result: StageResult[Dialogue] = StageResult([], [])
        for (item,) in batch:
            try:
                said = phrase(item, self._config, ids.seed_for(self._seed, item.item_id, self.name))
            except (NotAskable, Unspeakable) as refusal:
                result.rejects.append(refused(item, self.name, refusal.reason, refusal.detail))
            else:
                result.outputs.append(self._dialogue(item, said))
        return result

    def _dialogue(self, item: Item, said: Exchange) -> Dialogue:
        return Dialogue(
            dialogue_id=ids.dialogue_id(item.item_id, 0),
            item_id=item.item_id,
            group_id=item.group_id,
            source=item.source,
            native_id=item.native_id,
            variant=0,
            split=item.split,
            language=item.language,
            category=item.category,
            licence=item.licence,
            revision=item.revision,
            form="plain",
            question=item.question,
            answer=item.answer,
            turns=(
                _turn(0, "B", item.question, said.question, None),
                _turn(1, "A", item.answer, said.answer, said.answer_word_index),
            ),
            provenance=_provenance(self._seed),
        )


def _turn(index: int, speaker: str, written: str, spoken: str, answer_word_index: int | None) -> Turn:
    utterance = Utterance(
        kind="speech",
        spoken_text=spoken,
        written_spans=tuple(WrittenSpan(start_char=None, end_char=None) for _ in spoken_words(spoken)),
        placement=Placement(rule="after", seconds=None, turn_index=None, word_index=None),
        hearing=None,
        voice=None,
        speed=None,
        start_s=None,
        end_s=None,
        words=(),
    )
    return Turn(
        turn_index=index,
        speaker=speaker,
        written_text=written,
        spoken_text=spoken,
        lead=None,
        body=spoken,
        tail=None,
        answer_word_index=answer_word_index,
        keyword_delay_s=None,
        cut_s=None,
        start_s=None,
        end_s=None,
        utterances=(utterance,),
    )


def _provenance(seed: int) -> Provenance:
    return Provenance(
        script_method=METHOD,
        tts=None,
        tts_digest=None,
        voice_a=None,
        voice_b=None,
        aligner=None,
        aligner_digest=None,
        seed=seed,
    )
