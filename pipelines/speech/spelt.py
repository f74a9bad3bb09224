"""Text-to-speech and alignment with respelt words (`spoken/pronunciations.py`), timed by the true words."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from backends.aligner.protocol import Aligner, AlignmentRefused
from backends.engine import Samples
from backends.tts.long_texts import say
from backends.tts.protocol import Speech, TextToSpeech, Voice
from data_schemas import ids
from data_schemas.records import WordTiming
from spoken.pronunciations import Pronunciations
from spoken.spoken_text import split_words


class SpeltSpeech:
    """A text-to-speech engine that speaks texts by their pronunciations; its word timings are those of the text."""

    max_chars = None

    def __init__(self, tts: TextToSpeech, pronunciations: Pronunciations) -> None:
        self._tts = tts
        self._pronunciations = pronunciations

    @property
    def name(self) -> str:
        """The engine's name."""
        return self._tts.name

    @property
    def digest(self) -> str:
        """The digest of the engine and the respellings."""
        return ids.digest("spelt", self._tts.digest, self._pronunciations.digest)

    @property
    def has_speed(self) -> bool:
        """Whether the engine supports speeds."""
        return self._tts.has_speed

    @property
    def max_calls_in_flight(self) -> int:
        """The engine's limit."""
        return self._tts.max_calls_in_flight

    def list_voices(self) -> Sequence[Voice]:
        """Returns the engine's voices."""
        return self._tts.list_voices()

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        """Synthesises a text in its respelling, in several pieces if that is too long for the engine.

        There are no word timings if the engine does not time all words of the respelling.

        Raises:
            SpeechRefused, TakeRefused, BackendError: as the engine's.
        """
        speech = say(self._tts, self._pronunciations.respell_text(text), voice, speed, take)
        words = split_words(text)
        groups = self._pronunciations.respell_words(words)
        if [each.word for each in speech.words] != list(chain.from_iterable(groups)):
            return replace(speech, words=())  # the engine does not time all words
        return replace(speech, words=tuple(_merge_timings(words, groups, speech.words)))


class SpeltAligner:
    """An aligner that finds words by their pronunciations."""

    def __init__(self, aligner: Aligner, pronunciations: Pronunciations) -> None:
        self._aligner = aligner
        self._pronunciations = pronunciations

    @property
    def name(self) -> str:
        """The aligner's name."""
        return self._aligner.name

    @property
    def digest(self) -> str:
        """The digest of the aligner and the respellings."""
        return ids.digest("spelt", self._aligner.digest, self._pronunciations.digest)

    @property
    def prefers_own_times(self) -> bool:
        """Whether the aligner prefers the timings of the engine."""
        return self._aligner.prefers_own_times

    @property
    def languages(self) -> tuple[str, ...]:
        """The aligner's languages."""
        return self._aligner.languages

    def align(self, samples: Samples, sample_rate_hz: int, words: Sequence[str]) -> list[WordTiming]:
        """Returns one timing for each word, from the start to the end of its respelling.

        Raises:
            AlignmentRefused, BackendError: as the aligner's, or the aligner does not time all words.
        """
        groups = self._pronunciations.respell_words(words)
        sought = list(chain.from_iterable(groups))
        timings = self._aligner.align(samples, sample_rate_hz, sought)
        if [each.word for each in timings] != sought:
            raise AlignmentRefused(f"{len(timings)} of {len(sought)} words timed")
        return list(_merge_timings(words, groups, timings))


def _merge_timings(
    words: Sequence[str], groups: Sequence[Sequence[str]], timings: Sequence[WordTiming]
) -> Iterator[WordTiming]:
    """Yields one timing for each word, from those of the words `groups` by which it is respelt.

    Its score is the mean of their scores, weighted by their duration.
    """
    at = 0
    for word, group in zip(words, groups, strict=True):
        parts = timings[at : at + len(group)]
        at += len(group)
        if len(parts) == 1:
            yield replace(parts[0], word=word)
            continue
        lengths_s = [max(each.end_s - each.start_s, 1e-3) for each in parts]
        total = sum(each.score * length_s for each, length_s in zip(parts, lengths_s, strict=True))
        yield replace(parts[0], word=word, end_s=parts[-1].end_s, score=total / sum(lengths_s))
