"""The client's record of a conversation: audio of both sides, transcript and events, on the caller's clock."""

import io
import json
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from backends.engine import Samples
from data_schemas.errors import StoreError
from data_schemas.store import Store
from data_schemas.units import FRAME_S, SAMPLE_RATE_HZ, round_s
from kame_model.serve.client.answer_watch import AnswerWatch
from kame_model.serve.session.conversation import PAUSE_S

PLAYER_S = FRAME_S
"""Playback delay that keeps a player from running dry at every hitch, seconds."""
WAV, TRANSCRIPT, EVENTS = "conversation.wav", "transcript.txt", "events.jsonl"


class Player:
    """Places received pieces of audio on a time line as a player would: with a small delay, and a gap if it ran dry.

    Attributes:
        n_gaps: how often it ran dry.
    """

    def __init__(self) -> None:
        self._pieces: list[tuple[int, Samples]] = []
        self._end = 0
        self.n_gaps = 0

    def add(self, at_s: float, samples: Samples) -> None:
        """Adds a piece that arrived `at_s` seconds after the start, and counts a gap if it was late.

        The first piece is never late. An empty piece is ignored.
        """
        if not len(samples):
            return
        start = self._end
        if start < round(at_s * SAMPLE_RATE_HZ):
            self.n_gaps += bool(self._pieces)
            start = round((at_s + PLAYER_S) * SAMPLE_RATE_HZ)
        self._pieces.append((start, samples))
        self._end = start + len(samples)

    @property
    def n_samples(self) -> int:
        """The number of samples that arrived."""
        return sum(len(samples) for _, samples in self._pieces)

    def get_sound(self) -> Samples:
        """Returns all the audio from time 0, float32 [n_samples] at 24 kHz, with silence in the gaps."""
        sound = np.zeros(self._end, np.float32)
        for start, samples in self._pieces:
            sound[start : start + len(samples)] = samples
        return sound


@dataclass(slots=True)
class Oracle:
    """One answer of the back-end: requested at `asked_s` on the session's clock, its first words `age_s` later.

    `at_s` and `first_words_at_s` are when the caller received the event of the request and those words, seconds after
    the start of the record. `state` is "unanswered", "cut off" (it has words, but no end was reported), "whole", or
    "failed: " with the reason.
    """

    back_end: str
    asked_s: float
    at_s: float
    age_s: float | None = None
    first_words_at_s: float | None = None
    text: str = ""
    state: str = "unanswered"

    def note(self, kind: str, data: dict[str, Any], at_s: float) -> None:
        """Applies a further event of this oracle, which the caller received at `at_s`."""
        match kind:
            case "oracle":
                if self.age_s is None:
                    self.age_s, self.first_words_at_s = float(data["age_s"]), at_s
                self.text = f"{self.text} {data['text']}".strip()  # pieces are whole words
                self.state = "cut off"
            case "oracle_done":
                self.state = "whole"
            case "oracle_failed":
                self.state = f"failed: {data.get('reason')}"


@dataclass(frozen=True, slots=True, eq=False)
class TalkExchange:
    """A turn of the user as it was recognised, and the reactions until the next one.

    `oracle` is the text of the last oracle about it, `text` the assistant's text, and `sound` the assistant's audio,
    float32 [n_samples] at 24 kHz, from the start of the user's turn on.
    """

    question: str
    oracle: str
    text: str
    sound: Samples


