"""Measures the delay of answers in each mode with real components: recogniser, chat model, voice, network.

    python -m benchmarks.serve delays CHECKPOINT TOKENS_OR_DATASET [--n 30] [--rows FILE] [--json FILE]

A held-out question is played to `kame serve` in real time, then silence. All times are the caller's: from the sending
of the question's last sample to the receipt of the frame. Each delay is printed and stored as soon as it is known.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from backends.engine import Samples
from benchmarks.serve_process import run_server
from benchmarks.serve_questions import Question
from data_schemas import ids
from data_schemas.errors import ConfigError
from data_schemas.units import FRAME_N_SAMPLES, samples_to_seconds
from kame_model.evaluate.answers.key_words import find_key
from kame_model.serve.client.client import Call, play_in_real_time, talk
from kame_model.train.run_folder import digest_weights
from tests.support.soak_verdict import MODES, words_of

_LISTEN_ON_S = 4.0
"""Silence after the last word of an answer, in seconds, after which it counts as finished."""
_ALREADY_S = 1.0
_SETTINGS = ("cycle.first_token_timeout_s=60", "limits.max_sessions=1", "limits.max_starts_per_minute=1000")
"""Long timeouts for slow machines: a slow chat model is to be measured."""


@dataclass(slots=True)
class Wait:
    """A question in one mode; times in seconds from the end of the question.

    Attributes:
        answer_s: time of the first frame with a word; None if there was none.
        keyword_s: time of the frame that completes the key words of the true answer; None if they were not said.
        oracle_age_s: age of the oracle's request at that first frame.
        is_talking: whether the model already spoke in the question's last second; then `answer_s` means little.
        n_failed: number of failed oracles.
        n_dropped: number of frames that the server dropped because it was too slow; if any, times are too long.
    """

    dialogue_id: str
    mode: str
    answer_s: float | None = None
    keyword_s: float | None = None
    oracle_age_s: float | None = None
    is_talking: bool = False
    n_failed: int = 0
    n_dropped: int = 0
    n_oracles: int = 0
    heard: str = ""
    said: str = ""


@dataclass(slots=True)
class _Caller:
    """Plays a question, and records the times of the events."""

    question: Question
    wait: Wait
    most_wait_s: float
    end_s: float = float("inf")
    last_said_s: float = float("-inf")
    newest_s: float | None = None
    asked_s: dict[object, float] = field(default_factory=dict)

    async def play_frames(self) -> AsyncIterator[Samples]:
        """Yields the question in real time, and then silence until the answer is over or `most_wait_s` has passed."""
        clock = asyncio.get_running_loop()
        n_frames = len(self.question.sound) // FRAME_N_SAMPLES
        number = 0
        async for frame in play_in_real_time(self.question.sound, self.most_wait_s):
            yield frame
            number += 1
            if number == n_frames:
                self.end_s = clock.time()
                self.wait.is_talking = self.end_s - self.last_said_s < _ALREADY_S
            if self._is_over(clock.time()):
                return

    def on_event(self, event: dict[str, Any]) -> None:
        """Records the time or the content of an event from the server."""
        now_s, data = asyncio.get_running_loop().time(), event["data"]
        match event["kind"]:
            case "said" if data["text"].strip():
                self._on_said(now_s, data["text"])
            case "said":
                self.wait.said += data["text"] if self.wait.answer_s is not None else ""
            case "oracle_asked":
                self.asked_s[data["oracle"]] = now_s
            case "oracle":
                self.newest_s = self.asked_s.get(data["oracle"])
            case "oracle_done":
                self.wait.n_oracles += 1
            case "oracle_failed":
                self.wait.n_failed += 1
            case "dropped":
                self.wait.n_dropped += data["n_frames"]
            case "heard" if data["is_final"]:
                self.wait.heard = f"{self.wait.heard} {data['text']}".strip()

    def _on_said(self, now_s: float, text: str) -> None:
        """Records words of the model: the first answer, and when the key words are complete.

        Of words before the end of the question, only the time of the last is kept.
        """
        wait, self.last_said_s = self.wait, now_s
        if self.end_s == float("inf"):
            return
        if wait.answer_s is None:
            wait.answer_s = round(now_s - self.end_s, 3)
            wait.oracle_age_s = None if self.newest_s is None else round(now_s - self.newest_s, 3)
        wait.said += text
        if wait.keyword_s is None and find_key(self.question.answer, words_of(wait.said)):
            wait.keyword_s = round(now_s - self.end_s, 3)

    def _is_over(self, now_s: float) -> bool:
        """Returns whether the answer is finished: it has begun, and there were no words for 4 s."""
        return self.wait.answer_s is not None and now_s - max(self.last_said_s, self.end_s) > _LISTEN_ON_S


class WaitsFile:
    """Known waits in a JSON lines file, so that a run can be resumed.

    Args:
        path: the file; with None, nothing is stored.
        measured_with: identity of the checkpoint and the settings (`identify`), which each row of the file names.

    Attributes:
        waits: waits in the order in which they were measured.

    Raises:
        ConfigError: the file has rows of another checkpoint or other settings, or rows that name none.
    """

    def __init__(self, path: Path | None, measured_with: str = "") -> None:
        self._path, self._measured_with = path, measured_with
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
        rows = [json.loads(line) for line in lines]
        if {row.pop("measured_with", None) for row in rows} - {measured_with}:
            raise ConfigError(
                f"{path} has delays of another checkpoint, `--set` or `--most-wait-s`, or does not say of which.",
                "Give a new file with `--rows`.",
            )
        self.waits = [Wait(**row) for row in rows]

    def list_missing(self, asked: Sequence[Question]) -> list[tuple[Question, str]]:
        """Returns the questions and modes that are not measured yet, in order."""
        known = {(each.dialogue_id, each.mode) for each in self.waits}
        pairs = [(question, mode) for question in asked for mode in MODES]
        return [(question, mode) for question, mode in pairs if (question.dialogue_id, mode) not in known]

    def add(self, wait: Wait) -> None:
        """Adds a wait, and appends it to the file if there is one."""
        self.waits.append(wait)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"measured_with": self._measured_with, **asdict(wait)}) + "\n")


def identify(checkpoint: str, most_wait_s: float, settings: Sequence[str]) -> str:
    """Returns a digest of what determines a delay besides the question and the mode; it reads all weights.

    Raises:
        KameError: there is no such checkpoint, or it cannot be read.
    """
    return ids.digest(digest_weights(checkpoint), most_wait_s, *settings)


def estimate_duration_s(missing: Sequence[tuple[Question, str]], most_wait_s: float) -> tuple[float, float]:
    """Returns the shortest and longest duration in seconds: if all answers come at once, and if none comes."""
    sound_s = sum(samples_to_seconds(len(question.sound)) for question, _ in missing)
    return sound_s + len(missing) * _LISTEN_ON_S, sound_s + len(missing) * most_wait_s


def measure_delays(
    checkpoint: str,
    asked: Sequence[Question],
    most_wait_s: float,
    settings: Sequence[str],
    known: WaitsFile,
    on_line: Callable[[str], None],
) -> list[Wait]:
    """Measures every question in every mode in turn on one server, after a warm-up in each mode.

    Returns the waits of all these questions, also those that were known.

    Args:
        most_wait_s: maximum wait after a question, in seconds.
        settings: additional options for `kame serve --set`.
        known: waits that are not measured again; new ones are added.
        on_line: called with a line of text for each new wait.

    Raises:
        RunError: the server does not start.
        BackendError: it refuses callers.
    """
    missing = known.list_missing(asked)
    if missing:
        with run_server(checkpoint, [*_SETTINGS, *settings]) as server:
            for mode in MODES:
                asyncio.run(_measure_wait(server.url, missing[0][0], mode, most_wait_s))
            for number, (question, mode) in enumerate(missing, 1):
                wait = asyncio.run(_measure_wait(server.url, question, mode, most_wait_s))
                known.add(wait)
                on_line(f"{number}/{len(missing)} {mode}: answer {wait.answer_s} s, keyword {wait.keyword_s} s")
    chosen = {question.dialogue_id for question in asked}
    return [each for each in known.waits if each.dialogue_id in chosen]


async def _measure_wait(url: str, question: Question, mode: str, most_wait_s: float) -> Wait:
    """Plays a question to the server in one mode, and returns the measured delays."""
    caller = _Caller(question, Wait(question.dialogue_id, mode), most_wait_s)
    await talk(Call(url=url, mode=mode), caller.play_frames(), caller.on_event)
    return caller.wait


def summarise(waits: Sequence[Wait]) -> list[dict[str, Any]]:
    """Returns a row of figures for each mode: medians with percentiles, and counts."""
    rows = []
    for mode in MODES:
        of_mode = [each for each in waits if each.mode == mode]
        rows.append(
            {
                "mode": mode,
                "n": len(of_mode),
                "answer_s": _compute_spread([each.answer_s for each in of_mode]),
                "keyword_s": _compute_spread([each.keyword_s for each in of_mode]),
                "oracle_age_s": _compute_spread([each.oracle_age_s for each in of_mode]),
                "n_talking_already": sum(each.is_talking for each in of_mode),
                "n_oracles_failed": sum(each.n_failed for each in of_mode),
                "n_dropped": sum(each.n_dropped for each in of_mode),
            }
        )
    return rows


def format_table(rows: Sequence[dict[str, Any]]) -> str:
    """Returns the rows of `summarise` as a Markdown table."""
    lines = [
        "| mode | n | first answer frame | keyword | age of the oracle | talking already | failed | dropped |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        times = [_format_spread(row[name]) for name in ("answer_s", "keyword_s", "oracle_age_s")]
        counts = [str(row[name]) for name in ("n_talking_already", "n_oracles_failed", "n_dropped")]
        lines.append(f"| {' | '.join([row['mode'], str(row['n']), *times, *counts])} |")
    return "\n".join(lines)


def to_json(waits: Sequence[Wait]) -> list[dict[str, Any]]:
    """Returns all waits as JSON values."""
    return [asdict(each) for each in waits]


def _compute_spread(values: Sequence[float | None]) -> dict[str, float] | None:
    """Returns number and 10th, 50th and 90th percentile of the values without None; None if there are none."""
    known = [each for each in values if each is not None]
    if not known:
        return None
    low, middle, high = (round(float(each), 2) for each in np.percentile(known, [10, 50, 90]))
    return {"n": len(known), "p10": low, "p50": middle, "p90": high}


def _format_spread(spread: dict[str, float] | None) -> str:
    """Returns a spread as text: "1.20 s [0.80, 2.50] of 30"; "none" if there is none."""
    if spread is None:
        return "none"
    return f"{spread['p50']:.2f} s [{spread['p10']:.2f}, {spread['p90']:.2f}] of {spread['n']}"
