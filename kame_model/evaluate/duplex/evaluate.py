"""Evaluates turn taking with the four tasks of Full-Duplex-Bench, on a session of the server.

Each item's audio is played from its start, whatever the server says. What the server says is stored in the benchmark's
format, so that the benchmark's scripts can score the same audio and words:

    outputs/MODE/SUBSET/ID/output.wav     16 kHz, as long as the item's input.wav
                           output.json    {"text", "chunks": [{"text", "timestamp": [start_s, end_s]}]}
                           pause.json, turn_taking.json or interrupt.json, as the item has it

It is also scored here by the benchmark's definitions (`scores`): once by what a recogniser hears, and once by
the model's own text (measures in `_text`), which is more informative if a small codec's audio is not intelligible. Text
has no segments: in task backchannel `turn_text` is whether it is a turn by the definition of the other tasks, which
differs from `take_over` there. The times of a word are its share, by number of letters, of the speech segment in which
it is heard; all definitions use only the first and last words of segments.
After an interruption only what follows its end counts, as in the benchmark's `asr.py`. In addition there are measures
of `calls.delays`: `ttfat_s` from the user's end to the first sound, negative if it started before; `stop_s`, how long
the assistant continued after it was interrupted; `overlap_share` of the user's speech.

If a judge is configured it rates answers to interruptions from 0 to 5 (`relevance`), on the benchmark's scale with a
prompt of our own (`judge_prompts.yaml`); the benchmark's prompt is in its eval_user_interruption.py. The run itself is
`calls.run.run_calls`.
"""

import io
import json
import shutil
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from typing import Any, Final

import numpy as np
import soundfile

from backends import registry
from backends.asr.protocol import Recogniser
from backends.engine import Samples
from data_schemas import ids
from data_schemas.config.duplex import DuplexConfig
from data_schemas.config.recall import TEST
from data_schemas.store import Store
from data_schemas.units import SAMPLE_RATE_HZ, round_s
from kame_model.checkpoint.files import encode_json
from kame_model.checkpoint.folder import locate_checkpoint
from kame_model.evaluate.calls.call import Call, CalledServer
from kame_model.evaluate.calls.delays import Span, TimedWord, find_audible_spans, measure_delays, time_words
from kame_model.evaluate.calls.report import (
    draw_figures,
    format_costs_table,
    format_figures_table,
    list_examples,
    list_faults,
)
from kame_model.evaluate.calls.run import (
    CallCondition,
    Counting,
    FinishedRun,
    Item,
    Record,
    describe_run,
    get_condition,
    run_calls,
    show_no_progress,
    transcribe,
)
from kame_model.evaluate.duplex.items import ANNOTATIONS, DuplexItem, find_items
from kame_model.evaluate.duplex.scores import (
    compute_divergence,
    compute_latency_s,
    find_backchannels,
    find_speech,
    is_turn,
)
from kame_model.evaluate.judge import Judgement, JudgeRequest, make_relevance_request
from kame_model.evaluate.report.held_out import format_test_evaluations, record_test_evaluation
from kame_model.evaluate.report.intervals import compute_figures
from kame_model.serve.client.answer_watch import AUDIBLE
from kame_model.serve.parts import ServerParts

VERSION: Final = 4
"""Version of calls and scores; raising it makes every item run again."""
OUTPUTS, PLOT = "outputs", "turns"
_OUTPUT_RATE_HZ: Final = 16_000
"""The sample rate that the benchmark's scripts assume for every wav file (default of `get_speech_timestamps`)."""


