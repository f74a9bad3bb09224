"""Measures the dashboard's index, pages and memory with a large dataset and long trainings.

    python -m benchmarks.dashboard [--dialogues 60000] [--rounds 5] [--limit-s 0.5] [--json]

The rows are written directly: 45 words and 18 oracle events each, drawn from a seed, audio in the first 256 only (no
page but a dialogue's reads it), and a token row of 200 frames each. There are also eight trainings of 20,000 lines of
metrics each, the first with 1,000 texts of free running; the scheduler, whose 50 newest runs are shown, is in memory.
Each round requests another dialogue, whose audio, peaks, spectrogram and token row are not in a cache. Pages are
requested in this process in turn, so that other load affects all alike. Both wall-clock and processor seconds are
reported: on a busy machine only the latter are the page's own. The exit code is 1 if a page takes `--limit-s` of
processor time.
"""

import json
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil  # type: ignore[import-untyped]
import pyarrow as pa

from benchmarks.command import make_parser, print_figures
from dashboard.free_running import FreeRunningFeed
from dashboard.metrics_feed import MetricsFeed
from dashboard.training import list_runs
from data_schemas.arrow import to_table
from data_schemas.manifest import DATA, MANIFEST, ORACLE, DatasetCounts, ShardEntry, make_manifest
from data_schemas.reader import read_manifest
from data_schemas.records import AudioDialogue, Hearing, OracleRow
from data_schemas.store import Store
from kame_model.encode.dialogue import make_token_row
from kame_model.encode.folder import TOKENIZER
from kame_model.text.tokenizer import Tokenizer
from kame_model.train.free_samples import MOST_LINES, N_KEPT
from tests.support.builders import make_turn, make_utterance
from tests.support.dashboards import TOKENIZER as VOCABULARY
from tests.support.dashboards import client_of
from tests.support.schedulers import RUN
from tests.support.small_datasets import noisy_dialogue
from tests.support.token_rows import MADE_WITH, audio_dialogue, event, oracle_row, timed, write_token_rows
from tests.support.training_pages import append, write_free_running, write_run

SHARD: Final = 256
N_FRAMES: Final = 200
N_TRAININGS: Final = 8
N_LINES: Final = 20_000
N_RUNS: Final = 51
FIGURES: Final = ("loss", "text", "semantic", "acoustic", "frames_per_s", "memory_gb")
OVERLAID: Final = "/training/runs?" + "&".join(f"run=trained-{number}" for number in range(N_TRAININGS))
COMPARED: Final = "/compare?left=large&right=second"
FORMS: Final = ("plain", "greeting", "follow_up", "interruption", "backchannel", "two_breaths")
FILTERS: Final = (
    "form=greeting",
    "split=test",
    "voice=voice-3",
    "level=3",
    "wer=0.05..",
    "duration_s=20..30",
    "q=w17+w42",
    "q=w",
    "sort=-duration_s",
    "form=plain&duration_s=..15&sort=-wer&page=40",
    "columns=dialogue_id,voice,level,n_events,noise_dbfs&sort=-n_events",
)


