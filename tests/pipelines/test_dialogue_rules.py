"""Each rule of a data shard's row finds the one fault that breaks it; the row is one that we made."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from data_schemas.config import SurroundingsConfig
from data_schemas.records import Audio, AudioDialogue, Hearing, Turn, Utterance, WrittenSpan
from data_schemas.units import seconds_to_samples
from pipelines.audio import Sound, from_flac, rms_dbfs, to_flac
from pipelines.mixing.timing import quality_of
from pipelines.quality.dialogue_rules import wrong_in_dialogue
from tests import mixed as made


@pytest.fixture(scope="module")
def row() -> AudioDialogue:
    return made.mixed(made.plain())


@pytest.fixture(scope="module")
def interrupted() -> AudioDialogue:
    return made.mixed(made.interrupted())


@pytest.fixture(scope="module")
def early() -> AudioDialogue:
    return made.mixed(made.early_start())


def broken(row: AudioDialogue) -> set[str]:
    return {rule for rule, _ in wrong_in_dialogue(row)}


def remeasured(row: AudioDialogue) -> AudioDialogue:
    """The row with the quality of the sound and the hearings that it has now."""
    return replace(row, quality=quality_of(from_flac(row.flac), row.turns))


def on_answer(change: Callable[[Turn], Turn]) -> Callable[[AudioDialogue], AudioDialogue]:
    """A change of the assistant's turn, on which no oracle event depends; the row is then measured anew."""
    return lambda row: remeasured(replace(row, turns=(row.turns[0], change(row.turns[1]), *row.turns[2:])))


def on_utterance(**changes: Any) -> Callable[[AudioDialogue], AudioDialogue]:
    return on_answer(lambda turn: replace(turn, utterances=(replace(turn.utterances[0], **changes),)))


def on_words(change: Callable[[list[Any]], Sequence[Any]]) -> Callable[[AudioDialogue], AudioDialogue]:
    def changed(turn: Turn) -> Turn:
        said = turn.utterances[0]
        return replace(turn, utterances=(replace(said, words=tuple(change(list(said.words)))),))

    return on_answer(changed)


def swapped(words: list[Any]) -> list[Any]:
    one, other = words[0], words[1]
    times = [(other.start_s, other.end_s), (one.start_s, one.end_s)]
    moved = [replace(word, start_s=start_s, end_s=end_s) for word, (start_s, end_s) in zip(words, times, strict=False)]
    return [*moved, *words[2:]]


def provenance(**changes: Any) -> Callable[[AudioDialogue], AudioDialogue]:
    return lambda row: replace(row, provenance=replace(row.provenance, **changes))


def mono(row: AudioDialogue) -> AudioDialogue:
    return replace(row, audio=Audio(bytes=to_flac(from_flac(row.flac)[:, 0]), path="x.flac"))


def quality(**changes: Any) -> Callable[[AudioDialogue], AudioDialogue]:
    return lambda row: replace(row, quality=replace(row.quality, **changes))


def squeezed(words: Sequence[Any], share: float) -> list[Any]:
    """The words one after the other in the first part of the time that they take."""
    zero_s: float = words[0].start_s

    def earlier(time_s: float) -> float:
        return zero_s + share * (time_s - zero_s)

    return [replace(each, start_s=earlier(each.start_s), end_s=earlier(each.end_s)) for each in words]


def something_else(turn: Turn) -> Turn:
    said = replace(
        turn.utterances[0], spoken_text="Something else.", written_spans=turn.utterances[0].written_spans[:2]
    )
    return replace(turn, spoken_text="Something else.", utterances=(said,))


def without_end(turn: Turn) -> Turn:
    return replace(turn, end_s=1e4, utterances=(replace(turn.utterances[0], end_s=1e4),))


def on_sound(change: Callable[[Sound], Sound]) -> Callable[[AudioDialogue], AudioDialogue]:
    """A change of the sound, which is then measured anew."""
    return lambda row: remeasured(replace(row, audio=Audio(bytes=to_flac(change(from_flac(row.flac))), path="x.flac")))


def only(sound: Sound, channel: int) -> Sound:
    sound[:, 1 - channel] = 0
    return sound


def assistant_everywhere(sound: Sound) -> Sound:
    """Nobody is silent, and the assistant's channel is the louder one all through."""
    sound[:, 0] = 0.5
    sound[:, 1] = 0.1
    return sound


def humming(sound: Sound) -> Sound:
    """The assistant hums at the end, where nobody speaks."""
    sound[-9_600:, 0] = 0.2 * np.sin(np.arange(9_600) * 0.1)
    return sound


