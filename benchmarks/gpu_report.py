"""Runs all benchmarks of a GPU: training and serving `small` and moshi-7b, and vLLM behind the oracles.

    make gpu-report [GPU_REPORT=FOLDER] [GPU_REPORT_ARGS="--only train-small-long"]
    make gpu-report GPU_REPORT_ARGS=--cpu-shapes            # tries the script itself, in minutes, on any machine

Each step is one of the other benchmarks in another process. Its figures are stored in `steps/NAME.json` as soon as it
ends, and its output in `steps/NAME.log`. A second run executes only steps that are missing, failed, or were measured
with another device or command. A step that needs something this machine lacks is skipped with the reason. `report.md`
and `figures.json` are written after each step. Weights and dialogues are random.

The exit code is 1 if a step failed. A training that runs out of memory does not count as failed: it does not fit, and
the report says so.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from backends.workers.environments import get_environment
from data_schemas.store import Store
from kame_model.estimate import AIMED_MFU

ROOT = Path(__file__).resolve().parents[1]
WORK = "{work}"
"""Placeholder in a command for an empty folder of the step, which is deleted when it ends."""
FIGURES = "{figures}"
"""Placeholder in a command for the file of figures; without it, the figures are the last line of the output."""
AIMED_CALLERS = 32
_NO_MEMORY = ("OutOfMemoryError", "the GPU has too little memory")  # PyTorch's, and that of benchmarks.serve

State = Literal["measured", "does not fit", "failed", "left out"]


@dataclass(frozen=True, slots=True)
class Step:
    """A measurement.

    Attributes:
        commands: arguments of Python, run one after another; the last one gives the figures.
        needs: what this machine lacks for it; empty if nothing.
    """

    name: str
    title: str
    kind: Literal["training", "serving", "oracles", "computed"]
    commands: tuple[tuple[str, ...], ...]
    needs: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a step; without figures, `reason` says why: memory, exit code and last line, or a missing need."""

    name: str
    title: str
    kind: str
    state: State
    machine: str
    commands: list[list[str]]
    seconds: float = 0.0
    reason: str = ""
    figures: Any = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the measurements: those for GPUs, or the smallest ones, which any CPU computes in seconds."""

    small: str = "small"
    large: str = "moshi-7b"
    lora_rank: str = "64"
    training: tuple[str, ...] = ("--steps", "12")
    long_training: tuple[str, ...] = ("--minutes", "10", "--rows", "2000")
    serving: tuple[str, ...] = ("--device", "cuda", "--codec", "mimi", "--rounds", "2")
    callers: tuple[str, ...] = ("1", "4", "8", "16", "24", "32", "48", "64")
    oracles: tuple[str, ...] = ("--engine", "vllm", "--n", "200")
    tabled: tuple[str, ...] = ("small", "moshi-7b")
    n_devices: int = 1
    lacks: str = ""
    lacks_vllm: str = ""


def choose_sizes(cpu_shapes: bool) -> Sizes:
    """Returns the sizes of a report, and what this machine lacks for them."""
    if cpu_shapes:
        on_cpu = ("--device", "cpu", "--precision", "fp32", "--batch-frames", "600", "--rows", "12")
        return Sizes(
            small="nano",
            large="nano",
            lora_rank="8",
            training=("--steps", "2", *on_cpu),
            long_training=("--minutes", "0.05", *on_cpu),
            serving=("--device", "cpu", "--rounds", "1", "--seconds", "1"),
            callers=("1",),
            oracles=("--engine", "double", "--n", "2", "--max-in-flight", "4"),
            tabled=("nano",),
        )
    lacks = "" if torch.cuda.is_available() else "PyTorch finds no CUDA device"
    no_vllm = "the worker environment of vLLM is not installed (kame backends install vllm)"
    has_vllm = get_environment("vllm").is_installed()
    return Sizes(
        n_devices=max(1, torch.cuda.device_count()), lacks=lacks, lacks_vllm=lacks or ("" if has_vllm else no_vllm)
    )


def list_steps(sizes: Sizes) -> Iterator[Step]:
    """Yields all steps of a report with these sizes, in order; nothing is run."""
    yield Step("computed", "As computed", "computed", (("-m", "benchmarks.memory_table", "--presets", *sizes.tabled),))
    for rank, what in ((None, "all weights"), (sizes.lora_rank, f"LoRA {sizes.lora_rank}")):
        name = f"train-large-{'full' if rank is None else 'lora'}"
        yield _make_training_step(name, f"{sizes.large}, {what}", sizes, sizes.large, sizes.training, rank)
    yield _make_training_step(
        "train-small-long", f"{sizes.small}, all weights", sizes, sizes.small, sizes.long_training
    )
    for size, preset in (("small", sizes.small), ("large", sizes.large)):
        for graphs in ("cuda-graphs", "no-cuda-graphs"):
            options = ("--preset", preset, *sizes.serving, f"--{graphs}", "--json", FIGURES)
            command = ("-m", "benchmarks.serve", "frames", *options, "--sessions", *sizes.callers)
            title = f"{preset}, {'with' if graphs == 'cuda-graphs' else 'without'} CUDA graphs"
            yield Step(f"serve-{size}-{graphs}", title, "serving", (command,), sizes.lacks)
    engine = ("-m", "benchmarks.oracle_engine", *sizes.oracles, "--json")
    yield Step("oracles", " ".join(sizes.oracles), "oracles", (engine,), sizes.lacks_vllm)


def _make_training_step(
    name: str, title: str, sizes: Sizes, preset: str, options: Sequence[str], lora_rank: str | None = None
) -> Step:
    """Makes the step of a training in one process, or by torchrun with one process on each GPU."""
    adapters = () if lora_rank is None else ("--lora-rank", lora_rank)
    arguments = ("benchmarks.train_step", "--preset", preset, *options, *adapters, "--whole-only", "--folder", WORK)
    starts: tuple[str, ...] = ("-m",)
    if sizes.n_devices > 1:
        starts = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(sizes.n_devices), "-m")
    commands = (("-m", *arguments, "--make-inputs"), (*starts, *arguments, "--json"))
    return Step(name, title, "training", commands, sizes.lacks)


def run_step(step: Step, out: Path, machine: str) -> Result:
    """Runs a step and returns its result, also if it failed; its output replaces the log `steps/NAME.log` in `out`."""
    log, figures = out / "steps" / f"{step.name}.log", out / "steps" / f"{step.name}.figures.json"
    work = out / "work" / step.name
    figures.unlink(missing_ok=True)
    shutil.rmtree(work, ignore_errors=True)  # of a run that was killed
    work.mkdir(parents=True)
    code, printed, began_s = 0, "", time.monotonic()
    with log.open("w", encoding="utf-8") as said:
        for command in step.commands:
            arguments = [each.replace(WORK, str(work)).replace(FIGURES, str(figures)) for each in command]
            done = subprocess.run(  # noqa: S603 - our own commands
                [sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=said, text=True
            )
            code, printed = done.returncode, done.stdout
            said.write(printed)
            said.flush()
            if code:
                break
    shutil.rmtree(work)
    told = read_figures(step, printed, figures) if code == 0 else None
    reason = "" if told is not None else describe_end(code, log.read_text(encoding="utf-8"))
    state: State = "measured"
    if told is None:
        state = "does not fit" if any(sign in reason for sign in _NO_MEMORY) else "failed"
    facts = (step.name, step.title, step.kind, state, machine, [list(each) for each in step.commands])
    return Result(*facts, round(time.monotonic() - began_s, 1), reason, told)


def read_figures(step: Step, printed: str, file: Path) -> Any:
    """Returns the figures of a benchmark that succeeded, from its file or the last line of its output; None if neither.

    Of a computed table, all lines of the output are returned.
    """
    if step.kind == "computed":
        return printed.splitlines()
    text = file.read_text(encoding="utf-8") if file.is_file() else (printed.splitlines() or [""])[-1]
    try:
        return json.loads(text)
    except ValueError:
        return None


def describe_end(code: int, log: str) -> str:
    """Returns why a step has no figures: the line of its log about a lack of memory, else exit code and last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    told = [line for line in lines if any(sign in line for sign in _NO_MEMORY)]
    return told[-1] if told else f"exit code {code}: {lines[-1] if lines else 'no output'}"