def evaluate_duplex(
    config: DuplexConfig,
    out: str,
    *,
    parts: ServerParts | None = None,
    recogniser: Recogniser | None = None,
    find_segments: Callable[[Samples], list[Span]] = find_speech,
    register: str | None = None,
    again: bool = False,
    counting: Counting = show_no_progress,
    anew: bool = False,
) -> list[dict[str, Any]]:
    """Plays the items to a server in this process, and writes what it said and the scores; the same folder resumes.

    Args:
        out: folder of report.md, figures.json, items.jsonl, calls/, outputs/, plots/ and sound/.
        parts, counting, anew: as for `run_calls`.
        recogniser: used instead of the one that `config` names.
        find_segments: finds segments of speech in audio at 24 kHz (voice activity detection).
        register, again: as for `record_test_evaluation`, if the dialogues are a dataset's test items.

    Returns:
        The rows of figures.json.

    Raises:
        SourceError: the items cannot be read.
        KameError: as `run_calls` and `record_test_evaluation`.
    """
    items = find_items(config)
    hearer: Recogniser = recogniser or registry.build("asr", config.recogniser, config.recogniser_options)
    run = {**describe_run("duplex", VERSION, config, hearer), "data": items.digest, "wait_s": config.wait_s}
    if items.is_ours:
        run["splits"] = sorted(config.splits)  # in which items are numbered

    def call(server: CalledServer, condition: CallCondition, item: DuplexItem) -> tuple[dict[str, Any], Call]:
        """Calls the server with an item, writes the output for the benchmark's scripts, and scores it."""
        user, (mode, delay_s) = item.read(), condition
        seed = ids.derive_seed("duplex", config.seed, item.unit) % 2**31
        made = server.call(user, mode=mode, seed=seed, tail_s=0.0, delay_s=delay_s)
        scored = _ScoredCall(item, made, len(user), hearer, find_segments)
        _write_output(Store(out), f"{OUTPUTS}/{condition.name}/{item.unit}", item, scored)
        return scored.make_record({**condition._asdict(), "task": item.task, "subset": item.subset}), made

    def record_use() -> int | None:
        """Records an evaluation of weights on test items, and returns its number; None if it is not one."""
        has_weights = run["system"]["checkpoint"] is not None  # without weights no choice of a model can be biased
        if not (items.is_ours and TEST in config.splits and has_weights):
            return None
        asked_for = config.model_dump(mode="json", exclude={"serving", "judge"})  # the server is in `run`
        place = locate_checkpoint(config.serving.checkpoint).folder
        return record_test_evaluation(run, asked_for, items.digest, place, register=register, again=again)

    def make_items(condition: CallCondition, item: DuplexItem, called: dict[str, Any]) -> list[Item]:
        return [Item(called, _make_judge_requests(item, called))]

    asked = {item.unit: item for item in items.items}
    subsets = groupby(items.items, lambda item: item.subset)
    sounds = [item.unit for _, own in subsets for item in list(own)[: config.n_sounds]]
    done = run_calls(
        config,
        out,
        run,
        asked,
        call,
        make_items,
        parts=parts,
        counting=counting,
        sounds=sounds,
        anew=anew,
        record_use=record_use,
    )
    return _write_results(done)


def _make_judge_requests(item: DuplexItem, record: Record) -> dict[str, JudgeRequest | Judgement]:
    """Returns the judge's requests by measure, for answers to interruptions only; empty for other tasks.

    As in the benchmark, an answer is judged only if the turn was taken; otherwise its judgement is empty (None).
    """
    if item.task != "user_interruption":
        return {}
    said = item.annotation[0]
    return {
        f"relevance{by}": make_relevance_request(said["context"], said["interrupt"], record[text])
        if record["measures"][f"take_over{by}"]
        else Judgement(None)
        for by, text in (("", "heard"), ("_text", "text"))
    }


