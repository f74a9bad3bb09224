"""Each rule of a data shard's row finds the one fault that breaks it; the row is one that we made."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from data_schemas.records import Audio, AudioDialogue, Utterance
from data_schemas.units import seconds_to_samples
from pipelines.audio import Sound
from tests.support import mixed as made
from tests.support.broken_rows import (
    assistant_everywhere,
    both_at_once,
    broken,
    cut_short,
    humming,
    mono,
    no_words_at_all,
    on_answer,
    on_sound,
    on_utterance,
    on_words,
    only,
    provenance,
    quality,
    remeasured,
    something_else,
    spans,
    squeezed,
    swapped,
    without_end,
)


@pytest.fixture(scope="module")
def row() -> AudioDialogue:
    return made.mixed(made.plain())


@pytest.fixture(scope="module")
def interrupted() -> AudioDialogue:
    return made.mixed(made.interrupted())


@pytest.fixture(scope="module")
def early() -> AudioDialogue:
    return made.mixed(made.early_start())


ELSEWHERE = "the sound of an utterance lies around its words"

FAULTS: list[tuple[str, Callable[[AudioDialogue], AudioDialogue]]] = [
    ("provenance is complete", provenance(tts=None)),
    ("provenance is complete", provenance(aligner_digest=None)),
    ("provenance is complete", provenance(script_method="")),
    ("provenance is complete", lambda row: replace(row, licence=None)),
    ("audio can be read", lambda row: replace(row, audio=Audio(bytes=b"no sound", path="x"))),
    ("audio can be read", lambda row: replace(row, audio=None)),
    ("audio can be read", cut_short),
    ("audio is stereo at 24 kHz", mono),
    ("audio is stereo at 24 kHz", lambda row: replace(row, sample_rate_hz=16_000)),
    ("audio is as long as the row says", lambda row: replace(row, n_samples=row.n_samples + 1)),
    ("audio is as long as the row says", lambda row: replace(row, duration_s=row.duration_s + 0.001)),
    ("every spoken word is timed", on_words(lambda words: words[:-1])),
    ("every spoken word is timed", on_answer(something_else)),
    ("every spoken word is timed", no_words_at_all),
    ("utterances have times", on_utterance(start_s=None)),
    ("utterances have times", on_utterance(end_s=None)),
    ("words are ordered and inside their utterance", on_words(swapped)),
    ("words are ordered and inside their utterance", on_words(lambda w: [replace(w[0], start_s=0.0), *w[1:]])),
    ("utterances lie inside the audio", on_answer(without_end)),
    ("a dialogue's id is its item's and variant's", lambda row: replace(row, item_id="other")),
    ("a dialogue's id is its item's and variant's", lambda row: replace(row, variant=row.variant + 1)),
    ("each speaker is on their own channel", on_sound(lambda sound: sound[:, ::-1])),
    ("each speaker is on their own channel", on_sound(lambda sound: only(sound, 1))),
    ("each speaker is on their own channel", on_sound(lambda sound: only(sound, 0))),
    ("each speaker is on their own channel", on_sound(lambda sound: sound + sound[:, ::-1])),
    ("each speaker is on their own channel", on_sound(assistant_everywhere)),
    ("each speaker is on their own channel", on_sound(humming)),
    ("each speaker is on their own channel", on_answer(lambda turn: replace(turn, speaker="C"))),
    ("a turn's spoken text is its utterances'", on_answer(lambda turn: replace(turn, spoken_text="Else."))),
    ("a turn's spoken text is its utterances'", on_answer(lambda turn: replace(turn, utterances=()))),
    ("a turn starts and ends with its utterances", on_answer(lambda turn: replace(turn, start_s=99.0))),
    ("a turn starts and ends with its utterances", on_answer(lambda turn: replace(turn, end_s=-5.0))),
    ("a turn starts and ends with its utterances", on_answer(lambda turn: replace(turn, end_s=None))),
    ("every spoken word has a written span", on_utterance(written_spans=())),
    ("written spans lie inside the written text", on_utterance(written_spans=spans(0, 99))),
    ("written spans lie inside the written text", on_utterance(written_spans=spans(3, 3))),
    ("written spans lie inside the written text", on_utterance(written_spans=spans(None, 3))),
    ("the word that bears the answer is said", on_answer(lambda turn: replace(turn, answer_word_index=7))),
    ("only an interruption cuts a turn", on_answer(lambda turn: replace(turn, cut_s=turn.end_s))),
    ("a keyword delay is the time of its word", on_answer(lambda turn: replace(turn, keyword_delay_s=0.3))),
    ("a keyword delay is the time of its word", on_answer(lambda turn: replace(turn, answer_word_index=2))),
    ("quality matches the audio and the hearings", quality(rms_dbfs_a=-20.0)),
    ("quality matches the audio and the hearings", quality(peak_dbfs=0.0)),
    ("quality matches the audio and the hearings", quality(wer=0.0)),
    ("quality matches the audio and the hearings", quality(mean_word_score=-1.0)),
    ("a speaker has the voice recorded in provenance", provenance(voice_a="double_c")),
    ("a speaker has the voice recorded in provenance", on_utterance(voice="double_c")),
    ("a speaker has the voice recorded in provenance", on_utterance(voice=None)),
    ("speed lies between 0.5 and 2.0", on_utterance(speed=0.4)),
    ("speed lies between 0.5 and 2.0", on_utterance(speed=None)),
    ("a dialogue has a known form", lambda row: replace(row, form="sonnet")),
    (ELSEWHERE, on_words(lambda words: squeezed(words, 0.1))),
    (ELSEWHERE, on_words(lambda words: [words[0], *squeezed(words[1:], 0.1)])),
    ("words have a duration", on_words(lambda words: [replace(words[0], end_s=words[0].start_s), *words[1:]])),
]


@pytest.mark.parametrize(("rule", "change"), FAULTS, ids=[f"{n} {rule}" for n, (rule, _) in enumerate(FAULTS)])
def test_a_fault_breaks_a_rule(row: AudioDialogue, rule: str, change: Callable[[AudioDialogue], AudioDialogue]) -> None:
    assert broken(row) == set()
    assert broken(change(row)) == {rule}


NOT_SILENT = "each speaker is on their own channel"
EARLY = "an early start has a lead that outlasts the question by 1 s"


def test_while_both_speak_each_is_heard_and_neither_need_be_louder(row: AudioDialogue) -> None:
    assert broken(both_at_once(row)) == {EARLY, ELSEWHERE}
    silent = on_sound(lambda sound: only(sound, 0))(both_at_once(row))
    assert broken(silent) == {NOT_SILENT, EARLY, ELSEWHERE}


@pytest.mark.parametrize("lead", [None, "Good question", "Good question let"])
def test_an_early_start_needs_its_lead(early: AudioDialogue, lead: str | None) -> None:
    assert broken(early) == set()
    assert broken(on_answer(lambda turn: replace(turn, lead=lead))(early)) == {EARLY}


def whispering(row: AudioDialogue, start_s: float, amplitude: float = 0.01) -> AudioDialogue:
    """A tenth of a second of the assistant's, 40 dB below full scale unless told otherwise."""
    start = seconds_to_samples(start_s)

    def whisper(sound: Sound) -> Sound:
        sound[start : start + 2_400, 0] += amplitude * np.sin(np.arange(2_400) * 0.1)
        return sound

    return on_sound(whisper)(row)


