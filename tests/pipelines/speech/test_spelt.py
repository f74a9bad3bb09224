"""Names spelt otherwise for engines alone: rows keep the true words, with the times of all that they are spelt with."""

from pathlib import Path
from typing import Any

import pytest

from backends.aligner.double import DoubleAligner
from backends.engine import Samples
from backends.tts.double import DoubleTts
from backends.tts.protocol import Speech
from data_schemas.config import AlignmentConfig, GateConfig, SpeechConfig
from data_schemas.records import Dialogue, DialogueClips, WordTiming
from pipelines.alignment.stage import AlignmentStage
from pipelines.audio import decode_flac
from pipelines.quality.word_errors import compare_transcript
from pipelines.speech.spelt import SpeltAligner, SpeltSpeech
from pipelines.speech.stage import SpeechStage
from spoken.lexicon import Lexicon, load_lexicon
from spoken.pronunciations import Pronunciations
from spoken.reader import Reader, speak, use_reader
from spoken.spoken_text import split_words
from tests.support.builders import make_dialogue, make_turn, make_utterance

QUESTION = "What did Goethe's friend say of SQL, and of Godel?"
SAID = "What did Gerta's friend say of my sequel, and of Gurdel?"
SPELT = Pronunciations({"Goethe": "Gerta", "SQL": "my sequel", "Godel": "Gurdel"})
LEXICON = Lexicon({"Gödel": "Godel"}, SPELT.spelt)


class Mouth(DoubleTts):
    """Keeps what it was told to say, tells the times of its words, and hears what was said last."""

    def __init__(self, heard: str | None = None) -> None:
        self.told: list[str] = []
        self.heard = heard

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        self.told.append(text)
        sound = super().synthesise(text, voice, speed)
        return Speech(sound.samples, tuple(DoubleAligner().align(sound.samples, 24_000, split_words(text))))

    def transcribe(self, samples: Samples, sample_rate_hz: int) -> str:
        return self.heard or self.told[-1]


class Ear(DoubleAligner):
    """Keeps the words it was to find."""

    def __init__(self) -> None:
        self.sought: list[str] = []

    def align(self, samples: Samples, sample_rate_hz: int, words: Any) -> list[WordTiming]:
        self.sought = list(words)
        return super().align(samples, sample_rate_hz, words)


def dialogue() -> Dialogue:
    return make_dialogue(make_turn(0, "B", [make_utterance(QUESTION)]))


def spoken(mouth: Mouth, asr: str = "none") -> DialogueClips:
    gate, listener = GateConfig(asr=asr, max_takes=1, max_voices=1), None if asr == "none" else mouth
    stage = SpeechStage(SpeechConfig(tts="double"), gate, SpeltSpeech(mouth, SPELT), listener, 0, LEXICON)
    result = stage.run([(dialogue(),)])
    assert [each.detail for each in result.rejects] == []
    return result.outputs[0]


def test_the_engine_is_told_the_spelling_and_its_times_are_of_the_true_words() -> None:
    mouth = Mouth()
    (clip,) = spoken(mouth).clips
    assert mouth.told == [SAID]
    assert [each.word for each in clip.words] == split_words(QUESTION)
    said = DoubleAligner().align(*_sound(spoken(Mouth())), split_words(SAID))
    assert [each.end_s for each in clip.words] == pytest.approx([e.end_s for e in said if e.word != "my"], abs=1e-3)


def test_the_aligner_seeks_the_spelling_and_a_word_lasts_as_long_as_all_of_it() -> None:
    clips, ear = spoken(Mouth()), Ear()
    stage = AlignmentStage(AlignmentConfig(aligner="double"), SpeltAligner(ear, SPELT))
    (words,) = stage.run([(dialogue(), clips)]).outputs
    assert ear.sought == split_words(SAID)
    (utterance,) = words.utterances
    assert [each.word for each in utterance.words] == split_words(QUESTION)
    sought = DoubleAligner().align(*_sound(clips), ear.sought)
    at = split_words(QUESTION).index("SQL")
    assert utterance.words[at].start_s == pytest.approx(sought[at].start_s, abs=1e-3)
    assert utterance.words[at].end_s == pytest.approx(sought[at + 1].end_s, abs=1e-3)
    assert utterance.words[-1].end_s == pytest.approx(sought[-1].end_s, abs=1e-3)


