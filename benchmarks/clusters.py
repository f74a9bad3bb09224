"""Compares the datasets made in one process and on local Dask and Ray clusters, byte by byte.

    python -m benchmarks.clusters --n 2000 --workers 4 [--kinds dask ray] [--out FOLDER]

The engines are test doubles, so that only our own work and that of the clusters is measured. On each cluster there are
three runs: one without faults, one in which a worker is killed, and one in which the scheduler is killed and the run is
started again. The result of all must be that of the run in one process.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from benchmarks.questions import write_questions
from data_schemas.config import OracleConfig, PartConfig, RefreshConfig, ResourcesConfig, SourceConfig, StageResources
from data_schemas.errors import BackendError
from flows.runs import refresh
from tests.support.clusters import ITSELF, LocalCluster, dying, kill_once
from tests.support.runs import Silent, assert_same, config_on_doubles

SMALL = StageResources(memory_gb=0.1)


def make_config(executor: str, out: Path, source: SourceConfig) -> RefreshConfig:
    """Builds the configuration of a run on test doubles with parts of the default size, and creates its work folder."""
    changes = {
        "executor": executor,
        "sources": [source],
        "parts": PartConfig(),
        "oracle": OracleConfig(simulator="random", version="random"),
        "resources": ResourcesConfig(script=SMALL, speech=SMALL, alignment=SMALL, mixing=SMALL),
    }
    (out / ".store").mkdir(parents=True)
    return config_on_doubles(out).model_copy(update=changes)


def time_run(config: RefreshConfig) -> float:
    """Runs a refresh and returns its wall-clock time in seconds."""
    started_s = time.monotonic()
    refresh.run_refresh(config, Silent())
    return time.monotonic() - started_s


def compare(folder: Path, kind: str, whole: Path, source: SourceConfig, n_workers: int) -> dict[str, float]:
    """Makes the three runs on one kind of cluster, and compares their files with those of the dataset `whole`.

    Returns the seconds of each run; of the one whose scheduler is killed, those of its second start.

    Raises:
        RunError: a byte differs.
    """
    taken_s: dict[str, float] = {}
    for what in ("in peace", "a worker killed", "the scheduler killed"):
        out = folder / f"{kind}-{what.replace(' ', '-')}"
        with LocalCluster(kind, folder / f"cluster-{out.name}", n_workers) as cluster:
            config = make_config(cluster.address, out, source)
            if what == "in peace":
                taken_s[what] = time_run(config)
            elif what == "a worker killed":
                with dying(config, ITSELF):
                    taken_s[what] = time_run(config)
            else:
                try:
                    with dying(config, cluster.scheduler):
                        time_run(config)
                except BackendError as error:
                    print(f"{kind}: {error}", flush=True)
        if what == "the scheduler killed":
            with LocalCluster(kind, folder / f"second-{out.name}", n_workers, cluster.port):
                taken_s["the same run again"] = time_run(config)
        assert_same(out, whole)
        print(f"{kind}, {what}: the same bytes; {json.dumps(taken_s)}", flush=True)
    return taken_s


def main() -> None:
    """Compares the runs, and prints their times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--n", type=int, default=2000, help="number of dialogues")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--kinds", nargs="*", default=["dask", "ray"])
    parser.add_argument("--out", type=Path, help="new folder; default: a temporary one")
    options = parser.parse_args()
    refresh.run_on_part = kill_once  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        source = write_questions(folder / "own.jsonl", options.n, 1)
        whole = folder / "whole"
        print(f"one process: {time_run(make_config('local', whole, source)):.0f} s", flush=True)
        for kind in options.kinds:
            compare(folder, kind, whole, source, options.workers)


if __name__ == "__main__":
    main()
