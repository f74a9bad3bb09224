"""The alignment stage: finds the word timings of clean speech; a dialogue with untimed words is rejected."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from backends.aligner.protocol import Aligner, AlignmentRefused, TimesRefused, check_order
from data_schemas.config import AlignmentConfig
from data_schemas.fingerprint import dump_relevant_fields
from data_schemas.records import (
    Dialogue,
    DialogueClips,
    DialogueWords,
    Reject,
    UtteranceClip,
    UtteranceWords,
    WordTiming,
)
from data_schemas.units import SAMPLE_RATE_HZ, round_s, samples_to_seconds
from pipelines.audio import decode_flac
from pipelines.stage import StageResult, make_reject
from spoken.spoken_text import split_words


class AlignmentStage:
    """Times the words of each clean clip; the offsets of the dialogue are added when clips are mixed."""

    name: ClassVar[str] = "alignment"
    version: ClassVar[int] = 3
    inputs: ClassVar[tuple[str, ...]] = ("wording", "speech")
    input_types: ClassVar[tuple[type, ...]] = (Dialogue, DialogueClips)
    output_type: ClassVar[type] = DialogueWords

    def __init__(self, config: AlignmentConfig, aligner: Aligner) -> None:
        self.config = config
        self.aligner = aligner

    def get_fingerprint_fields(self) -> dict[str, Any]:
        """Returns what determines the word timings besides the inputs: the configuration and the aligner's digest."""
        return {"config": dump_relevant_fields(self.config), "aligner": self.aligner.digest}

    def run(self, batch: Sequence[tuple[Dialogue, DialogueClips]]) -> StageResult[DialogueWords]:
        """Returns the word timings of each dialogue, by utterance, from the start of each clip.

        A dialogue is rejected if words are missing, out of order or outside their clip, or if their mean score is too
        low.
        """
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
            except TimesRefused as refusal:
                rejects.append(make_reject(dialogue, self.name, "word_outside", str(refusal)))
            except AlignmentRefused as refusal:
                rejects.append(make_reject(dialogue, self.name, "words_not_found", str(refusal)))
            except _UnreliableTimings as doubt:
                rejects.append(make_reject(dialogue, self.name, "score_low", str(doubt)))
        return StageResult(outputs, rejects)

    def _align(self, dialogue: Dialogue, clip: UtteranceClip) -> UtteranceWords:
        """Returns the checked timings of the words of one clip, in seconds from its start (`_find_times`).

        Raises:
            AlignmentRefused: words could not be timed (`TimesRefused`: they are out of order or outside the clip).
            _UnreliableTimings: their mean score is below the minimum for their method.
        """
        utterance = dialogue.turns[clip.turn_index].utterances[clip.utterance_index]
        words = split_words(utterance.spoken_text)
        timings = self._find_times(clip, words)
        if [timing.word for timing in timings] != words:
            raise AlignmentRefused(f"{len(timings)} of {len(words)} words timed in turn {clip.turn_index}")
        check_order(timings, samples_to_seconds(clip.n_samples))
        self._check_scores(timings, utterance.spoken_text)
        return UtteranceWords(
            turn_index=clip.turn_index,
            utterance_index=clip.utterance_index,
            words=tuple(_round_timing(timing) for timing in timings),
        )

    def _find_times(self, clip: UtteranceClip, words: list[str]) -> Sequence[WordTiming]:
        """Returns the speech engine's timings if the aligner prefers them and they fit, else those of the aligner."""
        if self.aligner.prefers_own_times and [each.word for each in clip.words] == words:
            return clip.words
        return self.aligner.align(decode_flac(clip.flac), SAMPLE_RATE_HZ, words)

    def _check_scores(self, timings: Sequence[WordTiming], text: str) -> None:
        """Raises `_UnreliableTimings` if the words' mean score is below the minimum for their method (if any)."""
        if not timings:
            return
        least = self.config.min_mean_score.get(timings[0].method)
        if least is None:
            return
        mean = sum(timing.score for timing in timings) / len(timings)
        if mean < least:
            raise _UnreliableTimings(f"the words of {text!r} score {mean:.2f} on average")


class _UnreliableTimings(Exception):
    """The word timings are not reliable; the message says why."""


def _round_timing(timing: WordTiming) -> WordTiming:
    """Returns the timing with its times and score rounded as rows store them."""
    return replace(
        timing, start_s=round_s(timing.start_s), end_s=round_s(timing.end_s), score=round(float(timing.score), 4)
    )
