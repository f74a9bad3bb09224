"""Dialogues, figures and faults for the terminal, as Rich tables and time lines that a console prints."""

from collections.abc import Sequence
from math import inf

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from data_schemas.records import AudioDialogue, Dialogue, OracleEvent, OracleRow
from data_schemas.units import find_event_frame
from pipelines.figures import Figures, list_tables
from pipelines.quality.check import DatasetFault

SPEAKER = {"A": "assistant", "B": "user"}


def make_table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Makes a table without borders; cells are converted by `str`."""
    made = Table(*head, title=title, title_justify="left", title_style="bold", show_edge=False)
    for row in rows:
        made.add_row(*(str(cell) for cell in row))
    return made


def render_figures(found: Figures) -> RenderableType:
    """Makes tables of a dataset's figures, as on its card."""
    total = f"{found.n_dialogues} dialogues, {found.total_audio_s / 60:.1f} minutes, {found.n_words} words with times, "
    shown = [make_table(each.title, each.head, each.rows) for each in list_tables(found) if each.rows]
    return Group(*shown, Text(f"{total}{found.n_events} oracle events"))


def render_dialogue(row: Dialogue, oracle: OracleRow | None) -> RenderableType:
    """Makes a table of a dialogue: its words on a time line, with the oracle events beside them, below its head."""
    lines = Table("time, s", "frame", "who", "said", "oracle", show_edge=False)
    for turn in row.turns:
        left = [event for event in oracle.events if event.turn_index == turn.turn_index] if oracle else []
        starts_s = [utterance.words[0].start_s if utterance.words else inf for utterance in turn.utterances[1:]]
        for utterance, next_s in zip(turn.utterances, [*starts_s, inf], strict=True):
            spans = [(word.start_s, word.word) for word in utterance.words]
            own = [event for event in left if event.t_s < next_s]
            left = left[len(own) :]
            for start_s, said, event in _group_words(spans, own):
                shown = _format_event(event) if event else ""
                lines.add_row(f"{start_s:.2f}", str(find_event_frame(start_s)), SPEAKER[turn.speaker], said, shown)
    return Group(render_head(row), lines)


def render_head(row: Dialogue) -> RenderableType:
    """Makes a panel with the source, question, answer, turns and voices of a dialogue."""
    text = Text(f"{row.source}, {row.split}, {row.licence}\nasked: {row.question}\nanswer: {row.answer}")
    for turn in row.turns:
        text.append(f"\n{SPEAKER[turn.speaker]}: {turn.spoken_text}")
    if isinstance(row, AudioDialogue):
        text.append(f"\n{row.duration_s:.2f} s, voices {row.provenance.voice_a} and {row.provenance.voice_b}")
    return Panel(text, title=row.dialogue_id, title_align="left")


def _group_words(
    spans: Sequence[tuple[float, str]], events: Sequence[OracleEvent]
) -> list[tuple[float, str, OracleEvent | None]]:
    """Groups words into lines (start in seconds, words, event) that end at each event's time.

    Words after the last event are one more line, without an event.

    Args:
        spans: start in seconds and text of each word.
    """
    rows: list[tuple[float, str, OracleEvent | None]] = []
    left = list(spans)
    for event in events:
        heard = [span for span in left if span[0] < event.t_s]
        left = left[len(heard) :]
        rows.append((heard[0][0] if heard else event.t_s, " ".join(word for _, word in heard), event))
    if left:
        rows.append((left[0][0], " ".join(word for _, word in left), None))
    return rows


def _format_event(event: OracleEvent) -> str:
    """Formats an oracle event as a line: time, share of words heard, level, status and text."""
    return f"{event.t_s:.2f}s r={event.r:.2f} level {event.level} {event.status}: {event.text or '-'}"


def render_words(row: Dialogue) -> RenderableType:
    """Makes a table of the turns of a dialogue, with every word's start and end in seconds."""
    shown = Table("who", "word, start to end in seconds", show_edge=False)
    for turn in row.turns:
        timed = [word for utterance in turn.utterances for word in utterance.words]
        text = "  ".join(f"{word.word} {word.start_s:.2f}-{word.end_s:.2f}" for word in timed)
        shown.add_row(SPEAKER[turn.speaker], text)
    return shown


def render_ladder(oracle: OracleRow) -> RenderableType:
    """Makes a table of a dialogue's oracle events in order of time, with their hint levels."""
    rows = [
        (f"{event.t_s:.2f}", f"{event.n_words_heard}/{event.n_words}", event.level, event.status, event.text or "-")
        for event in oracle.events
    ]
    return make_table("Oracle ladder", ("time, s", "words heard", "level", "status", "oracle"), rows)


def render_faults(found: Sequence[DatasetFault]) -> RenderableType:
    """Makes a table of the faults that `kame check` found."""
    return make_table("Faults", ("where", "rule", "found"), [(fault.where, fault.rule, fault.found) for fault in found])


def open_console() -> Console:
    """Returns a console for standard output, without markup; 160 columns wide if it is not a terminal."""
    plain = Console(markup=False, emoji=False)
    return plain if plain.is_terminal else Console(width=160, markup=False, emoji=False)
