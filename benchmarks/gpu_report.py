"""Runs all benchmarks of a GPU: training and serving `small` and moshi-7b, and vLLM behind the oracles.

    make gpu-report [GPU_REPORT=FOLDER] [GPU_REPORT_ARGS="--only train-small-long"]
    make gpu-report GPU_REPORT_ARGS=--cpu-shapes            # tries the script itself, in minutes, on any machine

Each step is one of the other benchmarks in another process. Its figures are stored in `steps/NAME.json` as soon as it
ends, and its output in `steps/NAME.log`. A second run executes only steps that are missing, failed, or were measured
with another device or command. A step that needs something this machine lacks is skipped with the reason. Weights and
dialogues are random. The exit code is 1 if a step failed; a training that runs out of memory does not fit instead.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
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

    @classmethod
    def make(cls, step: Step, state: State, machine: str, **more: Any) -> "Result":
        """Makes the result of a step; `more` are seconds, reason and figures."""
        commands = [list(each) for each in step.commands]
        return cls(step.name, step.title, step.kind, state, machine, commands, **more)


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
    results = read_figures(step, printed, figures) if code == 0 else None
    reason = "" if results is not None else describe_end(code, log.read_text(encoding="utf-8"))
    state: State = "measured"
    if results is None:
        state = "does not fit" if any(sign in reason for sign in _NO_MEMORY) else "failed"
    seconds = round(time.monotonic() - began_s, 1)
    return Result.make(step, state, machine, seconds=seconds, reason=reason, figures=results)


def read_figures(step: Step, printed: str, file: Path) -> Any:
    """Returns the figures of a benchmark that succeeded, from its file or the last line of its output; None if neither.

    Those of a computed table are all lines.
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
    lines = [line.strip() for line in log.splitlines() if line.strip()] or ["no output"]
    memory_errors = [line for line in lines if any(sign in line for sign in _NO_MEMORY)]
    return memory_errors[-1] if memory_errors else f"exit code {code}: {lines[-1]}"


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


def write_report(out: Path, machine: dict[str, Any], results: Sequence[Result]) -> None:
    """Writes the figures of all steps so far, the report and, unless the last step was left out, its result."""
    steps = {each.name: asdict(each) for each in results}
    last = results[-1]
    own = {} if last.state == "left out" else {f"steps/{last.name}.json": steps[last.name]}
    store = Store(str(out))
    for name, figures in (own | {"figures.json": {"machine": machine, "steps": steps}}).items():
        store.write_bytes(name, f"{json.dumps(figures, indent=1)}\n".encode())
    store.write_bytes("report.md", ("\n".join(_list_lines(machine, results)) + "\n").encode())


def _list_lines(machine: dict[str, Any], results: Sequence[Result]) -> Iterator[str]:
    """Yields the lines of the report in Markdown: a table for each kind of step, and what was not measured."""
    gpus = "; ".join(machine["gpus"]) or f"no GPU ({machine['threads']} threads)"
    yield from ("# Measurements", "", f"On {gpus}; PyTorch {machine['torch']}, CUDA {machine['cuda']}.")
    yield from ("", "Weights are random and dialogues made up. Commands and logs are in `steps/`.")
    for kind in _HEADS:
        if of_kind := [each for each in results if each.kind == kind and each.figures]:
            yield from ("", f"## {kind.capitalize()}", "", *_format_table(of_kind))
    missing = [each for each in results if each.state != "measured"]
    if missing:
        yield from ("", "## Not measured", "", "| step | what | state | reason |", "|---|---|---|---|")
    for each in missing:
        yield f"| {each.name} | {each.title} | {each.state} | {each.reason.replace('|', '/')} |"


_HEADS = {
    "training": (
        f"The goal is an MFU of {AIMED_MFU:.0%}. Memory is that of one device.",
        "| what | devices | steps | memory, GB | computed, GB | frames/s | tokens/s | MFU | loss, first and last |",
    ),
    "serving": (
        f"The goal is {AIMED_CALLERS} callers in real time: 99 of 100 frames within 80 ms, and at most 1 % dropped.",
        "| what | callers in real time | callers | bare step p50, ms | server's frame p50, ms | p99, ms | dropped |",
    ),
    "oracles": ("", "| engine | model | seconds of the stage | events/s | tokens/s | events |"),
    "computed": ("", ""),
}
"""The goal and the head of the table of each kind of step; a computed table has its own."""


def _format_table(results: Sequence[Result]) -> Iterator[str]:
    """Yields the goal and a Markdown table of the steps of one kind."""
    goal, head = _HEADS[results[0].kind]
    yield from (goal, "") if goal else ()
    yield from (head, f"|{'---|' * (head.count('|') - 1)}") if head else ()
    for each in results:
        yield from _list_rows(each)


def _list_rows(result: Result) -> Iterator[str]:
    """Yields the rows of a step: one, of a server one for each number of callers, of a computed table its lines."""
    figures = result.figures
    match result.kind:
        case "training":
            yield (
                f"| {result.title} | {figures['n_devices']} × {figures['device']} | {figures['n_steps']} "
                f"| {figures['memory_gb']:.1f} | {figures['computed_gb']:.1f} | {figures['frames_per_s']:,.0f} "
                f"| {figures['tokens_per_s']:,.0f} | {figures['mfu']:.1%} "
                f"| {figures['first_loss']:.2f}, {figures['last_loss']:.2f} |"
            )
        case "serving":
            for each in figures["times"]:
                yield (
                    f"| {result.title} | {figures['largest_in_real_time']} | {each['n_sessions']} "
                    f"| {each['bare_p50_ms']:.1f} | {each['server_p50_ms']:.1f} | {each['server_p99_ms']:.1f} "
                    f"| {each['dropped_share']:.1%} |"
                )
        case "oracles":
            model = figures["model"] or "the engine's own"
            events = ", ".join(f"{number} {status}" for status, number in figures["events"].items())
            speeds = f"{figures['oracle_s']} | {figures['events_per_s']} | {figures['tokens_per_s']}"
            yield f"| {figures['engine']} | {model} | {speeds} | {events} |"
        case _:
            yield from figures


def make_report(out: Path, steps: Sequence[Step], machine: dict[str, Any]) -> list[Result]:
    """Runs the steps, rewrites the report in the folder `out` after each, and returns their results.

    A step is not run if an earlier result can be reused (`find_known`), or if the machine lacks something (`needs`).
    """
    (out / "steps").mkdir(parents=True, exist_ok=True)
    results, name = list[Result](), json.dumps(machine, sort_keys=True)
    for step in steps:
        result = find_known(out, step, name)
        if result is not None:
            print(f"{step.name}: {result.state} before", flush=True)
        else:
            if step.needs:
                result = Result.make(step, "left out", name, reason=step.needs)
            else:
                print(f"{step.name}: {step.title} …", flush=True)
                result = run_step(step, out, name)
            print(f"{step.name}: {result.state} {result.reason}".rstrip(), flush=True)
        results.append(result)
        write_report(out, machine, results)
    return results


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
    results = make_report(options.out.resolve(), chosen, describe_machine())
    print(f"Report: {options.out / 'report.md'}")
    sys.exit(any(each.state == "failed" for each in results))


if __name__ == "__main__":
    main()
