"""Each rule of a data shard's row finds the one fault that breaks it; the row is one that we made."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from data_schemas.arrow import from_table
from data_schemas.records import Audio, AudioDialogue, Turn
from pipelines.audio import Sound, from_flac, to_flac
from pipelines.publish import read_manifest
from pipelines.quality.dialogue_rules import wrong_in_dialogue
from pipelines.store import Store


@pytest.fixture(scope="module")
def row(made: Path) -> AudioDialogue:
    store = Store(str(made))
    entry = read_manifest(store).of_kind("data")[0]
    return from_table(store.read_table(entry.path), AudioDialogue)[0]


def broken(row: AudioDialogue) -> set[str]:
    return {rule for rule, _ in wrong_in_dialogue(row)}


def on_answer(change: Callable[[Turn], Turn]) -> Callable[[AudioDialogue], AudioDialogue]:
    """A change of the assistant's turn, on which no oracle event depends."""
    return lambda row: replace(row, turns=(row.turns[0], change(row.turns[1]), *row.turns[2:]))


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


def something_else(turn: Turn) -> Turn:
    said = replace(turn.utterances[0], spoken_text="Something else.")
    return replace(turn, spoken_text="Something else.", utterances=(said,))


def without_end(turn: Turn) -> Turn:
    return replace(turn, end_s=1e4, utterances=(replace(turn.utterances[0], end_s=1e4),))


def on_sound(change: Callable[[Sound], Sound]) -> Callable[[AudioDialogue], AudioDialogue]:
    return lambda row: replace(row, audio=Audio(bytes=to_flac(change(from_flac(row.flac))), path="x.flac"))


def only(sound: Sound, channel: int) -> Sound:
    sound[:, 1 - channel] = 0
    return sound


def assistant_everywhere(sound: Sound) -> Sound:
    """Nobody is silent, and the assistant's channel is the louder one all through."""
    sound[:, 0] = 0.5
    sound[:, 1] = 0.1
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

    return on_sound(assistant_everywhere)(on_answer(early)(row))


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
    ("each speaker is on their own channel", on_answer(lambda turn: replace(turn, speaker="C"))),
    ("a turn's spoken text is its utterances'", on_answer(lambda turn: replace(turn, spoken_text="Else."))),
    ("a turn's spoken text is its utterances'", on_answer(lambda turn: replace(turn, utterances=()))),
    ("a turn starts and ends with its utterances", on_answer(lambda turn: replace(turn, start_s=99.0))),
    ("a turn starts and ends with its utterances", on_answer(lambda turn: replace(turn, end_s=-5.0))),
    ("a turn starts and ends with its utterances", on_answer(lambda turn: replace(turn, end_s=None))),
    ("words last", on_words(lambda words: [replace(words[0], end_s=words[0].start_s), *words[1:]])),
]


@pytest.mark.parametrize(("rule", "change"), FAULTS, ids=[f"{n} {rule}" for n, (rule, _) in enumerate(FAULTS)])
def test_a_fault_breaks_its_rule_alone(
    row: AudioDialogue, rule: str, change: Callable[[AudioDialogue], AudioDialogue]
) -> None:
    assert broken(row) == set()
    assert broken(change(row)) == {rule}


def test_who_is_louder_is_not_asked_while_both_speak(row: AudioDialogue) -> None:
    assert broken(both_at_once(row)) == set()


def test_one_who_is_not_heard_is_found_while_both_speak(row: AudioDialogue) -> None:
    silent = on_sound(lambda sound: only(sound, 0))(both_at_once(row))
    assert broken(silent) == {"each speaker is on their own channel"}