@dataclass(slots=True)
class TalkRecord:
    """The record of a conversation so far.

    Attributes:
        start_s: when the server was ready, by the caller's clock, or None before that.
        events: of the server, each with its time of arrival `at_s`.
        ended: why the server ended it; empty if the caller did.
        watch: detects whether the answer has ended.
        lacks: why there is no complete answer; empty if there is one, or none was awaited.
    """

    start_s: float | None = None
    player: Player = field(default_factory=Player)
    events: list[dict[str, Any]] = field(default_factory=list)
    ended: str = ""
    watch: AnswerWatch = field(default_factory=AnswerWatch)
    lacks: str = ""
    _said: list[Samples] = field(default_factory=list)
    _pieces: list[tuple[float, str]] = field(default_factory=list)

    @property
    def has_begun(self) -> bool:
        """Whether the server was ready, so that there is something to save."""
        return self.start_s is not None

    @property
    def n_owed(self) -> int:
        """Samples by which the server's audio is shorter than the caller's so far."""
        return sum(len(frame) for frame in self._said) - self.player.n_samples

    def say(self, frame: Samples) -> None:
        """Adds the caller's next 80 ms."""
        self._said.append(frame)
        self.watch.say(len(self._said) * FRAME_S, frame)

    def hear(self, at_s: float, samples: Samples) -> None:
        """Adds audio of the server that arrived at `at_s` by the caller's clock, after `start_s` was set."""
        self.player.add(self._compute_time_since_start(at_s), samples)
        self.watch.hear(self._compute_time_since_start(at_s), samples)

    def read(self, at_s: float, piece: str) -> None:
        """Adds a piece of the server's text that arrived at this time."""
        self._pieces.append((self._compute_time_since_start(at_s), piece))
        self.watch.read(self._compute_time_since_start(at_s), piece)

    def note(self, at_s: float, event: dict[str, Any]) -> None:
        """Adds an event of the server that arrived at this time; `ended` also sets why the server ended it."""
        self.events.append({**event, "at_s": round_s(self._compute_time_since_start(at_s))})
        self.watch.note(self._compute_time_since_start(at_s), event)
        if event.get("kind") == "ended":
            self.end(str(event.get("data", {}).get("reason", "")))

    def has_answer_ended(self, at_s: float) -> bool:
        """Returns whether the answer to the caller has ended by then, or none can come."""
        return self.watch.has_ended(self._compute_time_since_start(at_s))

    def end(self, reason: str) -> None:
        """Records why the server ended the conversation; later reasons are ignored."""
        self.ended = self.ended or reason

    def mix_sound(self) -> Samples:
        """Returns the audio of both sides, [n_samples, 2]: the assistant left, the user right, as in our datasets."""
        user = np.concatenate(self._said) if self._said else np.zeros(0, np.float32)
        assistant = self.player.get_sound()
        n_samples = max(len(user), len(assistant))
        sides = [np.pad(side, (0, n_samples - len(side))) for side in (assistant, user)]
        return np.stack(sides, axis=1)

    def get_lines(self) -> list[tuple[float, str, str]]:
        """Returns the sorted transcript as (start in s, user or assistant, text); a pause ends an assistant's line."""
        return [(began_s, speaker, text) for began_s, _, speaker, text in self._get_timed_lines()]

    def list_oracles_by_line(self) -> list[str]:
        """Returns for each of `get_lines` the text of the oracle whose first words had been received last at its end.

        It is empty for the user's lines, and if no oracle had arrived.
        """
        timed = [(each.first_words_at_s, each.text) for each in self.get_oracles() if each.first_words_at_s is not None]
        timed.sort(key=itemgetter(0))
        return [
            next((text for at_s, text in reversed(timed) if speaker == "assistant" and at_s <= round_s(end_s)), "")
            for _, end_s, speaker, _ in self._get_timed_lines()
        ]

    def _get_timed_lines(self) -> list[tuple[float, float, str, str]]:
        """Returns the transcript as (start, end, speaker, text), in seconds; a user's line ends where it starts."""
        lines = [(began_s, began_s, speaker, text) for began_s, speaker, text in self._get_user_lines()]
        last_s = -np.inf
        for at_s, piece in self._pieces:
            if at_s - last_s >= PAUSE_S:
                lines.append((at_s, at_s, "assistant", ""))
            began_s, _, speaker, text = lines[-1]
            lines[-1] = (began_s, at_s, speaker, text + piece)
            last_s = at_s
        return sorted((start_s, end_s, who, text.strip()) for start_s, end_s, who, text in lines if text.strip())

    def _get_user_lines(self) -> list[tuple[float, str, str]]:
        """Returns the user's turns with their final texts, which may be empty, as (start in seconds, "user", text)."""
        lines = []
        began_s: float | None = None
        for event in self.events:
            if event.get("kind") == "speech_started":
                began_s = event["at_s"] if began_s is None else began_s
            elif event.get("kind") == "heard" and event["data"]["is_final"]:
                lines.append((event["at_s"] if began_s is None else began_s, "user", event["data"]["text"]))
                began_s = None
        return lines

    def get_oracles(self) -> list[Oracle]:
        """Returns the oracles, in the order of their requests."""
        found: dict[Any, Oracle] = {}
        for event in self.events:
            kind, data = str(event.get("kind")), event.get("data", {})
            number = data.get("oracle")
            at_s = float(event.get("at_s", event["time_s"]))  # a simulated clock delivers at once, without `at_s`
            if kind == "oracle_asked":
                found[number] = Oracle(str(data.get("back_end")), float(event["time_s"]), at_s)
            elif kind in ("oracle", "oracle_done", "oracle_failed") and number in found:
                found[number].note(kind, data, at_s)
        return list(found.values())

    def find_oracle_by(self, at_s: float) -> Oracle | None:
        """Returns the oracle whose first words arrived last by this time on the session's clock; None if none had."""
        begun = [each for each in self.get_oracles() if each.age_s is not None and each.asked_s + each.age_s <= at_s]
        return max(begun, key=lambda each: each.asked_s + (each.age_s or 0.0), default=None)

    def get_exchanges(self) -> list[TalkExchange]:
        """Returns each turn of the user with the last oracle, text and sound of the assistant until the next turn.

        It is empty if the server sends no events.
        """
        lines, oracles, sound = self.get_lines(), self.get_oracles(), self.mix_sound()[:, 0]
        turns = [(began_s, text) for began_s, speaker, text in lines if speaker == "user"]
        found = []
        for (start_s, question), (end_s, _) in pairwise([*turns, (np.inf, "")]):
            whispered = [each.text for each in oracles if start_s <= each.at_s < end_s and each.text]
            said = [text for at_s, who, text in lines if who == "assistant" and start_s <= at_s < end_s]
            end = None if end_s == np.inf else round(end_s * SAMPLE_RATE_HZ)
            heard = sound[round(start_s * SAMPLE_RATE_HZ) : end]
            found.append(TalkExchange(question, "".join(whispered[-1:]), " ".join(said), heard))
        return found

    def count_dropped_frames(self) -> dict[str, int]:
        """Returns the number of dropped frames: "heard" are the caller's, "said" the server's."""
        counts: Counter[str] = Counter()
        for event in self.events:
            if event.get("kind") == "dropped":
                counts[event["data"]["direction"]] += event["data"]["n_frames"]
        return dict(counts)

    def save(self, folder: Path) -> None:
        """Writes `conversation.wav`, `transcript.txt` and `events.jsonl` to a folder, in place of earlier ones.

        If one of them cannot be written, the files of an earlier conversation stay.

        Raises:
            StoreError: the folder cannot be written.
        """
        store = Store(str(folder))
        try:
            with (
                store.open_for_writing(WAV) as wav,
                store.open_for_writing(TRANSCRIPT) as transcript,
                store.open_for_writing(EVENTS) as events,
            ):
                wav.write(self._encode_wav())
                for at_s, speaker, text in self.get_lines():
                    transcript.write(f"{at_s:8.2f} s  {speaker}: {text}\n".encode())
                for event in self.events:  # JSON contains half a character as Python does: \ud83d
                    events.write(f"{json.dumps(event, ensure_ascii=False)}\n".encode(errors="backslashreplace"))
        except StoreError as error:
            raise StoreError(error.what, "Choose another folder with --out.") from error

    def _encode_wav(self) -> bytes:
        import soundfile

        wav = io.BytesIO()
        soundfile.write(wav, self.mix_sound(), SAMPLE_RATE_HZ, format="WAV", subtype="PCM_16")
        return wav.getvalue()

    def _compute_time_since_start(self, at_s: float) -> float:
        """Returns the seconds from `start_s` to a time by the caller's clock."""
        assert self.start_s is not None  # nothing arrives from a server before it is ready
        return at_s - self.start_s
