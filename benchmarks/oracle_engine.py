"""Measures a chat engine behind the oracle stage: events and tokens per second, and the events by outcome.

    python -m benchmarks.oracle_engine --engine vllm --model Qwen/Qwen2.5-7B-Instruct [--n 200] [--json]

The run is that of `kame refresh` with deterministic doubles for speech and alignment, which need no GPU, so that only
the chat engine is measured. The seconds of the whole run include the start of the engine's server and the loading of
its model.
"""

import argparse
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from data_schemas.config import ChatConfig, OracleConfig
from data_schemas.reader import DatasetReader
from flows.runs.refresh import run_refresh
from tests.support.runs import Silent, config_on_doubles


def measure_engine(engine: str, model: str | None, n_items: int, max_in_flight: int) -> dict[str, Any]:
    """Runs the pipeline once in a temporary folder; returns its times, usage, speeds, and events by status.

    Args:
        engine: name of the chat engine.
        model: name on the Hub, folder or file; None for the engine's default.
        n_items: maximum number of items of each source.
        max_in_flight: maximum number of concurrent requests.
    """
    chat = ChatConfig(engine=engine, model=model, max_in_flight=max_in_flight)
    with tempfile.TemporaryDirectory() as folder:
        typed = {"chat": chat, "oracle": OracleConfig(), "limit": n_items}
        began_s = time.monotonic()
        run_refresh(config_on_doubles(Path(folder)).model_copy(update=typed), Silent())
        took_s = time.monotonic() - began_s
        (record,) = (json.loads(file.read_text(encoding="utf-8")) for file in Path(folder).glob("runs/*.json"))
        reader = DatasetReader(folder)
        rows = [row for shard in reader.shards() for _, row in reader.rows(shard) if row]
    statuses = Counter(event.status for row in rows for event in row.events)
    usage, oracle_s = record["chat"], record["seconds"]["oracle"]
    return {
        "engine": engine,
        "model": model,
        "events": dict(statuses),
        "seconds": round(took_s, 1),
        "oracle_s": oracle_s,
        "usage": usage,
        "tokens_per_s": round((usage["n_tokens_in"] + usage["n_tokens_out"]) / oracle_s, 1),
        "events_per_s": round(sum(statuses.values()) / oracle_s, 2),
    }


def main() -> None:
    """Runs the benchmark and prints its figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.oracle_engine", description="A chat engine's speed.")
    parser.add_argument("--engine", default="vllm", help="chat.engine of kame refresh")
    parser.add_argument("--model", help="chat.model")
    parser.add_argument("--n", type=int, default=200, help="maximum number of items of each source")
    parser.add_argument("--max-in-flight", type=int, default=256, help="concurrent requests; as in the profile gpu")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    measured = measure_engine(options.engine, options.model, options.n, options.max_in_flight)
    if options.json:
        print(json.dumps(measured))
        return
    print("\n".join(f"{name}: {value}" for name, value in measured.items()))


if __name__ == "__main__":
    main()
