"""Load tests of the server: cost of a frame, soak tests, switches of the chat model, attacks.

    python -m benchmarks.serve frames [CHECKPOINT] [--sessions 1 2 3 4 6 8] [--seconds 20] [--json FILE]
    python -m benchmarks.serve frames --device cuda --no-cuda-graphs
    python -m benchmarks.serve soak [--n 200] [--at-once 4] [--json FILE]
    python -m benchmarks.serve soak --real [CHECKPOINT] [--minutes 10] [--at-once 2] [--json FILE]
    python -m benchmarks.serve swap [CHECKPOINT] [--swaps 6] [--json FILE]
    python -m benchmarks.serve attack [CHECKPOINT] [--only PART-OF-A-NAME …] [--json FILE]

If no checkpoint is given, one with random weights is made for the run: of the preset `nano` (frames, the real soak,
swap and attack), or a tiny one (the soak on a simulated clock).
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import serve_attack, serve_frames
from benchmarks.serve_checkpoint import make_random_checkpoint
from benchmarks.serve_soak_real import run_real_soak
from benchmarks.serve_swap import run_swaps
from data_schemas.presets import PRESETS
from kame_model.checkpoint.load import load_checkpoint
from tests.support.serving import tiny_checkpoint
from tests.support.soak import soak


def run_frames(options: argparse.Namespace) -> bool:
    """Measures frame times and the largest number of sessions in real time; returns False if nothing fits the GPU."""
    with _open_checkpoint(options.checkpoint, options.preset, options.codec, options.device) as folder:
        loaded = load_checkpoint(folder, options.device)
        measure = serve_frames.measure_frames
        times = measure(loaded, options.sessions, options.seconds, options.rounds, options.cuda_graphs)
    largest = serve_frames.find_largest_in_real_time(times)
    print(f"{serve_frames.format_table(times)}\n\nThe most sessions in real time, of those measured: {largest}")
    _write_json(options.json, {"largest_in_real_time": largest, "times": [asdict(each) for each in times]})
    if len(times) < len(options.sessions):
        _print_line(f"Not measured, because the GPU has too little memory: {options.sessions[len(times) :]} sessions")
    return bool(times)


def run_soak(options: argparse.Namespace) -> bool:
    """Runs a soak test; returns False if a check failed."""
    if options.real:
        with _open_checkpoint(options.checkpoint, "nano") as folder:
            real = run_real_soak(str(folder), options.minutes, options.at_once, options.settings, _print_line)
        return _conclude(real.as_json(), options.json)
    with tempfile.TemporaryDirectory() as folder:
        tiny = tiny_checkpoint(Path(folder)) if options.checkpoint is None else load_checkpoint(options.checkpoint)
        report = soak(
            tiny, options.n, options.at_once, on_caller=lambda told: _print_line(f"{told.number} {told.fault}")
        )
    return _conclude(report.as_json(), options.json)


def run_swap(options: argparse.Namespace) -> bool:
    """Switches the chat model during a conversation between two real servers; returns False if a check failed."""
    with _open_checkpoint(options.checkpoint, "nano") as folder:
        report = run_swaps(str(folder), options.swaps, options.settings, _print_line)
    return _conclude(report.as_json(), options.json)


def run_attacks(options: argparse.Namespace) -> bool:
    """Runs attacks beside a good caller, each on its own server, and prints what they cost; always returns True."""
    with _open_checkpoint(options.checkpoint, "nano") as folder:
        outcomes = serve_attack.run_attacks(str(folder), options.only, options.settings, _print_line)
    print(serve_attack.format_table(outcomes))
    _write_json(options.json, serve_attack.to_json(outcomes))
    return True


def _print_line(what: object) -> None:
    """Prints a line to standard error."""
    print(what, file=sys.stderr, flush=True)


def _conclude(figures: dict[str, Any], file: Path | None) -> bool:
    """Prints and writes figures; returns whether all checks passed."""
    print(json.dumps(figures, indent=1))
    _write_json(file, figures)
    return not figures["broken"]


def _write_json(file: Path | None, figures: dict[str, Any]) -> None:
    """Writes figures to a file; does nothing if it is None."""
    if file is not None:
        file.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


@contextmanager
def _open_checkpoint(
    named: str | None, preset: str, codec: str = "codec2-learnt", device: str = "cpu"
) -> Iterator[str | Path]:
    """Yields the given checkpoint, or a random one of a preset's shape for the duration of the `with` block."""
    if named is not None:
        yield named
        return
    with tempfile.TemporaryDirectory() as folder:
        yield make_random_checkpoint(Path(folder), PRESETS[preset].model, codec, device)


def _make_parser() -> argparse.ArgumentParser:
    """Makes the parser of all commands; `run` of its result is the function of the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)

    def add_command(name: str, run: Callable[[argparse.Namespace], bool]) -> argparse.ArgumentParser:
        """Adds a command with the options that all have."""
        added = commands.add_parser(name, help=run.__doc__)
        added.set_defaults(run=run)
        added.add_argument("--json", type=Path, help="write all figures to this file as well")
        added.add_argument(
            "--set", dest="settings", action="append", default=[], help="additional option for kame serve --set"
        )
        return added

    each = add_command("frames", run_frames)
    each.add_argument("checkpoint", nargs="?", help="folder, or owner/name on the Hub; default: random weights")
    each.add_argument("--sessions", type=int, nargs="+", default=[1, 2, 3, 4, 6, 8])
    each.add_argument(
        "--seconds", type=float, default=20.0, help="seconds of real time for each number of sessions, in each round"
    )
    each.add_argument("--rounds", type=int, default=3)
    each.add_argument("--preset", choices=PRESETS, default="nano", help="shape of the random checkpoint")
    each.add_argument(
        "--codec", choices=["codec2-learnt", "mimi"], default="codec2-learnt", help="codec of the random checkpoint"
    )
    each.add_argument("--device", default="cpu")
    each.add_argument(
        "--cuda-graphs", action=argparse.BooleanOptionalAction, default=True, help="use CUDA graphs; no effect on a CPU"
    )
    each = add_command("soak", run_soak)
    each.add_argument("checkpoint", nargs="?")
    each.add_argument("--n", type=int, default=200, help="number of callers on the simulated clock")
    each.add_argument("--at-once", type=int, default=4)
    each.add_argument("--real", action="store_true", help="use real components over the network")
    each.add_argument("--minutes", type=float, default=10.0, help="duration of the real soak test, in minutes")
    each = add_command("swap", run_swap)
    each.add_argument("checkpoint", nargs="?")
    each.add_argument("--swaps", type=int, default=6, help="number of switches, one in each turn of the caller")
    each = add_command("attack", run_attacks)
    each.add_argument("checkpoint", nargs="?")
    each.add_argument("--only", nargs="+", default=[], help="attacks whose names contain one of these")
    return parser


def main() -> None:
    """Runs the benchmark; exit code 1 if a check failed."""
    options = _make_parser().parse_args()
    sys.exit(0 if options.run(options) else 1)


if __name__ == "__main__":
    main()
