"""Measures time, memory and files of the pipeline at the size of a corpus, and compares it with a plain loop.

    python -m benchmarks.corpus [--dialogues 5000 56582] [--workers 2] [--simulator llm] [--out FOLDER] [--json]

For each number of questions (each becomes a dialogue), `kame refresh` runs three times, each time in its own processes:
from nothing, again without changes (everything is reused), and after 1 % new questions. Times and memory are those of
the run's own record (`runs/<id>.json`): memory is the peak of all processes together, with shared memory counted in
each. All engines are test doubles, which speak, align and answer in almost no time, so that only our own work is
measured.

Then the stages that use the processor are run again on the first questions (`--loop`), in a plain loop in this process
without files, records or workers. The difference of processor time is the overhead of the pipeline for a dialogue.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.questions import write_questions
from data_schemas.config import OracleConfig, PartConfig, RefreshConfig, SourceConfig
from pipelines.run.estimate import PAPER
from pipelines.run.execute import join_inputs
from pipelines.run.stages import (
    MIXING,
    ORACLE,
    PICTURES,
    WORDING,
    build_cpu_stages,
    build_stage_without_chat,
    describe_stages,
)
from pipelines.sources.items import read_items
from tests.support.runs import RunError, config_on_doubles, start_command

FROM_NOTHING, AGAIN, GROWN = "from nothing", "the same again", "1 % new questions"


def configure(out: Path, source: SourceConfig, n_workers: int, simulator: str) -> RefreshConfig:
    """Returns the configuration of a run on test doubles, with parts and oracles of the default settings."""
    oracle = OracleConfig() if simulator == "llm" else OracleConfig(simulator="random", version="random")
    changes = {"sources": [source], "parts": PartConfig(), "oracle": oracle}
    return config_on_doubles(out, n_workers).model_copy(update=changes)


def run_command(config: RefreshConfig, folder: Path) -> dict[str, Any]:
    """Runs `kame refresh` as a command, and returns its times, memory, number of files and size.

    Raises:
        RunError: it failed.
    """
    out, started_s = Path(config.out), time.monotonic()
    process = start_command(config, folder)
    said, _ = process.communicate()
    wall_s = time.monotonic() - started_s
    if process.returncode:
        raise RunError(f"kame refresh ended with {process.returncode}:\n{said}")
    record = json.loads(max((out / "runs").glob("*[0-9a-f].json")).read_text(encoding="utf-8"))
    sizes = [each.stat().st_size for each in out.rglob("*") if each.is_file()]
    counts = json.loads((out / "dataset.json").read_text(encoding="utf-8"))["counts"]
    return {
        "dialogues": counts["dialogues"],
        "wall_s": round(wall_s, 1),
        "processor_s": round(sum(record["processor_s"].values()), 1),
        "peak_mib": round(record["peak_memory_bytes"] / 2**20),
        "files": len(sizes),
        "mib": round(sum(sizes) / 2**20),
        "load": round(os.getloadavg()[0], 1),
        "processor_s_by_step": record["processor_s"],
    }


def measure_size(folder: Path, n_questions: int, n_workers: int, simulator: str) -> dict[str, dict[str, Any]]:
    """Makes the three runs with this number of questions in a new folder; returns the figures of each by its name."""
    folder.mkdir(parents=True)
    source = write_questions(folder / "own.jsonl", n_questions, 1)
    config = configure(folder / "out", source, n_workers, simulator)
    figures = {FROM_NOTHING: run_command(config, folder), AGAIN: run_command(config, folder)}
    write_questions(folder / "own.jsonl", n_questions + max(1, n_questions // 100), 1)  # the same ones, then new ones
    return figures | {GROWN: run_command(config, folder)}


def run_loop(config: RefreshConfig) -> tuple[int, dict[str, float]]:
    """Runs the stages before the oracles in a plain loop; returns the number of dialogues, and CPU seconds by stage."""
    items, n_in_batch = read_items(config.sources[0], None, config.split).items, config.parts.dialogues_per_part
    runs = build_cpu_stages(config) | {each: build_stage_without_chat(config, each) for each in (PICTURES, WORDING)}
    stages = [each for each in describe_stages(config).items() if each[0] != ORACLE]
    used_s, n_dialogues = dict[str, float](), 0
    for at in range(0, len(items), n_in_batch):
        made: dict[str, list[Any]] = {"items": items[at : at + n_in_batch]}
        for name, stage in stages:
            batch = join_inputs([made[each] for each in stage.inputs])
            before_s = time.process_time()
            made[name] = runs[name].run(batch).outputs
            used_s[name] = used_s.get(name, 0.0) + time.process_time() - before_s
        n_dialogues += len(made[MIXING])
    return n_dialogues, used_s


def compare_with_loop(run: dict[str, Any], n_looped: int, loop_s: dict[str, float]) -> dict[str, dict[str, float]]:
    """Returns the milliseconds of processor time per dialogue in the run and in the loop, by step of the run.

    For steps that the loop does not have, its time is 0.
    """
    return {
        step: {
            "run_ms": round(1000 * used_s / run["dialogues"], 2),
            "loop_ms": round(1000 * loop_s.get(step, 0.0) / n_looped, 2),
        }
        for step, used_s in run["processor_s_by_step"].items()
    }


def print_tables(sizes: dict[int, dict[str, dict[str, Any]]], overhead: dict[str, dict[str, float]]) -> None:
    """Prints the figures as tables."""
    head = ("dialogues", "wall, s", "CPU, s", "peak, MiB", "files", "MiB")
    row = "{:>9}  {:<18}" + "{:>11}" * len(head)
    print(row.format("questions", "run", *head))
    for n_questions, runs in sizes.items():
        for what, each in runs.items():
            told = [each[name] for name in ("dialogues", "wall_s", "processor_s", "peak_mib", "files", "mib")]
            print(row.format(n_questions, what, *told))
    peaks = [runs[FROM_NOTHING]["peak_mib"] for runs in sizes.values()]
    print(f"\nPeak memory, from nothing: the largest run takes {peaks[-1] / peaks[0]:.2f} times that of the smallest.")
    print(f"\nProcessor time a dialogue\n{'step':<12}{'run, ms':>10}{'loop, ms':>10}")
    for step, each in overhead.items():
        print(f"{step:<12}{each['run_ms']:>10}{each['loop_ms']:>10}")


def main(typed: Sequence[str] | None = None) -> None:
    """Runs the benchmark and prints its figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--dialogues",
        type=int,
        nargs="+",
        default=[sum(PAPER.values())],
        help="numbers of questions, one for each size",
    )
    parser.add_argument("--workers", type=int, default=2, help="number of worker processes")
    parser.add_argument(
        "--simulator", choices=["llm", "random"], default="llm", help="simulator that writes the oracles"
    )
    parser.add_argument("--loop", type=int, default=200, help="number of questions of the plain loop")
    parser.add_argument("--out", type=Path, help="new folder; default: a temporary one")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(typed)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or Path(temporary)
        sizes = {}
        for n_questions in sorted(options.dialogues):
            sizes[n_questions] = measure_size(
                folder / str(n_questions), n_questions, options.workers, options.simulator
            )
            if not options.json:
                print(n_questions, json.dumps(sizes[n_questions]), flush=True)
        source = write_questions(folder / "first.jsonl", options.loop, 1)
        looped = run_loop(configure(folder / "loop", source, 1, options.simulator))
        overhead = compare_with_loop(sizes[max(sizes)][FROM_NOTHING], *looped)
    if options.json:
        print(json.dumps({"sizes": sizes, "overhead": overhead}))
    else:
        print_tables(sizes, overhead)


if __name__ == "__main__":
    main()
