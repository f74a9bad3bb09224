"""Recordings for tests, made by the server's own recorder of speech that eSpeak says."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from backends.engine import Samples
from backends.tts.espeak import Espeak
from backends.tts.protocol import Speech
from data_schemas.config.serving import RecordConfig
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S, SAMPLE_RATE_HZ, seconds_to_samples
from kame_model.serve.session.events import SessionEvent
from kame_model.serve.session.recordings import RecordingFacts, Recordings
from tests.support.inline_threads import InlineThreads

NOTICE = "If you agree, this is kept."
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
LATE_S, SILENCE_S = 0.1, 0.7
"""How late a caller is heard to speak, and after what silence a turn has ended."""


@dataclass(frozen=True, slots=True)
class Line:
    """What somebody says from a time on; `written` is what recogniser or front-end makes of it.

    Of the speaker `MODE` the text is the mode that the caller chooses then.
    """

    speaker: str
    start_s: float
    text: str
    written: str | None = None


MODE = "mode"

EGGS = (
    Line("B", 0.5, "How many eggs are left?"),
    Line("A", 2.6, "We still have eighteen brown eggs today."),
    Line("B", 6.4, "And if I sell nine of them?", "And if I sell 9 of them?"),
    Line("A", 8.9, "Then you have nine eggs."),
)


@cache
def speech_of(speaker: str, text: str) -> Speech:
    """Returns what eSpeak says, quietly enough to be no shout, and with words timed."""
    speech = Espeak().synthesise(text, "en-us" if speaker == "A" else "en-gb", 1.0)
    return Speech(0.3 * speech.samples, speech.words)


def record(folder: Path, sessions: dict[str, Sequence[Line]], more_s: float = 1.5) -> None:
    """Records sessions a day apart, as the server does.

    Args:
        sessions: lines by id of the session.
        more_s: silence after the last line, in seconds.
    """
    asyncio.run(_record(folder, sessions, more_s))


async def _record(folder: Path, sessions: dict[str, Sequence[Line]], more_s: float) -> None:
    started = iter(NOON + timedelta(days=day) for day in range(len(sessions)))
    about = RecordingFacts(
        checkpoint="/home/somebody/kame-nano", recogniser="moonshine", notice=NOTICE, cascade_voice="espeak/en-us"
    )
    recordings = Recordings(RecordConfig(folder=str(folder)), about, InlineThreads(), lambda: next(started))
    for session_id, lines in sessions.items():
        recording = recordings.begin(session_id)
        recording.add_event(SessionEvent("started", 0.0, {"mode": "tandem", "back_end": "default"}))
        heard, said = sound_of(lines, "B", more_s), sound_of(lines, "A", more_s)
        heard = heard + np.random.default_rng(1).normal(0, 0.002, len(heard)).astype(np.float32)
        events = sorted(_events(lines), key=lambda each: each[0])
        for at in range(0, len(heard), FRAME_N_SAMPLES):
            while events and events[0][0] < (at + FRAME_N_SAMPLES) / SAMPLE_RATE_HZ:
                _, kind, data = events.pop(0)
                recording.add_event(SessionEvent(kind, 0.0, data))
            recording.add_frame(heard[at : at + FRAME_N_SAMPLES], said[at : at + FRAME_N_SAMPLES])
        await recording.close()
    await recordings.aclose()


def sound_of(lines: Sequence[Line], speaker: str, more_s: float) -> Samples:
    """One side of a conversation, whole frames, with silence at its end."""
    spoken = [each for each in lines if each.speaker != MODE]
    ends_s = [each.start_s + len(speech_of(each.speaker, each.text).samples) / SAMPLE_RATE_HZ for each in spoken]
    n_frames = int((max(ends_s) + more_s) / FRAME_S)
    sound = np.zeros(n_frames * FRAME_N_SAMPLES, np.float32)
    for each in lines:
        if each.speaker == speaker:
            start, samples = seconds_to_samples(each.start_s), speech_of(speaker, each.text).samples
            sound[start : start + len(samples)] += samples
    return sound


def _events(lines: Sequence[Line]) -> list[tuple[float, Any, dict[str, Any]]]:
    """Returns the events of a session's lines: time in seconds, kind and data."""
    events: list[tuple[float, Any, dict[str, Any]]] = []
    for each in lines:
        if each.speaker == MODE:
            events.append((each.start_s, "changed", {"mode": each.text, "back_end": "default"}))
            continue
        speech = speech_of(each.speaker, each.text)
        end_s = each.start_s + len(speech.samples) / SAMPLE_RATE_HZ
        if each.speaker == "A":
            words = (each.written or each.text).split()
            times_s = [each.start_s + timing.start_s for timing in speech.words]
            assert len(times_s) == len(words)
            events += [(time_s, "said", {"text": f" {word}"}) for time_s, word in zip(times_s, words, strict=True)]
            continue
        events += [
            (each.start_s + LATE_S, "speech_started", {}),
            (end_s + SILENCE_S, "speech_stopped", {}),
            (end_s + SILENCE_S + 0.1, "heard", {"text": each.written or each.text, "is_final": True}),
        ]
    return events
