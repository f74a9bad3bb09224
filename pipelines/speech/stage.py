"""The speech stage: synthesises each utterance separately, at one level, until it passes the quality gate."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

from backends.asr.protocol import Recogniser
from backends.tts.long_texts import say
from backends.tts.protocol import Speech, SpeechRefused, TakeRefused, TextToSpeech
from data_schemas.config import GateConfig, SpeechConfig
from data_schemas.fingerprint import dump_relevant_fields, get_versions
from data_schemas.records import USERS_BY, Dialogue, DialogueClips, Hearing, Reject, UtteranceClip
from pipelines.audio import scale_to_level, to_flac
from pipelines.speech.gate import Gate, TakeFault, find_answer_words
from pipelines.speech.in_flight import EngineThreads
from pipelines.speech.voices import SpeakerVoices
from pipelines.stage import StageResult, make_reject
from spoken.lexicon import Lexicon, load_lexicon
from spoken.reader import Reader, use_reader

SPEED_OF_TAKE = (1.0, 0.95, 1.05, 0.92, 1.08)
"""Factors on a speaker's speed, one per take. Most engines return the same samples for the same arguments and have no
seed, so takes differ in speed: the same words sound different at a slightly different speed, and the change of tempo is
inaudible. Engines with random output also get the number of the take, and engines without a speed only that."""

_REFUSED = "speech_refused"
_SPEED_MIN, _SPEED_MAX = 0.5, 2.0  # the limits of `SpeechConfig`

_LISTENS_WITH = ("jiwer", "rapidfuzz", "phonemizer", "espeakng-loader", "pocketsphinx", "pyspellchecker")
"""Packages whose versions affect which takes pass, because `pipelines.quality.word_errors` compares with them."""

UtteranceKey = tuple[int, int]
"""Index of a turn and index of an utterance in it."""


class SpeechStage:
    """Synthesises every utterance; a speaker keeps voice and speed through a dialogue, except in repeated takes.

    Args:
        recogniser: transcribes each utterance; None if only the audio is judged.
        lexicon: used to read transcripts; None for the built-in one. Pronunciations in `tts` are up to `SpeltSpeech`.
        tts_b: the text-to-speech engine of the user; None for `tts`.

    Raises:
        ConfigError: as `SpeakerVoices`.
    """

    name: ClassVar[str] = "speech"
    version: ClassVar[int] = 5
    inputs: ClassVar[tuple[str, ...]] = ("wording",)
    input_types: ClassVar[tuple[type, ...]] = (Dialogue,)
    output_type: ClassVar[type] = DialogueClips

    def __init__(
        self,
        config: SpeechConfig,
        gate: GateConfig,
        tts: TextToSpeech,
        recogniser: Recogniser | None,
        seed: int,
        lexicon: Lexicon | None = None,
        tts_b: TextToSpeech | None = None,
    ) -> None:
        self.config = config
        self.tts = tts
        self.tts_b = tts_b
        self._engines = {"A": tts, "B": tts_b or tts}
        self._threads = EngineThreads(*(engine for engine in (tts, tts_b, recogniser) if engine is not None))
        self.gate = Gate(gate, recogniser, self._threads)
        self.cast = SpeakerVoices(config, self._engines, seed)
        self.seed = seed
        self._reader = Reader(lexicon or load_lexicon(None))

    def get_fingerprint_fields(self) -> dict[str, Any]:
        """Returns what determines the clips besides the inputs, also the packages that compare transcripts."""
        recogniser = self.gate.recogniser
        return {
            "config": dump_relevant_fields(self.config),
            "gate": dump_relevant_fields(self.gate.config),
            "seed": self.seed,
            "tts": self.tts.digest,
            "recogniser": recogniser.digest if recogniser else None,
            "compared_with": get_versions(*_LISTENS_WITH) if recogniser else None,
            "voices": [[voice.name, voice.digest] for voice in self.cast.list_voices()],
            **({"tts_b": self.tts_b.digest} if self.tts_b else {}),
        }

    def run(self, batch: Sequence[tuple[Dialogue]]) -> StageResult[DialogueClips]:
        """Returns the clips of each dialogue, or its reject if every voice fails with an utterance."""
        made = self._threads.map(self._speak_or_reject, [dialogue for (dialogue,) in batch])
        return StageResult(
            [each for each in made if isinstance(each, DialogueClips)],
            [each for each in made if isinstance(each, Reject)],
        )

    def _speak_or_reject(self, dialogue: Dialogue) -> DialogueClips | Reject:
        """Returns the clips of a dialogue, or its reject if there is no voice or each one fails with an utterance."""
        try:
            with use_reader(self._reader):
                return self._speak(dialogue)
        except SpeechRefused as refusal:  # there is no voice of the dialogue's language
            return make_reject(dialogue, self.name, _REFUSED, str(refusal))
        except _Failed as failure:
            return make_reject(dialogue, self.name, failure.fault.reason, failure.fault.detail)

    def _speak(self, dialogue: Dialogue) -> DialogueClips:
        """Synthesises all utterances of a dialogue; returns the clips with the names and digests of their engines.

        Raises:
            _Failed, SpeechRefused: as `_speak_as`.
        """
        clips = {place: clip for speaker in ("A", "B") for place, clip in self._speak_as(speaker, dialogue).items()}
        recogniser = self.gate.recogniser
        tts, tts_digest = self.tts.name, self.tts.digest
        if self.tts_b is not None:
            tts, tts_digest = f"{tts}{USERS_BY}{self.tts_b.name}", f"{tts_digest}; {self.tts_b.digest}"
        return DialogueClips(
            dialogue_id=dialogue.dialogue_id,
            tts=tts,
            tts_digest=tts_digest,
            asr=recogniser.name if recogniser else None,
            asr_digest=recogniser.digest if recogniser else None,
            clips=tuple(clips[place] for place in sorted(clips)),
        )

    def _speak_as(self, speaker: str, dialogue: Dialogue) -> dict[UtteranceKey, UtteranceClip]:
        """Synthesises all utterances of one speaker with the first voice whose every utterance passes the gate.

        Raises:
            _Failed: no voice passed; with the fault of the last one.
            SpeechRefused: there is no voice of the dialogue's language.
        """
        speed = self.cast.draw_speed(dialogue.dialogue_id, speaker)
        places = [
            (turn.turn_index, index)
            for turn in dialogue.turns
            if turn.speaker == speaker
            for index in range(len(turn.utterances))
        ]
        n_takes: Counter[UtteranceKey] = Counter()
        failure = _Failed(TakeFault("misheard", "no voice was tried"))
        for voice in self.cast.list_candidates(dialogue, speaker, self.gate.config.max_voices):
            try:
                return {place: self._speak_until_passed(dialogue, place, voice, speed, n_takes) for place in places}
            except _Failed as error:
                failure = error
        raise failure

    def _speak_until_passed(
        self, dialogue: Dialogue, place: UtteranceKey, voice: str, speed: float, n_takes: Counter[UtteranceKey]
    ) -> UtteranceClip:
        """Returns the clip of the first take of an utterance that passes the gate; `n_takes` counts the takes.

        If the engine refuses the text in this voice, no other take is tried.

        Raises:
            _Failed: no take passed; with the fault of the last one.
        """
        turn = dialogue.turns[place[0]]
        tts = self._engines[turn.speaker]
        utterance, answer = turn.utterances[place[1]], find_answer_words(turn, place[1])
        fault: TakeFault | None = None
        for take in range(self.gate.config.max_takes):
            take_speed = _compute_take_speed(speed, take) if tts.has_speed else speed
            n_takes[place] += 1
            try:
                with self._threads.call(tts):
                    said = say(tts, utterance.spoken_text, voice, take_speed, take)
            except TakeRefused as refusal:
                fault = TakeFault(_REFUSED, str(refusal))
                continue
            except SpeechRefused as refusal:
                raise _Failed(TakeFault(_REFUSED, str(refusal))) from refusal
            verdict = self.gate.judge(utterance, said.samples, take_speed, n_takes[place], answer)
            if verdict.fault is None:
                return self._make_clip(place, voice, take_speed, said, verdict.hearing)
            fault = verdict.fault
        assert fault is not None
        raise _Failed(fault)

    def _make_clip(
        self, place: UtteranceKey, voice: str, speed: float, said: Speech, hearing: Hearing | None
    ) -> UtteranceClip:
        """Makes the clip of a take that passed, scaled to the configured level."""
        level = scale_to_level(said.samples, self.config.level_dbfs)
        return UtteranceClip(
            turn_index=place[0],
            utterance_index=place[1],
            voice=voice,
            speed=speed,
            n_samples=len(level),
            flac=to_flac(level),
            words=said.words,
            hearing=hearing,
        )


class _Failed(Exception):
    """No take of an utterance passed, or its voice cannot say it."""

    def __init__(self, fault: TakeFault) -> None:
        super().__init__(fault.reason)
        self.fault = fault


def _compute_take_speed(speed: float, take: int) -> float:
    """Returns the speed of a take, given the speaker's: another for each take, within the limits."""
    return round(min(max(speed * SPEED_OF_TAKE[take], _SPEED_MIN), _SPEED_MAX), 3)
