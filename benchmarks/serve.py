"""Load tests of the server: cost of a frame, soak tests, switches of the chat model, attacks.

    python -m benchmarks.serve frames [CHECKPOINT] [--sessions 1 2 3 4 6 8] [--seconds 20] [--json FILE]
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

from benchmarks.command import print_figures
from benchmarks.serve_attack import run_attacks
from benchmarks.serve_checkpoint import make_random_checkpoint
from benchmarks.serve_frames import find_largest_in_real_time, measure_frames
from benchmarks.serve_soak_real import run_real_soak
from benchmarks.serve_swap import run_swaps
from data_schemas.presets import PRESETS
from kame_model.checkpoint.load import load_checkpoint
from tests.support.serving import tiny_checkpoint
from tests.support.soak import soak

Figures = dict[str, Any]


def run_frames(options: argparse.Namespace) -> Figures:
    """Measures frame times and the largest number of sessions in real time; exits if nothing fits the GPU."""
    with _open_checkpoint(options.checkpoint, options.preset, options.codec, options.device) as folder:
        loaded = load_checkpoint(folder, options.device)
        times = measure_frames(loaded, options.sessions, options.seconds, options.rounds, options.cuda_graphs)
    if len(times) < len(options.sessions):
        left_out = f"Not measured, because the GPU has too little memory: {options.sessions[len(times) :]} sessions"
        if not times:
            sys.exit(left_out)
        print(left_out, file=sys.stderr)
    return {"largest_in_real_time": find_largest_in_real_time(times), "times": [asdict(each) for each in times]}


def run_soak(options: argparse.Namespace) -> Figures:
    """Runs a soak test."""
    if options.real:
        with _open_checkpoint(options.checkpoint) as place:
            return run_real_soak(str(place), options.minutes, options.at_once)
    with tempfile.TemporaryDirectory() as folder:
        tiny = tiny_checkpoint(Path(folder)) if options.checkpoint is None else load_checkpoint(options.checkpoint)
        report = soak(
            tiny, options.n, options.at_once, on_caller=lambda each: print(each.number, each.fault, file=sys.stderr)
        )
    return report.as_json()


def run_swap(options: argparse.Namespace) -> Figures:
    """Switches the chat model during a conversation between two real servers."""
    with _open_checkpoint(options.checkpoint) as folder:
        return run_swaps(str(folder), options.swaps).as_json()


def run_attack(options: argparse.Namespace) -> Figures:
    """Runs attacks beside a good caller, each on its own server, and tells what they cost."""
    with _open_checkpoint(options.checkpoint) as folder:
        return {"attacks": list(run_attacks(str(folder), options.only))}


@contextmanager
def _open_checkpoint(
    named: str | None, preset: str = "nano", codec: str = "codec2-learnt", device: str = "cpu"
) -> Iterator[str | Path]:
    """Yields the given checkpoint, or a random one of a preset's shape for the duration of the `with` block."""
    if named is not None:
        yield named
        return
    with tempfile.TemporaryDirectory() as folder:
        yield make_random_checkpoint(Path(folder), PRESETS[preset].model, codec, device)


def _make_parser() -> argparse.ArgumentParser:
    """Makes the parser of all commands; `run` of its result is the function of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.serve", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)

    def add_command(name: str, run: Callable[[argparse.Namespace], Figures]) -> argparse.ArgumentParser:
        """Adds a command with the options that all have."""
        added = commands.add_parser(name, help=run.__doc__)
        added.set_defaults(run=run)
        added.add_argument("--json", type=Path, help="write all figures to this file as well")
        if name != "delays":
            added.add_argument(
                "checkpoint", nargs="?", help="folder, or owner/name on the Hub; default: random weights"
            )
        return added

    each = add_command("frames", run_frames)
    each.add_argument("--sessions", type=int, nargs="+", default=[1, 2, 3, 4, 6, 8])
    each.add_argument("--seconds", type=float, default=20.0, help="of each number of sessions, in each round")
    each.add_argument("--rounds", type=int, default=3)
    each.add_argument("--preset", choices=PRESETS, default="nano", help="shape of the random checkpoint")
    each.add_argument("--codec", choices=["codec2-learnt", "mimi"], default="codec2-learnt", help="of that checkpoint")
    each.add_argument("--device", default="cpu")
    each.add_argument(
        "--cuda-graphs", action=argparse.BooleanOptionalAction, default=True, help="use CUDA graphs; no effect on a CPU"
    )
    each = add_command("soak", run_soak)
    each.add_argument("--n", type=int, default=200, help="number of callers on the simulated clock")
    each.add_argument("--at-once", type=int, default=4)
    each.add_argument("--real", action="store_true", help="use real components over the network")
    each.add_argument("--minutes", type=float, default=10.0, help="duration of the real soak test, in minutes")
    each = add_command("swap", run_swap)
    each.add_argument("--swaps", type=int, default=6, help="number of switches, one in each turn of the caller")
    each = add_command("attack", run_attack)
    each.add_argument("--only", nargs="+", default=[], help="attacks whose names contain one of these")
    return parser


def main() -> None:
    """Runs the benchmark; exit code 1 if a check failed."""
    options = _make_parser().parse_args()
    figures = options.run(options)
    print_figures(figures, as_json=False)
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    sys.exit(bool(figures.get("broken")))


if __name__ == "__main__":
    main()
