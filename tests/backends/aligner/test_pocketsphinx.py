import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.aligner import pocketsphinx as module
from backends.aligner.arpabet import pronounce, to_arpabet
from backends.aligner.pocketsphinx import PocketsphinxAligner, align_phones
from backends.aligner.protocol import AlignmentRefused
from backends.engine import Samples
from backends.tts.espeak import Espeak
from backends.tts.kokoro import Kokoro

pytestmark = pytest.mark.full

PHONE = re.compile(
    "AA|AE|AH|AO|AW|AY|B|CH|D|DH|EH|ER|EY|F|G|HH|IH|IY|JH|K|L|M|N|NG|OW|OY|P|R|S|SH|T|TH|UH|UW|V|W|Y|Z|ZH"
)
WORDS = ["The", "zorblax", "studies", "DNA", "in", "the", "US"]  # zorblax is in no dictionary; US is not said like us
OTHER = ["She", "pays", "twenty", "five", "dollars"]

Sounds = dict[tuple[str, ...], Samples]


@pytest.fixture(scope="module")
def sounds() -> Sounds:
    kokoro = Kokoro()
    voice = kokoro.list_voices()[0].name
    return {tuple(words): kokoro.synthesise(" ".join(words), voice, 1.0).samples for words in (WORDS, OTHER)}


@pytest.fixture(scope="module")
def aligner() -> PocketsphinxAligner:
    return PocketsphinxAligner()


def test_words_are_timed_where_they_are_said(aligner: PocketsphinxAligner, sounds: Sounds) -> None:
    first, second = sounds[tuple(OTHER)], sounds[tuple(WORDS)]
    gap_s = 0.8
    both = np.concatenate([first, np.zeros(round(gap_s * 24_000), dtype=np.float32), second])
    timings = aligner.align(both, 24_000, OTHER + WORDS)
    first_end_s, second_start_s = len(first) / 24_000, len(first) / 24_000 + gap_s
    assert timings[len(OTHER) - 1].end_s == pytest.approx(first_end_s, abs=0.12)
    assert timings[len(OTHER)].start_s == pytest.approx(second_start_s, abs=0.12)
    alone = aligner.align(second, 24_000, WORDS)
    shifted = [timing.start_s - second_start_s for timing in timings[len(OTHER) :]]
    assert shifted == pytest.approx([timing.start_s for timing in alone], abs=0.1)


def test_phonemes_are_timed_within_their_words(aligner: PocketsphinxAligner, sounds: Sounds) -> None:
    sound = sounds[tuple(OTHER)]
    phones = align_phones(sound, 24_000, OTHER)
    said = [each.phone for each in phones if each.phone != "SIL"]
    assert said[:2] == ["SH", "IY"]
    assert all(PHONE.fullmatch(each) for each in said)
    assert [each.start_s for each in phones[1:]] == [each.end_s for each in phones[:-1]]
    she = aligner.align(sound, 24_000, OTHER)[0]
    first = next(each for each in phones if each.phone == "SH")
    assert first.start_s == pytest.approx(she.start_s, abs=0.05)
    with pytest.raises(AlignmentRefused, match="not all words are found"):
        align_phones(sound, 24_000, ["bouillabaisse"] * 9)


def test_what_was_aligned_before_changes_nothing(aligner: PocketsphinxAligner, sounds: Sounds) -> None:
    before = aligner.align(sounds[tuple(OTHER)], 24_000, OTHER)
    unknown = aligner.align(sounds[tuple(WORDS)], 24_000, WORDS)
    with pytest.raises(AlignmentRefused):
        aligner.align(sounds[tuple(OTHER)], 24_000, ["bouillabaisse"] * 9)
    assert PocketsphinxAligner().align(sounds[tuple(OTHER)], 24_000, OTHER) == before
    module._load_decoder.cache_clear()  # as in a new process
    assert aligner.align(sounds[tuple(WORDS)], 24_000, WORDS) == unknown
    assert aligner.align(sounds[tuple(OTHER)], 24_000, OTHER) == before


def test_a_clip_that_begins_in_the_middle_of_a_sound_is_aligned(aligner: PocketsphinxAligner) -> None:
    text = "if each of them buys one of both?"
    sound = Espeak().synthesise(text, "en-029", 1.07).samples
    assert np.abs(sound[:240]).max() > 0.05
    timings = aligner.align(sound, 24_000, text.rstrip("?").split())
    assert timings[0].start_s < 0.05
    assert timings[0].end_s > 0.08
    assert aligner.align(sound, 24_000, text.rstrip("?").split()) == timings


def test_wrong_words_are_refused_or_score_worse(aligner: PocketsphinxAligner, sounds: Sounds) -> None:
    sound = sounds[tuple(OTHER)]
    with pytest.raises(AlignmentRefused, match="of 6 words found in the audio of 'five green dogs"):
        aligner.align(sound, 24_000, ["five", "green", "dogs", "ate", "sixty", "apples"])
    right = aligner.align(sound, 24_000, OTHER)
    wrong = aligner.align(sound, 24_000, ["She", "pays", "twenty", "wolves", "dollars"])
    assert wrong[3].score < right[3].score - 5


@pytest.mark.parametrize("word", ["", "'", "25", "two words", "(2)", "<sil>", "x_y", "well-known"])
def test_what_is_not_a_word_is_refused(aligner: PocketsphinxAligner, sounds: Sounds, word: str) -> None:
    with pytest.raises(AlignmentRefused, match="is not a word"):
        aligner.align(sounds[tuple(OTHER)], 24_000, [word])


@given(st.from_regex(re.compile(r"[A-Za-z]{1,12}('[a-z]{1,2})?", re.ASCII), fullmatch=True))
@settings(max_examples=200)
def test_any_word_of_letters_has_phones_of_the_dictionary(word: str) -> None:
    phones = pronounce(word).split()
    assert phones
    assert all(PHONE.fullmatch(phone) for phone in phones)


@pytest.mark.parametrize(
    ("ipa", "phones"),
    [
        ("zˈɔːɹblæks", "Z AO R B L AE K S"),
        ("tʃˈaɪnə", "CH AY N AH"),
        ("kˈɪʔn̩", "K IH T AH N"),
        ("(fr)krwasˈɑ̃(en)", "K R W AA S AA N"),
        ("", ""),
    ],
)
def test_ipa_becomes_arpabet(ipa: str, phones: str) -> None:
    assert to_arpabet(ipa) == phones


def test_a_symbol_without_a_phone_is_named() -> None:
    with pytest.raises(AlignmentRefused, match="'ǃ'"):
        to_arpabet("kǃoː")
