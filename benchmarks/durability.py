"""Measures the cost of durable writes: each case with `fsync` and without.

    python -m benchmarks.durability [--parts 200] [--rounds 5] [--folder DIR] [--json]

Without: `os.fsync` does nothing, so that the same code writes the same files and the system writes them to the disk
later. Both are measured in turn, so that other load on the machine affects both. The cases: a file of the size of a
part's record and one of a part's audio; a part's output with its record, one by one and as the batch that the runner
writes; the items of many parts, as the plan stage writes them; and whole runs on test doubles, in which writing weighs
the most.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from unittest import mock

from data_schemas.store import Store
from flows.runs.refresh import run_refresh
from tests.support.runs import Silent, config_on_doubles

RECORD: Final = os.urandom(1_500)
SOUND: Final = os.urandom(15_000_000)
"""Size of a part's finished dialogues: 16 of 30 s, stereo, in FLAC."""

Case = Callable[[Store], None]


def write_record(store: Store) -> None:
    """Writes one small file."""
    store.write_bytes("record.json", RECORD)


def write_sound(store: Store) -> None:
    """Writes one large file."""
    store.write_bytes("sound.parquet", SOUND)


def write_one_by_one(store: Store) -> None:
    """Writes a small output and its record, each in its own batch."""
    store.write_bytes("part/script.parquet", RECORD)
    store.write_bytes("part/script.json", RECORD)


def write_output(store: Store) -> None:
    """Writes a small output and its record in one batch, as the runner does."""
    with store.open_batch() as batch:
        batch.write_bytes("part/script.parquet", RECORD)
        batch.write_bytes("part/script.json", RECORD)


def make_plan_case(n_parts: int) -> Case:
    """Returns a case that writes the items of `n_parts` parts in one batch, as the planning of a run does."""

    def write(store: Store) -> None:
        with store.open_batch() as batch:
            for n in range(n_parts):
                batch.write_bytes(f"parts/{n}/items.parquet", RECORD)
                batch.write_bytes(f"parts/{n}/items.json", RECORD)

    return write


def run_on_doubles(store: Store) -> None:
    """Runs a refresh on test doubles in one process."""
    run_refresh(config_on_doubles(Path(store.root) / "dataset"), Silent())


@contextmanager
def count_fsync_calls(is_on: bool) -> Iterator[list[int]]:
    """Yields a list to which each call of `os.fsync` in a `with` block is added; with `is_on` False, none is made."""
    calls, fsync = [], os.fsync

    def count(descriptor: int) -> None:
        calls.append(descriptor)
        if is_on:
            fsync(descriptor)

    with mock.patch("os.fsync", count):
        yield calls


def measure(case: Case, n_rounds: int, folder: str | None) -> dict[str, float]:
    """Runs a case with and without `fsync`, in turn; returns the median seconds of both and the calls of one run."""
    taken_s: dict[bool, list[float]] = {True: [], False: []}
    n_calls = 0
    for n in range(2 * n_rounds):
        is_on = n % 2 == 0
        with tempfile.TemporaryDirectory(dir=folder) as root, count_fsync_calls(is_on) as calls:
            started_s = time.perf_counter()
            case(Store(root))
            taken_s[is_on].append(time.perf_counter() - started_s)
            n_calls = len(calls)
    return {
        "with_s": statistics.median(taken_s[True]),
        "without_s": statistics.median(taken_s[False]),
        "n_fsync": n_calls,
    }


def main() -> None:
    """Prints a line for each case."""
    parser = argparse.ArgumentParser(prog="benchmarks.durability", description="Cost of fsync.")
    parser.add_argument("--parts", type=int, default=200, help="number of parts of a plan")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each case, with and without fsync")
    parser.add_argument("--folder", help="folder to write to; default: the system's temporary folder")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    cases: dict[str, Case] = {
        "a record": write_record,
        "a part's sound, 15 MB": write_sound,
        "an output and its record, one by one": write_one_by_one,
        "an output and its record, together": write_output,
        f"the items of {options.parts} parts": make_plan_case(options.parts),
        "a run on doubles": run_on_doubles,
    }
    with tempfile.TemporaryDirectory(dir=options.folder) as warm:
        run_on_doubles(Store(warm))  # imports and models are loaded once
    found = {name: measure(case, options.rounds, options.folder) for name, case in cases.items()}
    if options.json:
        print(json.dumps(found))
        return
    for name, each in found.items():
        print(
            f"{name:40} with fsync {each['with_s'] * 1e3:9.1f} ms, without {each['without_s'] * 1e3:9.1f} ms, "
            f"{each['n_fsync']} calls"
        )


if __name__ == "__main__":
    main()