class _ScoredCall:
    """What the assistant said to an item, and its scores.

    Args:
        item: the item.
        call: the call in which its audio was played.
        n_samples: length of the item's audio.
        recogniser: recognises the words of segments.
        find_segments: finds segments of speech in audio at 24 kHz.

    Attributes:
        sound: float32 at 24 kHz, as long as the item's audio.
        words: the recogniser's words; after an interruption only those after its end.
        text_words: the same from the model's own text.
    """

    def __init__(
        self,
        item: DuplexItem,
        call: Call,
        n_samples: int,
        recogniser: Recogniser,
        find_segments: Callable[[Samples], list[Span]],
    ) -> None:
        self._item, self._call = item, call
        self.sound: Samples = np.pad(call.assistant[:n_samples], (0, max(0, n_samples - len(call.assistant))))
        self.n_refused = 0
        from_s = item.turn[1] if item.task == "user_interruption" and item.turn is not None else 0.0
        counted = self.sound[round(from_s * SAMPLE_RATE_HZ) :]
        self.segments = [
            (round_s(start_s + from_s), round_s(end_s + from_s)) for start_s, end_s in find_segments(counted)
        ]
        self.words = [word for segment in self.segments for word in self._hear(segment, recogniser)]
        self.text_words = [word for word in time_words(call.pieces) if word.start_s >= from_s]

    def make_record(self, row: dict[str, Any]) -> dict[str, Any]:
        """Returns the record of the item to store, with its fields of `row`."""
        return {
            "row": row,
            "unit": self._item.unit,
            "dialogue_id": self._item.dialogue_id,
            "measures": self._compute_measures(),
            "heard": " ".join(word.text for word in self.words),
            "text": " ".join(word.text for word in self.text_words),
            "segments": self.segments,
            "n_refused": self.n_refused,
        }

    def _compute_measures(self) -> dict[str, Any]:
        """Returns the measures of the item's task by name; None where one does not apply."""
        item, turn = self._item, self._item.turn
        user, assistant = find_audible_spans(self._call.user), find_audible_spans(self.sound, AUDIBLE)
        delays = measure_delays(user, assistant, turn or (0.0, len(self.sound) / SAMPLE_RATE_HZ))
        measures: dict[str, Any] = {"overlap_share": delays.overlap_share}
        if item.task == "backchannel":
            found = find_backchannels(self.segments, self.words)
            duration_s = len(self.sound) / SAMPLE_RATE_HZ
            measures["take_over"] = found.takes_turn
            measures["backchannels_per_s"] = round(len(found.spans) / duration_s, 4)
            measures["jsd"] = None if item.people is None else compute_divergence(found.spans, duration_s, item.people)
            return measures | {"turn_text": is_turn(self.text_words)}
        measures |= {"take_over": is_turn(self.words), "take_over_text": is_turn(self.text_words)}
        if turn is not None:
            measures["latency_s"] = compute_latency_s(self.words, turn[1])
            measures["latency_text_s"] = compute_latency_s(self.text_words, turn[1])
            measures["ttfat_s"] = delays.first_sound_s
        if item.task == "user_interruption" and turn is not None:
            going = next((span for span in assistant if span[0] < turn[0] < span[1]), None)
            measures["stop_s"] = None if going is None else round_s(going[1] - turn[0])
        return measures

    def _hear(self, segment: Span, recogniser: Recogniser) -> list[TimedWord]:
        """Recognises the words of a segment, each with a share of its time by letters; none if that is rejected."""
        start, end = (round(each * SAMPLE_RATE_HZ) for each in segment)
        heard = transcribe(self.sound[start:end], recogniser)
        if heard is None:
            self.n_refused += 1
            return []
        texts = heard.split()
        ends = np.cumsum([len(text) for text in texts]) / max(1, sum(map(len, texts)))
        times = [round_s(segment[0] + (segment[1] - segment[0]) * share) for share in (0.0, *ends.tolist())]
        return [TimedWord(text, *span) for text, span in zip(texts, pairwise(times), strict=True)]


