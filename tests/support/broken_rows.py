"""Ways of breaking a row of a data shard, for the tests of the rules that find it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from data_schemas.records import Audio, AudioDialogue, Turn, WrittenSpan
from data_schemas.units import seconds_to_samples
from pipelines.audio import Sound, decode_flac, to_flac
from pipelines.mixing.timing import measure_quality
from pipelines.quality.dialogue_rules import check_dialogue


def broken(row: AudioDialogue) -> set[str]:
    """Returns the rules that a row breaks."""
    return {rule for rule, _ in check_dialogue(row)}


def remeasured(row: AudioDialogue) -> AudioDialogue:
    """The row with the quality of the sound and the hearings that it has now."""
    return replace(row, quality=measure_quality(decode_flac(row.flac), row.turns))


def on_answer(change: Callable[[Turn], Turn]) -> Callable[[AudioDialogue], AudioDialogue]:
    """A change of the assistant's turn, on which no oracle event depends; the row is then measured anew."""
    return lambda row: remeasured(replace(row, turns=(row.turns[0], change(row.turns[1]), *row.turns[2:])))


def on_utterance(**changes: Any) -> Callable[[AudioDialogue], AudioDialogue]:
    """Returns a change of fields of the assistant's utterance, after which the row is measured anew."""
    return on_answer(lambda turn: replace(turn, utterances=(replace(turn.utterances[0], **changes),)))


def on_words(change: Callable[[list[Any]], Sequence[Any]]) -> Callable[[AudioDialogue], AudioDialogue]:
    """Returns a change of the words of the assistant's utterance, after which the row is measured anew."""

    def changed(turn: Turn) -> Turn:
        said = turn.utterances[0]
        return replace(turn, utterances=(replace(said, words=tuple(change(list(said.words)))),))

    return on_answer(changed)


def swapped(words: list[Any]) -> list[Any]:
    """Returns words of which the first two have each other's times."""
    one, other = words[0], words[1]
    times = [(other.start_s, other.end_s), (one.start_s, one.end_s)]
    moved = [replace(word, start_s=start_s, end_s=end_s) for word, (start_s, end_s) in zip(words, times, strict=False)]
    return [*moved, *words[2:]]


def provenance(**changes: Any) -> Callable[[AudioDialogue], AudioDialogue]:
    """Returns a change of fields of a row's provenance."""
    return lambda row: replace(row, provenance=replace(row.provenance, **changes))


def mono(row: AudioDialogue) -> AudioDialogue:
    """Returns a row whose sound has the first channel only."""
    return replace(row, audio=Audio(bytes=to_flac(decode_flac(row.flac)[:, 0]), path="x.flac"))


def quality(**changes: Any) -> Callable[[AudioDialogue], AudioDialogue]:
    """Returns a change of fields of a row's quality, which is not measured anew."""
    return lambda row: replace(row, quality=replace(row.quality, **changes))


def squeezed(words: Sequence[Any], share: float) -> list[Any]:
    """Returns words whose times, from the start of the first one, are shortened to a share of what they were."""
    zero_s: float = words[0].start_s

    def earlier(time_s: float) -> float:
        return zero_s + share * (time_s - zero_s)

    return [replace(each, start_s=earlier(each.start_s), end_s=earlier(each.end_s)) for each in words]


def something_else(turn: Turn) -> Turn:
    """Returns a turn whose spoken text is another one than that of its words."""
    said = replace(
        turn.utterances[0], spoken_text="Something else.", written_spans=turn.utterances[0].written_spans[:2]
    )
    return replace(turn, spoken_text="Something else.", utterances=(said,))


def without_end(turn: Turn) -> Turn:
    """Returns a turn whose end, and that of its utterance, is long after the end of the sound."""
    return replace(turn, end_s=1e4, utterances=(replace(turn.utterances[0], end_s=1e4),))


def on_sound(change: Callable[[Sound], Sound]) -> Callable[[AudioDialogue], AudioDialogue]:
    """A change of the sound, which is then measured anew."""
    return lambda row: remeasured(
        replace(row, audio=Audio(bytes=to_flac(change(decode_flac(row.flac))), path="x.flac"))
    )


def only(sound: Sound, channel: int) -> Sound:
    """Silences the other channel of a sound, in place."""
    sound[:, 1 - channel] = 0
    return sound


def assistant_everywhere(sound: Sound) -> Sound:
    """Makes both channels of a sound constant, in place: nobody is silent, and the assistant is always louder."""
    sound[:, 0] = 0.5
    sound[:, 1] = 0.1
    return sound


def humming(sound: Sound) -> Sound:
    """Makes the assistant hum in the last 0.4 s of a sound, in place, where nobody speaks."""
    sound[-9_600:, 0] = 0.2 * np.sin(np.arange(9_600) * 0.1)
    return sound


def cut_short(row: AudioDialogue) -> AudioDialogue:
    """Returns a row with half of its encoded sound."""
    return replace(row, audio=Audio(bytes=row.flac[: len(row.flac) // 2], path="x.flac"))


def no_words_at_all(row: AudioDialogue) -> AudioDialogue:
    """Returns a row whose utterances have no words."""
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
    """Returns seven equal written spans."""
    return (WrittenSpan(start_char=start, end_char=end),) * 7
