"""Measures time, memory and files of the pipeline at the size of a corpus, and compares it with a plain loop.

    python -m benchmarks.corpus [--dialogues 5000 56582] [--loop 200] [--json]

For each number of questions (each becomes a dialogue), `kame refresh` runs three times with two workers: from nothing,
again without changes, and after 1 % new questions. Times and memory are those of the run's own record: memory is the
peak of all processes together, with shared memory counted in each. All engines are test doubles, which speak, align and
answer in almost no time. Then the stages that use the processor are run again on the first questions (`--loop`), in a
plain loop without files, records or workers: the difference is the overhead of the pipeline.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.command import make_parser, print_figures
from benchmarks.questions import write_questions
from data_schemas.config import OracleConfig, PartConfig, RefreshConfig, SourceConfig
from pipelines.run.estimate import PAPER
from pipelines.run.execute import join_inputs
from pipelines.run.stages import ORACLE, PICTURES, WORDING, build_cpu_stages, build_stage_without_chat, describe_stages
from pipelines.sources.items import read_items
from tests.support.runs import RunError, config_on_doubles, start_command

Figures = dict[str, Any]
FROM_NOTHING, AGAIN, GROWN = "from nothing", "the same again", "1 % new questions"


def configure(out: Path, source: SourceConfig) -> RefreshConfig:
    """Returns the configuration of a run on test doubles, with parts and oracles of the default settings."""
    changes = {"sources": [source], "parts": PartConfig(), "oracle": OracleConfig()}
    return config_on_doubles(out, workers=2).model_copy(update=changes)


def run_command(config: RefreshConfig, folder: Path) -> Figures:
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
    return {
        "dialogues": json.loads((out / "dataset.json").read_text(encoding="utf-8"))["counts"]["dialogues"],
        "wall_s": round(wall_s, 1),
        "processor_s": round(sum(record["processor_s"].values()), 1),
        "peak_mib": round(record["peak_memory_bytes"] / 2**20),
        "files": len(sizes),
        "mib": round(sum(sizes) / 2**20),
        "load": round(os.getloadavg()[0], 1),
        "processor_s_by_step": record["processor_s"],
    }


def measure_size(folder: Path, n_questions: int) -> dict[str, Figures]:
    """Makes the three runs with this number of questions in a new folder; returns the figures of each by its name."""
    folder.mkdir()
    source = write_questions(folder / "own.jsonl", n_questions, 1)
    config = configure(folder / "out", source)
    figures = {FROM_NOTHING: run_command(config, folder), AGAIN: run_command(config, folder)}
    write_questions(folder / "own.jsonl", n_questions + max(1, n_questions // 100), 1)  # the same ones, then new ones
    figures |= {GROWN: run_command(config, folder)}
    print(n_questions, json.dumps(figures), file=sys.stderr, flush=True)
    return figures


def measure_loop_ms(config: RefreshConfig) -> dict[str, float]:
    """Runs the stages before the oracles in a plain loop; returns the processor time per dialogue by stage."""
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
        n_dialogues += len(made[name])  # of the last stage, which mixes
    return {name: round(1000 * each / n_dialogues, 2) for name, each in used_s.items()}


def main() -> None:
    """Runs the benchmark and prints its figures; steps that the loop does not have take no time in it."""
    parser = make_parser(__doc__)
    paper = [sum(PAPER.values())]
    parser.add_argument("--dialogues", type=int, nargs="+", default=paper, help="numbers of questions, one a size")
    parser.add_argument("--loop", type=int, default=200, help="number of questions of the plain loop")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sizes = {
            n_questions: measure_size(folder / str(n_questions), n_questions)
            for n_questions in sorted(options.dialogues)
        }
        loop_ms = measure_loop_ms(configure(folder / "loop", write_questions(folder / "first.jsonl", options.loop, 1)))
    largest = sizes[max(sizes)][FROM_NOTHING]
    by_step = {
        step: {"run_ms": round(1000 * used_s / largest["dialogues"], 2), "loop_ms": loop_ms.get(step, 0.0)}
        for step, used_s in largest["processor_s_by_step"].items()
    }
    ratio = largest["peak_mib"] / sizes[min(sizes)][FROM_NOTHING]["peak_mib"]
    tables = {f"{n} questions": figures for n, figures in sizes.items()}
    print_figures(tables | {"peak memory, largest / smallest": ratio, "a dialogue": by_step}, options.json)


if __name__ == "__main__":
    main()