def _sound(clips: DialogueClips) -> tuple[Samples, int]:
    return decode_flac(clips.clips[0].flac), 24_000


class Forgetting(DoubleAligner):
    """Loses the last word."""

    def align(self, samples: Samples, sample_rate_hz: int, words: Any) -> list[WordTiming]:
        return super().align(samples, sample_rate_hz, words)[:-1]


def test_a_word_that_is_lost_is_not_hidden() -> None:
    stage = AlignmentStage(AlignmentConfig(aligner="double"), SpeltAligner(Forgetting(), SPELT))
    result = stage.run([(dialogue(), spoken(Mouth()))])
    assert [each.reason for each in result.rejects] == ["words_not_found"]


@pytest.mark.parametrize(
    ("heard", "n_errors"),
    [
        (SAID, 0),
        ("what did goethe's friend say of sql and of gödel", 0),
        ("What did Gerta's friend say of MySequel and of Girdle?", 0),
        ("what did Goethe's friend say of my sequel and of Gurdle", 0),
        ("What did Gertha's friend say of my sequel and of Gurtel?", 2),
    ],
)
def test_either_spelling_may_be_heard(heard: str, n_errors: int) -> None:
    (clip,) = spoken(Mouth(heard), asr="double").clips
    assert clip.hearing is not None
    assert (clip.hearing.n_names, clip.hearing.n_names_heard) == (2, 2)
    assert clip.hearing.n_word_errors == n_errors
    with use_reader(Reader(LEXICON)):
        assert compare_transcript(QUESTION, heard).n_misheard == 0


def test_another_name_is_not_heard_as_the_spelling() -> None:
    with use_reader(Reader(LEXICON)):
        found = compare_transcript("It was Goethe.", "It was Schiller.")
        assert (found.n_names_heard, found.n_misheard) == (0, 1)
        assert compare_transcript("It is my sequel to SQL.", "It is my sequel to SQL.").n_word_errors == 0
        assert compare_transcript("It is the film.", "It is Gerta.").n_word_errors == 2


def test_engines_keep_what_else_they_are() -> None:
    tts, aligner = SpeltSpeech(DoubleTts(), SPELT), SpeltAligner(DoubleAligner(), SPELT)
    assert (tts.name, tts.has_speed, tts.list_voices()) == (
        DoubleTts().name,
        DoubleTts().has_speed,
        DoubleTts().list_voices(),
    )
    assert (aligner.name, aligner.languages) == (DoubleAligner().name, DoubleAligner().languages)
    other = Pronunciations({"Goethe": "Gurta"})
    assert len({each.digest for each in (tts, SpeltSpeech(DoubleTts(), other), DoubleTts())}) == 3
    assert len({each.digest for each in (aligner, SpeltAligner(DoubleAligner(), other), DoubleAligner())}) == 3


class Short(Mouth):
    max_chars = 30


def test_a_spelling_that_is_too_long_for_the_engine_is_said_in_pieces() -> None:
    mouth = Short()
    speech = SpeltSpeech(mouth, SPELT).synthesise(
        "It is of SQL, and SQL, and SQL.", DoubleTts().list_voices()[0].name, 1.0
    )
    assert " ".join(mouth.told) == "It is of my sequel, and my sequel, and my sequel."
    assert len(mouth.told) > 1
    assert [each.word for each in speech.words] == split_words("It is of SQL, and SQL, and SQL.")


def test_our_lexicon_spells_names_for_engines_and_writes_them_truly(tmp_path: Path) -> None:
    assert speak("Gödel, Nietzsche and Goethe's friend.") == "Godel, Nietzsche and Goethe's friend."
    ours = load_lexicon(None).pronunciations
    assert ours.respell_text("Nietzsche's book, of Godel.") == "Neecha's book, of Gurdel."
    path = tmp_path / "mine.tsv"
    path.write_text("kg\tkilos\nNietzsche\tNietzsche\nXylo Inc.\tXylo\tzy low\n", encoding="utf-8")
    mine = load_lexicon(str(path))
    with use_reader(Reader(mine)):
        assert speak("five kg of Xylo Inc. ore") == "five kilos of Xylo ore"
    assert mine.pronunciations.respell_text("Xylo of Nietzsche, Goethe") == "zy low of Nietzsche, Gerta"
    assert mine.digest != load_lexicon(None).digest