def write_large_dataset(folder: Path, n_dialogues: int, is_changed: bool = False) -> None:
    """Writes a dataset with `n_dialogues`, by repeating the rows of one shard with new ids and figures.

    Args:
        is_changed: whether it is another version: other questions in each tenth shard, other oracles in each seventh.
    """
    store, draw = Store(str(folder)), random.Random(0)
    rows = [draw_dialogue(number, draw) for number in range(SHARD)]
    data = to_table(rows, AudioDialogue)
    oracles = to_table([draw_oracles(row, draw) for row in rows], OracleRow)
    others = to_table([draw_oracles(row, random.Random(row.question)) for row in rows], OracleRow)
    asked = [f"{row.question} really" for row in rows]
    entries = []
    for shard in range(-(-n_dialogues // SHARD)):
        n = min(SHARD, n_dialogues - shard * SHARD)
        names = [f"large-{shard * SHARD + number}" for number in range(n)]
        split = "test" if shard % 20 == 19 else "train"
        new: dict[str, list[Any]] = {
            "dialogue_id": [f"{name}-v0" for name in names],
            "item_id": names,
            "duration_s": [draw.uniform(8, 40) for _ in names],
            "split": [split] * n,
        }
        if shard:
            new["audio"] = [None] * n
        if is_changed and shard % 10 == 0:
            new["question"] = asked[:n]
        name = f"{split}-large-{shard:016x}.parquet"
        said = others if is_changed and shard % 7 == 0 else oracles
        for kind, path, table in ((DATA, f"data/{name}", data), (ORACLE, f"oracles/default/{name}", said)):
            written = store.write_table(path, _replace_columns(table.slice(0, n), new))
            facts: dict[str, Any] = {"n_rows": n, "n_bytes": written.n_bytes, "sha256": written.sha256}
            facts |= {"oracle_version": "default", "data_path": f"data/{name}"} if kind == ORACLE else {}
            entries.append(ShardEntry(path=written.path, kind=kind, source="large", split=split, **facts))
    counts = DatasetCounts(dialogues=n_dialogues, audio_s=24.0 * n_dialogues, events=18 * n_dialogues, rejects=0)
    store.write_bytes(MANIFEST, make_manifest(entries, counts, "default").model_dump_json().encode())


def write_large_tokens(folder: Path, dataset: Path) -> None:
    """Writes token rows for a dataset of `write_large_dataset` by repeating the rows of a shard with new ids."""
    draw, tokenizer = random.Random(0), Tokenizer(VOCABULARY)
    rows = []
    for number in range(SHARD):
        dialogue = draw_dialogue(number, draw)
        codes = np.random.default_rng(number).integers(0, 2048, (2, 8, N_FRAMES), np.int16)
        rows.append(make_token_row(dialogue, draw_oracles(dialogue, draw), (codes[0], codes[1]), tokenizer)[0])
    files, shards = read_manifest(Store(str(dataset))).select_kind(DATA), []
    for file in files:
        shard = int(Path(file.path).stem[-16:], 16)
        names = [f"large-{shard * SHARD + number}-v0" for number in range(file.n_rows)]
        shards.append([replace(row, dialogue_id=name) for row, name in zip(rows, names, strict=False)])
    Store(str(folder)).write_bytes(TOKENIZER, VOCABULARY.read_bytes())
    made_with = MADE_WITH.model_copy(update={"tokenizer_digest": tokenizer.digest, "text_card": tokenizer.text_card})
    write_token_rows(folder, *shards, made_with=made_with, data_paths=[file.path for file in files])


def write_training(folder: Path, number: int) -> None:
    """Writes the metrics of a training: a line each step, and a validation each hundredth step."""
    draw = random.Random(number)
    write_run(folder, 0, seed=number)
    lines: list[dict[str, Any]] = []
    for step in range(1, N_LINES + 1):
        figures = {name: draw.random() for name in FIGURES}
        lines.append({"kind": "train", "step": step, **figures, "hours": step / 1000})
        if step % 100 == 0:
            judged = {column: {"loss": draw.random(), "text": draw.random()} for column in ("right", "wrong", "none")}
            lines.append({"kind": "evaluation", "step": step, **judged})
    append(folder, *lines)


def _replace_columns(table: pa.Table, columns: dict[str, list[Any]]) -> pa.Table:
    """Returns the table with these values in its columns; columns that it does not have are ignored."""
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        if place >= 0:
            field = table.schema.field(place)
            table = table.set_column(place, field, pa.array(values, field.type))
    return table


def draw_dialogue(number: int, draw: random.Random) -> AudioDialogue:
    """Draws a dialogue of a question of 30 words and an answer of 15, with transcripts; its audio is noise."""
    turns, at = [], 0.3
    for index, (speaker, n_words) in enumerate((("B", 30), ("A", 15))):
        words = [f"w{draw.randrange(2000)}" for _ in range(n_words)]
        timings = timed(*((word, at + 0.35 * place, at + 0.35 * place + 0.3) for place, word in enumerate(words)))
        at += 0.35 * n_words
        counts = {"n_words": n_words, "n_word_errors": draw.randrange(3), "n_numbers": 1, "n_numbers_heard": 1}
        heard = Hearing(text=" ".join(words), **counts, n_names=0, n_names_heard=0, n_takes=1)
        said = replace(make_utterance(" ".join(words), timings), hearing=heard, voice=f"voice-{draw.randrange(20)}")
        turns.append(make_turn(index, speaker, [said]))
    sound = noisy_dialogue(number)
    row = audio_dialogue(*turns, duration_s=sound.duration_s, dialogue_id="", source="large", form=draw.choice(FORMS))
    quality = replace(row.quality, wer=draw.choice((0.0, 0.0, draw.random() * 0.2)), mean_word_score=-draw.random())
    provenance = replace(row.provenance, voice_a="voice-0", voice_b=f"voice-{draw.randrange(20)}")
    return replace(row, quality=quality, provenance=provenance, audio=sound.audio, question=turns[0].spoken_text)


def draw_oracles(row: AudioDialogue, draw: random.Random) -> OracleRow:
    """Draws 18 oracle events of all levels; the last is the true answer."""
    truth = row.turns[1].spoken_text
    texts = [" ".join(f"w{draw.randrange(2000)}" for _ in range(10)) for _ in range(17)]
    events = [
        event(number, t_s=0.5 * number, r=number / 18, level=min(4, number // 4), text=text)
        for number, text in enumerate(texts)
    ]
    return replace(oracle_row(*events, event(17, t_s=9.0, r=1.0, level=5, status="truth", text=truth)), source="large")


def measure(root: Path, cache: Path, rounds: int) -> dict[str, Any]:
    """Measures building the index, and requesting each page in several rounds, of the dashboard of `root`.

    Returns the seconds of both (for pages medians), the size of the index, and this process's memory in MB before the
    first page and after each round.
    """
    process = psutil.Process()
    runs = [replace(RUN, run_id=f"r{number}", state="completed") for number in range(N_RUNS)]
    taken: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def time_work(name: str, work: Callable[[], object]) -> None:
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        work()
        taken[name].append((time.perf_counter() - began_s, time.process_time() - began_cpu_s))

    with client_of(root, cache, runs=runs) as client:

        def wait_for(path: str) -> None:
            while client.get(path).status_code == 202:
                time.sleep(0.1)

        def get(path: str) -> None:
            answer = client.get(path)
            assert answer.status_code == 200, f"{path}: {answer.text[:300]}"

        def read_feed(feed: MetricsFeed | FreeRunningFeed) -> None:
            update = feed.read()
            assert update
            json.dumps(update.to_json())

        time_work("index", lambda: wait_for("/datasets/large"))
        (index,) = cache.rglob("*.duckdb")
        wait_for(COMPARED)
        memory_mb = [process.memory_info().rss / 1e6]
        for number in range(rounds):
            for name, path in list_pages(number):
                time_work(name, partial(get, path))
            (run, *_) = list_runs([root])
            time_work("curves of one training", partial(read_feed, MetricsFeed(run.metrics)))
            time_work("texts of one training", partial(read_feed, FreeRunningFeed(run.folder)))
            memory_mb.append(process.memory_info().rss / 1e6)
    pages = {
        name: dict(zip(("s", "cpu_s"), map(statistics.median, zip(*each, strict=True)), strict=True))
        for name, each in taken.items()
    }
    return {"index": pages.pop("index"), "index_mb": index.stat().st_size / 1e6, "memory_mb": memory_mb, "pages": pages}


def list_pages(number: int) -> Iterator[tuple[str, str]]:
    """Yields name and path of each page to request; `number`, that of the round, chooses the dialogue."""
    yield from (("datasets", "/"), ("one dataset", "/datasets/large"), ("rows", "/datasets/large/rows"))
    yield from ((f"rows?{query}", f"/datasets/large/rows?{query}") for query in FILTERS)
    yield "rejects", "/datasets/large/rejects"
    yield from ((f"compare{query}", f"{COMPARED}{query}") for query in ("", "&show=question", "&show=oracles&page=400"))
    yield from (("runs", "/runs"), ("one run", "/runs/r1"), ("log", "/runs/r1/log"), ("form", "/start/refresh"))
    yield from (
        ("training", "/training"),
        ("one training", OVERLAID.partition("&")[0]),
        ("trainings overlaid", OVERLAID),
    )
    dialogue = f"/datasets/large/dialogues/large-{100 + number}-v0"
    yield from (("dialogue", dialogue), ("peaks", f"{dialogue}/peaks"), ("sound", f"{dialogue}/sound"))
    yield from (("spectrogram", f"{dialogue}/spectrogram/A"), ("token row", f"{dialogue}/tokens/tokens"))


def main() -> None:
    """Runs the benchmark and prints its figures."""
    parser = make_parser(__doc__)
    parser.add_argument("--dialogues", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit-s", type=float, default=0.5, help="processor time from which a page is too slow")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "root"
        write_large_dataset(root / "large", options.dialogues)
        write_large_dataset(root / "second", options.dialogues, is_changed=True)
        write_large_tokens(root / "tokens", root / "large")
        for number in range(N_TRAININGS):
            write_training(root / f"trained-{number}", number)
        said = ["w1 " * 40] * N_KEPT
        write_free_running(root / "trained-0", dict.fromkeys(range(MOST_LINES // N_KEPT), said))
        found = measure(root, Path(scratch) / "cache", options.rounds)
    print_figures(found, options.json)
    slow = [name for name, page in found["pages"].items() if page["cpu_s"] >= options.limit_s]
    if slow:
        sys.exit(f"{options.limit_s} s or more: {', '.join(slow)}")


if __name__ == "__main__":
    main()
