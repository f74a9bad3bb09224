"""Synthesises sentences as clean speech with word timings, by the pipeline's stages."""

from collections.abc import Sequence

from backends.engine import Samples
from data_schemas import ids
from data_schemas.config.speech_rows import SpeechRowsConfig
from data_schemas.records import Dialogue, DialogueWords, Provenance, Reject, SpokenSentence
from pipelines.alignment.stage import AlignmentStage
from pipelines.audio import decode_flac
from pipelines.run.stages import build_aligner, build_recogniser, build_tts
from pipelines.script.broken import find_broken_span
from pipelines.script.exchange import capitalise_sentences
from pipelines.script.forms.turns import Reply, make_assistant_turn
from pipelines.sentences.corpus import Sentence
from pipelines.speech.stage import SpeechStage
from spoken.lexicon import load_lexicon
from spoken.reader import Reader, Unspeakable, read_aloud, use_reader
from spoken.rules.rule import use_topic
from spoken.spoken_text import SpokenText

STAGE = "sentence"
"""The stage name in rejects of reading; those of the pipeline's stages have their names."""

Said = tuple[SpokenSentence, Samples]
"""A sentence with its clean audio, float32 [n_samples] at 24 kHz; times start at its first sample."""


class SentenceSpeaker:
    """Speaks sentences with the assistant's voice; the engines are loaded when first used.

    Raises:
        ConfigError: a back-end is not installed, or the voice does not exist.
    """

    def __init__(self, config: SpeechRowsConfig) -> None:
        self._config = config
        lexicon = load_lexicon(config.lexicon)
        tts = build_tts(config.speech, lexicon)
        self.voice = config.speech.voice_a or tts.list_voices()[0].name
        alone = config.speech.model_copy(update={"voice_a": self.voice, "voices_b": [self.voice]})
        self._reader = Reader(lexicon)
        self._speech = SpeechStage(alone, config.gate, tts, build_recogniser(config.gate), config.seed, lexicon)
        self._alignment = AlignmentStage(config.alignment, build_aligner(config.alignment, lexicon))
        self._lexicon_digest = lexicon.digest

    @property
    def digest(self) -> str:
        """Identifies reading, voice, gate and aligner."""
        stages = [[each.version, each.get_fingerprint_fields()] for each in (self._speech, self._alignment)]
        return ids.digest("sentence speaker", self._lexicon_digest, stages)

    def say(self, sentences: Sequence[Sentence]) -> tuple[list[Said], list[Reject]]:
        """Synthesises sentences; returns the spoken ones with their audio, in order, and rejects of the others."""
        read, rejects = self.read(sentences)
        dialogues = [_make_dialogue(sentence, said) for sentence, said in read]
        spoken = self._speech.run([(each,) for each in dialogues])
        clips = {each.dialogue_id: each for each in spoken.outputs}
        heard = [(each, clips[each.dialogue_id]) for each in dialogues if each.dialogue_id in clips]
        timed = self._alignment.run(heard)
        sentence_of = {sentence.sentence_id: (sentence, said) for sentence, said in read}
        made = []
        for words in timed.outputs:
            (clip,) = clips[words.dialogue_id].clips
            spoken_sentence = _make_spoken_sentence(*sentence_of[words.dialogue_id], clip.voice, clip.speed, words)
            made.append((spoken_sentence, decode_flac(clip.flac)))
        return made, [*rejects, *spoken.rejects, *timed.rejects]

    def read(self, sentences: Sequence[Sentence]) -> tuple[list[tuple[Sentence, SpokenText]], list[Reject]]:
        """Returns sentences with their spoken form, and rejects of those without a clear reading or of wrong length."""
        read, rejects = list[tuple[Sentence, SpokenText]](), list[Reject]()
        with use_reader(self._reader):
            for each in sentences:
                try:
                    read.append((each, self._read_one(each)))
                except Unspeakable as refusal:
                    rejects.append(_make_reject(each, refusal.reason, refusal.detail))
                except _WrongLength as refusal:
                    rejects.append(_make_reject(each, "wrong_length", str(refusal)))
        return read, rejects

    def _read_one(self, sentence: Sentence) -> SpokenText:
        """Returns a sentence in spoken form; raises `Unspeakable`, or `_WrongLength` by its number of spoken words."""
        with use_topic(sentence.about):
            said = capitalise_sentences(read_aloud(sentence.written))
        if sentence.kind == "sentence" and (broken := find_broken_span(said.written, said.text)):
            raise Unspeakable("broken_text", broken)
        if not self._config.min_words <= said.n_words <= self._config.max_words:
            raise _WrongLength(f"{said.n_words} words: {said.text}")
        return said


class _WrongLength(Exception):
    """A sentence of too few or too many spoken words."""


def _make_reject(sentence: Sentence, reason: str, detail: str) -> Reject:
    """Makes the reject of a sentence that could not be read."""
    return Reject(
        item_id=sentence.item_id or sentence.sentence_id,
        dialogue_id=sentence.sentence_id,
        source=sentence.source,
        stage=STAGE,
        reason=reason,
        detail=detail[:500],
    )


def _make_spoken_sentence(
    sentence: Sentence, said: SpokenText, voice: str, speed: float, words: DialogueWords
) -> SpokenSentence:
    """Makes the record of a spoken sentence, with the timings of its only utterance."""
    return SpokenSentence(
        sentence_id=sentence.sentence_id,
        kind=sentence.kind,
        split=sentence.split,
        source=sentence.source,
        item_id=sentence.item_id,
        spoken_text=said.text,
        voice=voice,
        speed=speed,
        words=words.utterances[0].words,
    )


def _make_dialogue(sentence: Sentence, said: SpokenText) -> Dialogue:
    """Makes a dialogue of one turn of the assistant, since the pipeline's stages process dialogues."""
    return Dialogue(
        dialogue_id=sentence.sentence_id,
        item_id=sentence.item_id or sentence.sentence_id,
        group_id=sentence.sentence_id,
        source=sentence.source,
        native_id=None,
        variant=0,
        split=sentence.split,
        language="en",
        category=None,
        licence=None,
        revision=None,
        form=sentence.kind,
        question="",
        answer="",
        turns=(make_assistant_turn(0, Reply(None, said, None, None)),),
        provenance=Provenance.from_script(STAGE, seed=None),
    )