def find_known(out: Path, step: Step, machine: str) -> Result | None:
    """Returns an earlier result that can be reused: of the same command on the same machine, and not failed.

    Returns None if there is none, or its file is damaged.
    """
    try:
        known = Result(**json.loads((out / "steps" / f"{step.name}.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    is_same = (known.machine, known.commands) == (machine, [list(each) for each in step.commands])
    return known if is_same and known.state in ("measured", "does not fit") else None


def describe_machine() -> dict[str, Any]:
    """Returns the GPUs, the versions of PyTorch and CUDA, and the number of threads of this machine."""
    gpus = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    return {
        "gpus": [f"{each.name}, {each.total_memory / 1e9:.0f} GB" for each in gpus],
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "threads": torch.get_num_threads(),
    }


@dataclass(slots=True)
class Report:
    """Folder of a report."""

    out: Path
    machine: dict[str, Any]
    results: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """Adds the result of a step, and writes the whole report and, unless the step was left out, the result."""
        self.results.append(result)
        text = json.dumps(asdict(result), indent=1) + "\n"
        if result.state != "left out":
            self._write(f"steps/{result.name}.json", text)
        steps = {each.name: asdict(each) for each in self.results}
        figures = json.dumps({"machine": self.machine, "steps": steps}, indent=1) + "\n"
        self._write("figures.json", figures)
        self._write("report.md", "\n".join(self._list_lines()) + "\n")

    def _write(self, name: str, text: str) -> None:
        """Writes a file of the report's folder."""
        Store(str(self.out)).write_bytes(name, text.encode())

    def _list_lines(self) -> Iterator[str]:
        """Yields the lines of the report in Markdown: a table for each kind of step, and what was not measured."""
        gpus = "; ".join(self.machine["gpus"]) or f"no GPU ({self.machine['threads']} threads)"
        yield from ("# Measurements", "", f"On {gpus}; PyTorch {self.machine['torch']}, CUDA {self.machine['cuda']}.")
        yield from ("", "Weights are random and dialogues made up. Commands and logs are in `steps/`.")
        by_kind = {kind: [each for each in self.results if each.kind == kind and each.figures] for kind in _TABLES}
        for kind, table in _TABLES.items():
            if by_kind[kind]:
                yield from ("", f"## {kind.capitalize()}", "", *table(by_kind[kind]))
        missing = [each for each in self.results if each.state != "measured"]
        if missing:
            yield from ("", "## Not measured", "", "| step | what | state | reason |", "|---|---|---|---|")
        for each in missing:
            yield f"| {each.name} | {each.title} | {each.state} | {each.reason.replace('|', '/')} |"


def _format_training(results: Sequence[Result]) -> Iterator[str]:
    """Yields the goal and a Markdown table of the trainings."""
    yield f"The goal is an MFU of {AIMED_MFU:.0%}. Memory is that of one device."
    yield ""
    yield "| what | devices | steps | memory, GB | computed, GB | frames/s | tokens/s | MFU | loss, first and last |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for each in results:
        told = each.figures
        yield (
            f"| {each.title} | {told['n_devices']} × {told['device']} | {told['n_steps']} | {told['memory_gb']:.1f} "
            f"| {told['computed_gb']:.1f} | {told['frames_per_s']:,.0f} | {told['tokens_per_s']:,.0f} "
            f"| {told['mfu']:.1%} | {told['first_loss']:.2f}, {told['last_loss']:.2f} |"
        )


def _format_serving(results: Sequence[Result]) -> Iterator[str]:
    """Yields the goal and a Markdown table of the servers, with a row for each number of callers."""
    yield f"The goal is {AIMED_CALLERS} callers in real time: 99 of 100 frames within 80 ms, and at most 1 % dropped."
    yield ""
    yield "| what | callers in real time | callers | bare step p50, ms | server's frame p50, ms | p99, ms | dropped |"
    yield "|---|---|---|---|---|---|---|"
    for each in results:
        for told in each.figures["times"]:
            yield (
                f"| {each.title} | {each.figures['largest_in_real_time']} | {told['n_sessions']} "
                f"| {told['bare_p50_ms']:.1f} | {told['server_p50_ms']:.1f} | {told['server_p99_ms']:.1f} "
                f"| {told['dropped_share']:.1%} |"
            )


def _format_oracles(results: Sequence[Result]) -> Iterator[str]:
    """Yields a Markdown table of the chat engines."""
    yield "| engine | model | seconds of the stage | events/s | tokens/s | events |"
    yield "|---|---|---|---|---|---|"
    for told in (each.figures for each in results):
        model = told["model"] or "the engine's own"
        events = ", ".join(f"{number} {status}" for status, number in told["events"].items())
        yield (
            f"| {told['engine']} | {model} | {told['oracle_s']} | {told['events_per_s']} | {told['tokens_per_s']} "
            f"| {events} |"
        )


def _format_computed(results: Sequence[Result]) -> Iterator[str]:
    """Yields the lines of computed tables as they are."""
    for each in results:
        yield from each.figures


_TABLES = {
    "training": _format_training,
    "serving": _format_serving,
    "oracles": _format_oracles,
    "computed": _format_computed,
}


def make_report(out: Path, steps: Sequence[Step], machine: dict[str, Any]) -> Report:
    """Runs the steps, and rewrites the report in the folder `out` after each.

    A step is not run if an earlier result can be reused (`find_known`), or if the machine lacks something (`needs`).
    """
    (out / "steps").mkdir(parents=True, exist_ok=True)
    report, name = Report(out, machine), json.dumps(machine, sort_keys=True)
    for step in steps:
        known = find_known(out, step, name)
        if known is not None:
            print(f"{step.name}: {known.state} before", flush=True)
            report.add(known)
            continue
        if step.needs:
            facts = (step.name, step.title, step.kind, "left out", name, [list(each) for each in step.commands])
            result = Result(*facts, reason=step.needs)  # type: ignore[arg-type]
        else:
            print(f"{step.name}: {step.title} …", flush=True)
            result = run_step(step, out, name)
        print(f"{step.name}: {result.state} {result.reason}".rstrip(), flush=True)
        report.add(result)
    return report


def main() -> None:
    """Runs all measurements, or those of `--only`; exit code 1 if a step failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_report", description="Runs all benchmarks of a GPU."
    )
    parser.add_argument("--out", type=Path, default=Path("build/gpu-report"), help="folder of the report")
    parser.add_argument("--only", nargs="+", help="names of steps; the others are not in the report")
    parser.add_argument("--cpu-shapes", action="store_true", help="the smallest shapes on the CPU, to try the script")
    options = parser.parse_args()
    steps = list(list_steps(choose_sizes(options.cpu_shapes)))
    unknown = set(options.only or ()) - {each.name for each in steps}
    if unknown:
        parser.error(f"no step {', '.join(sorted(unknown))}; there are: {', '.join(each.name for each in steps)}")
    chosen = [each for each in steps if not options.only or each.name in options.only]
    report = make_report(options.out.resolve(), chosen, describe_machine())
    print(f"Report: {options.out / 'report.md'}")
    sys.exit(any(each.state == "failed" for each in report.results))


if __name__ == "__main__":
    main()