def _write_output(store: Store, place: str, item: DuplexItem, scored: _ScoredCall) -> None:
    """Writes the files that the benchmark's scripts read into the folder `place`, which is emptied first."""
    import soxr

    shutil.rmtree(store.resolve_path(place), ignore_errors=True)
    sink = io.BytesIO()
    sound = soxr.resample(np.clip(scored.sound, -1, 1), SAMPLE_RATE_HZ, _OUTPUT_RATE_HZ)
    soundfile.write(sink, sound, _OUTPUT_RATE_HZ, subtype="PCM_16", format="WAV")
    chunks = [{"text": word.text, "timestamp": [word.start_s, word.end_s]} for word in scored.words]
    transcript = {"text": " ".join(word.text for word in scored.words), "chunks": chunks}
    store.write_bytes(f"{place}/output.wav", sink.getvalue())
    if item.annotation is not None:
        store.write_bytes(f"{place}/{ANNOTATIONS[item.task]}", json.dumps(item.annotation, indent=1).encode())
    store.write_bytes(f"{place}/output.json", encode_json(transcript))


def _write_results(done: FinishedRun) -> list[dict[str, Any]]:
    """Writes figures.json, report.md and the plot; returns the rows of figures.json, ordered by condition."""
    kinds = {json.dumps(record["row"]): record["row"] for record in done.records}.values()
    conditions = list(dict.fromkeys(map(get_condition, kinds)))
    rows = [
        {**row, **compute_figures([record for record in done.records if record["row"] == row])}
        for row in sorted(kinds, key=lambda row: conditions.index(get_condition(row)))
    ]
    measures = ("take_over", "latency_s", "backchannels_per_s", "take_over_text")
    plots = {PLOT: draw_figures(rows, {name: name for name in measures}, group="subset")}
    more = {"looks_at_test": done.looks_at_test, "costs": done.costs}
    done.folder.write_results(rows, _format_markdown(rows, done), plots, more)
    return rows


_COLUMNS: Final = {
    "take_over": "takes the turn",
    "take_over_text": "by its text",
    "turn_text": "its text is a turn",
    "latency_s": "latency, s",
    "latency_text_s": "latency by its text, s",
    "ttfat_s": "to the first sound, s",
    "stop_s": "stops after, s",
    "relevance": "relevance, 0 to 5",
    "relevance_text": "relevance of its text",
    "backchannels_per_s": "backchannels a second",
    "jsd": "JSD",
    "overlap_share": "overlap",
}
_RELEVANCE: Final = {"relevance": "what is heard", "relevance_text": "its text"}
_N_SHOWN: Final = 4
_BETTER: Final = {
    "pause_handling": "lower: a pause is not the end of the turn",
    "backchannel": "lower: a listener says one word at most",
    "turn_taking": "higher, and soon",
    "user_interruption": "higher, and soon",
}


def _format_markdown(rows: Sequence[Record], done: FinishedRun) -> str:
    """Renders the report as Markdown: a table for each task, missing judgements, examples and costs."""
    parts = [
        "# Taking turns\n",
        "Full-Duplex-Bench's definitions (arXiv 2503.04721; kame_model/evaluate/duplex/scores.py); in brackets 95% "
        "over items, after times the median and the 90th percentile. Latency is of items in which the turn is taken, "
        f"and 0 if it was taken too early; the time to the first sound is then negative. `{OUTPUTS}/` has the files "
        "that the benchmark's scripts read.\n",
        *([] if done.looks_at_test is None else [f"{format_test_evaluations(done.looks_at_test)}\n"]),
        f"![Means with their intervals](plots/{PLOT}.png)\n",
    ]
    for task, better in _BETTER.items():
        own = [row for row in rows if row["task"] == task]
        if own:
            parts += [f"## {task}\n", f"Better is {better}.\n", format_figures_table(own, _COLUMNS)]
    parts += [
        *list_faults(done.records, _RELEVANCE),
        "\n## Examples\n",
        *list_examples(done.records, lambda record: record["unit"], _list_texts, _N_SHOWN),
        "## Cost\n",
        format_costs_table(done.costs),
    ]
    return "\n".join(parts)


def _list_texts(record: Record) -> dict[str, object]:
    """Returns the texts of an item by column, and whether the turn is taken."""
    takes = "yes" if record["measures"]["take_over"] else "no"
    return {"heard": record["heard"], "text": record["text"], "takes the turn": takes}
