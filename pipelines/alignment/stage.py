"""Clean speech to word times: every spoken word of every utterance, or the dialogue is rejected."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from backends.protocols import Aligner, AlignmentRefused
from data_schemas.config import AlignmentConfig
from data_schemas.fingerprint import what_matters
from data_schemas.records import Clip, Clips, Dialogue, DialogueWords, Reject, UtteranceWords, WordTiming
from data_schemas.units import SAMPLE_RATE_HZ, round_s
from pipelines.audio import from_flac
from pipelines.script.speakable import spoken_words
from pipelines.stage import StageResult, refused


class AlignmentStage:
    """Times the words of each clean clip; offsets on the dialogue's clock are added when clips are mixed."""

    name: ClassVar[str] = "alignment"
    version: ClassVar[int] = 1
    inputs: ClassVar[tuple[str, ...]] = ("script", "speech")
    input_types: ClassVar[tuple[type, ...]] = (Dialogue, Clips)
    output_type: ClassVar[type] = DialogueWords

    def __init__(self, config: AlignmentConfig, aligner: Aligner) -> None:
        self.config = config
        self.aligner = aligner

    def matters(self) -> dict[str, Any]:
        """Configuration and the aligner's digest."""
        return {"config": what_matters(self.config), "aligner": self.aligner.digest}

    def run(self, batch: Sequence[tuple[Dialogue, Clips]]) -> StageResult[DialogueWords]:
        """Word times of each dialogue, or a reject where the aligner does not find its words."""
        outputs: list[DialogueWords] = []
        rejects: list[Reject] = []
        for dialogue, clips in batch:
            try:
                outputs.append(
                    DialogueWords(
                        dialogue_id=dialogue.dialogue_id,
                        aligner=self.aligner.name,
                        aligner_digest=self.aligner.digest,
                        utterances=tuple(self._align(dialogue, clip) for clip in clips.clips),
                    )
                )
            except AlignmentRefused as refusal:
                rejects.append(refused(dialogue, self.name, "words_not_found", str(refusal)))
        return StageResult(outputs, rejects)

    def _align(self, dialogue: Dialogue, clip: Clip) -> UtteranceWords:
        utterance = dialogue.turns[clip.turn_index].utterances[clip.utterance_index]
        words = spoken_words(utterance.spoken_text)
        timings = self.aligner.align(from_flac(clip.flac), SAMPLE_RATE_HZ, words)
        if [timing.word for timing in timings] != words:
            raise AlignmentRefused(f"{len(timings)} of {len(words)} words timed in turn {clip.turn_index}")
        return UtteranceWords(
            turn_index=clip.turn_index,
            utterance_index=clip.utterance_index,
            words=tuple(_rounded(timing) for timing in timings),
        )


def _rounded(timing: WordTiming) -> WordTiming:
    return replace(
        timing, start_s=round_s(timing.start_s), end_s=round_s(timing.end_s), score=round(float(timing.score), 4)
    )