def cut_short(row: AudioDialogue) -> AudioDialogue:
    return replace(row, audio=Audio(bytes=row.flac[: len(row.flac) // 2], path="x.flac"))


def no_words_at_all(row: AudioDialogue) -> AudioDialogue:
    turns = tuple(replace(t, utterances=tuple(replace(u, words=()) for u in t.utterances)) for t in row.turns)
    return replace(row, turns=turns)


def both_at_once(row: AudioDialogue) -> AudioDialogue:
    """The assistant comes in with the user's first word, and is the louder of the two."""

    def early(turn: Turn) -> Turn:
        start_s = row.turns[0].start_s
        return replace(turn, start_s=start_s, utterances=(replace(turn.utterances[0], start_s=start_s),))

    lasts = slice(seconds_to_samples(row.turns[0].start_s or 0.0), seconds_to_samples(row.turns[1].end_s or 0.0))

    def louder(sound: Sound) -> Sound:
        sound[lasts] = 0.5, 0.1
        return sound

    return on_sound(louder)(on_answer(early)(row))


def spans(start: int | None, end: int | None) -> tuple[WrittenSpan, ...]:
    return (WrittenSpan(start_char=start, end_char=end),) * 7


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
    ("a keyword delay is that of its word", on_answer(lambda turn: replace(turn, keyword_delay_s=0.3))),
    ("a keyword delay is that of its word", on_answer(lambda turn: replace(turn, answer_word_index=2))),
    ("quality is that of the sound and of what was heard", quality(rms_dbfs_a=-20.0)),
    ("quality is that of the sound and of what was heard", quality(peak_dbfs=0.0)),
    ("quality is that of the sound and of what was heard", quality(wer=0.0)),
    ("quality is that of the sound and of what was heard", quality(mean_word_score=-1.0)),
    ("a speaker has the voice that provenance tells", provenance(voice_a="double_c")),
    ("a speaker has the voice that provenance tells", on_utterance(voice="double_c")),
    ("a speaker has the voice that provenance tells", on_utterance(voice=None)),
    ("speed lies between 0.5 and 2.0", on_utterance(speed=0.4)),
    ("speed lies between 0.5 and 2.0", on_utterance(speed=None)),
    ("a dialogue has a form we know", lambda row: replace(row, form="sonnet")),
    (ELSEWHERE, on_words(lambda words: squeezed(words, 0.1))),
    (ELSEWHERE, on_words(lambda words: [words[0], *squeezed(words[1:], 0.1)])),
    ("words last", on_words(lambda words: [replace(words[0], end_s=words[0].start_s), *words[1:]])),
]


@pytest.mark.parametrize(("rule", "change"), FAULTS, ids=[f"{n} {rule}" for n, (rule, _) in enumerate(FAULTS)])
def test_a_fault_breaks_its_rule_alone(
    row: AudioDialogue, rule: str, change: Callable[[AudioDialogue], AudioDialogue]
) -> None:
    assert broken(row) == set()
    assert broken(change(row)) == {rule}


EARLY = "an early start has a lead that outlasts the question by 1 s"


def test_who_is_louder_is_not_asked_while_both_speak(row: AudioDialogue) -> None:
    assert broken(both_at_once(row)) == {EARLY, ELSEWHERE}


def test_one_who_is_not_heard_is_found_while_both_speak(row: AudioDialogue) -> None:
    silent = on_sound(lambda sound: only(sound, 0))(both_at_once(row))
    assert broken(silent) == {"each speaker is on their own channel", EARLY, ELSEWHERE}


@pytest.mark.parametrize("lead", [None, "Good question", "Good question let"])
def test_an_early_start_needs_its_lead(early: AudioDialogue, lead: str | None) -> None:
    assert broken(early) == set()
    assert broken(on_answer(lambda turn: replace(turn, lead=lead))(early)) == {EARLY}


def louder_after_the_cut(row: AudioDialogue) -> AudioDialogue:
    """A whisper of the assistant's, 0.2 s after the cut."""
    start = seconds_to_samples((row.turns[1].cut_s or 0.0) + 0.2)

    def whisper(sound: Sound) -> Sound:
        sound[start : start + 2_400, 0] += 0.01 * np.sin(np.arange(2_400) * 0.1)
        return sound

    return on_sound(whisper)(row)


def test_a_cut_turn_is_silent_afterwards(interrupted: AudioDialogue) -> None:
    assert broken(interrupted) == set()
    assert broken(louder_after_the_cut(interrupted)) == {"a cut turn is silent from its cut on"}


def test_a_turn_is_not_cut_before_it_is_interrupted(interrupted: AudioDialogue) -> None:
    moved = shifted(interrupted, 2, 1.0)
    assert broken(moved) >= {"only an interruption cuts a turn"}


def test_an_interrupted_assistant_does_not_go_on(interrupted: AudioDialogue) -> None:
    moved = shifted(interrupted, 2, -0.1)
    assert broken(moved) == {"the assistant falls silent within 0.3 s of an interruption"}


def test_a_cut_turn_ends_at_its_cut(interrupted: AudioDialogue) -> None:
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
    turn = replace(
        turn,
        start_s=moved(turn.start_s),
        end_s=moved(turn.end_s),
        utterances=tuple(said(each) for each in turn.utterances),
    )
    return remeasured(replace(row, turns=(*row.turns[:index], turn, *row.turns[index + 1 :])))


def test_a_backchannel_is_no_part_of_its_turns_time_and_text() -> None:
    row = made.mixed(made.backchannelled())
    assert broken(row) == set()
    asked = row.turns[0]
    longer = replace(asked, end_s=asked.utterances[1].end_s)
    assert broken(replace(row, turns=(longer, *row.turns[1:]))) >= {"a turn starts and ends with its utterances"}


def test_nobody_says_two_things_at_once() -> None:
    row = made.mixed(made.backchannelled())
    thanks = row.turns[2].utterances[0]
    assert thanks.start_s is not None
    late = shifted(row, 2, (row.turns[0].utterances[1].start_s or 0.0) - thanks.start_s)
    assert broken(late) >= {"a speaker says one thing at a time"}


NOISY = SurroundingsConfig(noise_share=1, snr_min_db=6, snr_max_db=6, room_share=0, telephone_share=0)


def test_noise_on_the_users_channel_is_no_speech() -> None:
    row = made.mixed(made.interrupted(), NOISY)
    assert broken(row) == set()
    assert rms_dbfs(from_flac(row.flac)[:2_400, 1]) > -50
    quiet = on_sound(lambda sound: sound * np.array([0.01, 1.0], np.float32))(row)
    assert broken(quiet) == {"each speaker is on their own channel"}, "an assistant below the noise is not heard"


def test_a_user_who_is_only_noise_is_not_heard() -> None:
    row = made.mixed(made.plain(), NOISY)
    noise = np.resize(from_flac(row.flac)[:4_000, 1], row.n_samples)  # before anybody speaks
    only_noise = on_sound(lambda sound: np.stack([sound[:, 0], noise], axis=1))(row)
    assert broken(only_noise) == {"each speaker is on their own channel"}


@pytest.mark.parametrize("noise", [0, 1])
@pytest.mark.parametrize("room", [0, 1])
def test_a_users_squeezed_words_are_found_in_any_surroundings(noise: int, room: int) -> None:
    surroundings = SurroundingsConfig(noise_share=noise, snr_min_db=6, snr_max_db=6, room_share=room)
    row = made.mixed(made.plain(), surroundings)
    assert broken(row) == set()
    asked = row.turns[0]
    said = replace(asked.utterances[0], words=tuple(squeezed(asked.utterances[0].words, 0.1)))
    wrong = replace(row, turns=(replace(asked, utterances=(said,)), *row.turns[1:]))
    assert broken(wrong) == {ELSEWHERE}


HEARING = Hearing(
    text="it is as blue as the sky",
    n_words=7,
    n_word_errors=0,
    n_numbers=0,
    n_numbers_heard=0,
    n_names=0,
    n_names_heard=0,
    n_takes=1,
)


def listened_to() -> AudioDialogue:
    one = made.plain()
    asked = replace(HEARING, text="What color has the flag of that old town?", n_words=9)
    return made.mix(one, clips=made.clips_of(one, [asked, HEARING])).outputs[0]


def heard(**changes: Any) -> Callable[[AudioDialogue], AudioDialogue]:
    return on_utterance(hearing=replace(HEARING, **changes))


NOT_HEARD = "what a recogniser listened to has a hearing"


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        (NOT_HEARD, on_utterance(hearing=None)),
        (NOT_HEARD, provenance(asr=None)),
        ("counts of a hearing can be", heard(n_takes=0)),
        ("counts of a hearing can be", heard(n_words=0, n_word_errors=0)),
        ("counts of a hearing can be", heard(n_words=8)),
        ("counts of a hearing can be", heard(n_word_errors=-1)),
        ("counts of a hearing can be", heard(n_word_errors=100)),
        ("counts of a hearing can be", heard(n_numbers=1, n_numbers_heard=2)),
        ("counts of a hearing can be", heard(n_names=8)),
        ("counts of a hearing can be", heard(text="")),
    ],
)
def test_hearings_that_cannot_be_are_found(rule: str, change: Callable[[AudioDialogue], AudioDialogue]) -> None:
    row = listened_to()
    assert broken(row) == set()
    assert row.provenance.asr == "double"
    assert broken(change(row)) == {rule}


def test_error_rates_are_those_of_the_hearings() -> None:
    assert broken(quality(wer=0.5)(listened_to())) == {"quality is that of the sound and of what was heard"}


def test_a_cut_utterance_keeps_the_hearing_of_all_of_it() -> None:
    one = made.interrupted()
    hearings = [replace(HEARING, n_words=n_words) for n_words in (9, 7, 6, 5)]
    assert broken(made.mix(one, clips=made.clips_of(one, hearings)).outputs[0]) == set()