@pytest.mark.parametrize("after_s", [0.05, 0.3])
def test_a_cut_turn_is_silent_afterwards(interrupted: AudioDialogue, after_s: float) -> None:
    assert broken(interrupted) == set()
    louder = whispering(interrupted, (interrupted.turns[1].cut_s or 0.0) + after_s)
    assert broken(louder) == {"a cut turn is silent from its cut on", NOT_SILENT}


def test_the_assistant_is_silent_by_level_wherever_it_says_nothing(interrupted: AudioDialogue) -> None:
    (last,) = interrupted.turns[3].utterances
    for start_s in (0.0, (last.end_s or 0.0) + 0.1):
        assert broken(whispering(interrupted, start_s, amplitude=2e-3)) == {NOT_SILENT}
        assert broken(whispering(interrupted, start_s, amplitude=5e-4)) == set(), "no louder than silence may be"


def test_a_cut_turn_ends_at_its_cut_which_is_that_of_an_interruption(interrupted: AudioDialogue) -> None:
    assert broken(shifted(interrupted, 2, 1.0)) >= {"only an interruption cuts a turn"}
    goes_on = shifted(interrupted, 2, -0.1)
    assert broken(goes_on) == {"the assistant falls silent within 0.3 s of an interruption"}
    later = on_answer(lambda turn: replace(turn, cut_s=(turn.cut_s or 0.0) + 0.1))(interrupted)
    assert broken(later) == {"a cut turn ends where it is cut"}


def shifted(row: AudioDialogue, index: int, by_s: float) -> AudioDialogue:
    """A turn told to be said earlier or later than it is."""

    def moved(time_s: float | None) -> float | None:
        return None if time_s is None else time_s + by_s

    def said(each: Utterance) -> Utterance:
        words = tuple(replace(w, start_s=w.start_s + by_s, end_s=w.end_s + by_s) for w in each.words)
        return replace(each, start_s=moved(each.start_s), end_s=moved(each.end_s), words=words)

    turn = row.turns[index]
    utterances = tuple(said(each) for each in turn.utterances)
    turn = replace(turn, start_s=moved(turn.start_s), end_s=moved(turn.end_s), utterances=utterances)
    return remeasured(replace(row, turns=(*row.turns[:index], turn, *row.turns[index + 1 :])))


def test_a_backchannel_is_no_part_of_its_turns_time_and_nobody_says_two_things_at_once() -> None:
    row = made.mixed(made.backchannelled())
    assert broken(row) == set()
    asked = row.turns[0]
    longer = replace(asked, end_s=asked.utterances[1].end_s)
    assert broken(replace(row, turns=(longer, *row.turns[1:]))) >= {"a turn starts and ends with its utterances"}
    thanks = row.turns[2].utterances[0]
    assert thanks.start_s is not None
    late = shifted(row, 2, (row.turns[0].utterances[1].start_s or 0.0) - thanks.start_s)
    assert broken(late) >= {"a speaker says one thing at a time"}
