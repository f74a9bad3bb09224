"""Measures a chat engine behind the oracle stage: events and tokens per second, and the events by outcome.

    python -m benchmarks.oracle_engine --engine vllm --model Qwen/Qwen2.5-7B-Instruct [--n 200] [--json]

The run is that of `kame refresh` with deterministic doubles for speech and alignment, so that only the chat engine is
measured. The seconds of the whole run include the start of the engine's server and the loading of its model.
"""

import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.command import make_parser, print_figures
from data_schemas.config import ChatConfig, OracleConfig
from data_schemas.reader import DatasetReader
from flows.runs.refresh import run_refresh
from tests.support.runs import Silent, config_on_doubles


def measure_engine(chat: ChatConfig, n_items: int) -> dict[str, Any]:
    """Runs the pipeline on at most `n_items` of each source; returns its times, usage, speeds, and events by status."""
    with tempfile.TemporaryDirectory() as folder:
        typed = {"chat": chat, "oracle": OracleConfig(), "limit": n_items}
        began_s = time.monotonic()
        run_refresh(config_on_doubles(Path(folder)).model_copy(update=typed), Silent())
        took_s = time.monotonic() - began_s
        (record,) = (json.loads(file.read_text(encoding="utf-8")) for file in Path(folder).glob("runs/*.json"))
        reader = DatasetReader(folder)
        rows = [row for shard in reader.list_shards() for _, row in reader.iterate_rows(shard) if row]
    statuses = Counter(event.status for row in rows for event in row.events)
    usage, oracle_s = record["chat"], record["seconds"]["oracle"]
    return {
        "engine": chat.engine,
        "model": chat.model,
        "events": dict(statuses),
        "seconds": round(took_s, 1),
        "oracle_s": oracle_s,
        "usage": usage,
        "tokens_per_s": round((usage["n_tokens_in"] + usage["n_tokens_out"]) / oracle_s, 1),
        "events_per_s": round(statuses.total() / oracle_s, 2),
    }


def main() -> None:
    """Runs the benchmark and prints its figures."""
    parser = make_parser(__doc__)
    parser.add_argument("--engine", default="vllm", help="chat.engine of kame refresh")
    parser.add_argument("--model", help="chat.model; default: the engine's own")
    parser.add_argument("--n", type=int, default=200, help="maximum number of items of each source")
    parser.add_argument("--max-in-flight", type=int, default=256, help="concurrent requests; as in the profile gpu")
    options = parser.parse_args()
    chat = ChatConfig(engine=options.engine, model=options.model, max_in_flight=options.max_in_flight)
    print_figures(measure_engine(chat, options.n), options.json)


if __name__ == "__main__":
    main()
