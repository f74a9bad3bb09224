"""Measures the throughput of the chat client with a normal server, and its retries with a faulty one.

    python -m benchmarks.oracle [--only throughput faults kill stage] [--n 200] [--json]

`throughput`: 2,000 requests like those of the oracle stage to a server with 64 slots, with 256 in flight and with the
default, and the released recipe (sequential requests) with the same server. `faults`: 1,000 requests, of whose attempts
a fifth fail in one of eight ways. `kill`: the same, killed in the middle and run again. `stage`: a whole run on test
doubles whose oracles come from that server. The server is `tests/support/chat_server.py`, in another process. The exit
code is 1 if a check fails.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from backends.chat.cache import ReplyCache
from backends.chat.client import OpenAIChatClient, ask_all
from backends.chat.protocol import ChatReply, Endpoint
from data_schemas.config import ChatConfig, OracleConfig
from data_schemas.errors import RequestError
from data_schemas.reader import DatasetReader
from data_schemas.records import OracleRow
from tests.support.chat_server import MODEL, Behaviour, served_apart
from tests.support.runs import RunError

Measure = Callable[..., dict[str, Any]]
N_EVENTS = 8
"""Number of requests of one dialogue."""
N_SLOTS = 64
SPEED = Behaviour(n_slots=N_SLOTS, first_token_s=0.5, tokens_per_s=16.0)
"""Speed of the simulated server, as of a hosted model: an answer of 12 to 20 tokens takes 1.2 to 1.8 s."""
FAULTY = Behaviour(fault_share=0.2, first_token_s=0.02, retry_after_s=0.1)
CONFIG = ChatConfig(engine="openai", max_in_flight=256)
DEFAULT_CONFIG = ChatConfig(engine="openai")
FAULTY_CONFIG = ChatConfig(engine="openai", max_in_flight=64, timeout_s=2.0)
MAX_FAILED_SHARE = 0.01
"""Maximum share of failed requests: a fifth of attempts fail, so five in a row fail once in 3,125."""
_SYSTEM = "You guess the answer to a question that is still being asked. " * 12
_QUESTION = "A baker sells 48 loaves in the morning and half as many in the afternoon so how many in all"


def make_payloads(n: int) -> list[dict[str, Any]]:
    """Makes `n` requests like those of the oracle stage: those of a dialogue together, each with more words heard."""
    made = []
    for number in range(n):
        dialogue, event = divmod(number, N_EVENTS)
        heard = _QUESTION[: 11 * (1 + event)]
        messages = [
            {"role": "system", "content": _SYSTEM},
            {"role": "user", "content": f"Dialogue {dialogue}. The user says: {heard} …\nLevel {event % 5}."},
        ]
        made.append({"messages": messages, "max_tokens": 48, "temperature": 0.0})
    return made


def ask(
    root: str, folder: Path, asked: Sequence[dict[str, Any]], config: ChatConfig, done: Counter[int] | None = None
) -> list[ChatReply | RequestError]:
    """Sends all requests with the client; returns the answer or the error of each, in order.

    Args:
        root: URL of the server.
        folder: folder of the client's cache.
        asked: the requests.
        done: counter by index of request, to which each outcome is added.
    """

    async def session() -> list[ChatReply | RequestError]:
        endpoint = Endpoint("test", f"{root}/v1", MODEL, "")
        with ReplyCache(folder / "answers.sqlite") as cache:
            async with OpenAIChatClient(endpoint, config, cache) as client:
                return await ask_all(client, asked, lambda index, _: done.update([index]) if done is not None else None)

    return asyncio.run(session())


def check_outcomes(done: Counter[int], n: int) -> bool:
    """Returns whether each of `n` requests has exactly one outcome."""
    return sorted(done.items()) == [(index, 1) for index in range(n)]


def read_counts(root: str) -> dict[str, Any]:
    """Returns the counters of the simulated server, such as requests, faults and answers."""
    with urllib.request.urlopen(f"{root}/counts") as response:  # noqa: S310 - our own server
        told: dict[str, Any] = json.load(response)
    return told


def measure_sequential_s(root: str, asked: Sequence[dict[str, Any]]) -> float:
    """Sends requests one after another, as the released recipe does; returns the mean seconds per request."""
    import openai

    begun_s = time.monotonic()
    with openai.OpenAI(base_url=f"{root}/v1", api_key="none") as client:
        for payload in asked:
            client.chat.completions.create(model=MODEL, **payload)
    return (time.monotonic() - begun_s) / len(asked)


def _measure_slots(n: int, config: ChatConfig) -> dict[str, Any]:
    """Sends `n` requests to a new server; returns how many were answered, the seconds, and the share of busy slots."""
    with served_apart(SPEED) as root, tempfile.TemporaryDirectory() as folder:
        begun_s, before_s = time.monotonic(), time.process_time()
        answered = ask(root, Path(folder), make_payloads(n), config)
        took_s, processor_s = time.monotonic() - begun_s, time.process_time() - before_s
        seen = read_counts(root)
    return {
        "answered": sum(isinstance(each, ChatReply) for each in answered),
        "seconds": round(took_s, 1),
        "client's processor, milliseconds a request": round(1000 * processor_s / n, 1),
        "slots busy": round(seen["busy_slot_s"] / (N_SLOTS * seen["span_s"]), 3),
    }


def measure_throughput(n: int = 2_000, n_sequential: int = 20) -> dict[str, Any]:
    """Measures the share of busy slots, and the speed relative to the recipe's, for which `n_sequential` are timed.

    `kept` is whether at least 90 % of the slots were busy and all requests were answered.
    """
    filled, by_default = _measure_slots(n, CONFIG), _measure_slots(n, DEFAULT_CONFIG)
    with served_apart(SPEED) as root:
        sequential_s = measure_sequential_s(root, make_payloads(n_sequential))
    return {
        "requests": n,
        **filled,
        "slots busy by default": by_default["slots busy"],
        "seconds by default": by_default["seconds"],
        "recipe, seconds a request": round(sequential_s, 4),
        "times as fast": round(sequential_s * n / filled["seconds"], 1),
        "times as fast by default": round(sequential_s * n / by_default["seconds"], 1),
        "kept": filled["slots busy"] >= 0.9 and filled["answered"] == by_default["answered"] == n,
    }


def measure_faults(n: int = 1_000) -> dict[str, Any]:
    """Checks (`kept`) that each request is answered once or marked failed, although a fifth of all attempts fail."""
    with served_apart(FAULTY) as root, tempfile.TemporaryDirectory() as folder:
        begun_s = time.monotonic()
        done: Counter[int] = Counter()
        outcomes = ask(root, Path(folder), make_payloads(n), FAULTY_CONFIG, done)
        took_s = time.monotonic() - begun_s
        seen = read_counts(root)
    n_failed = sum(isinstance(each, RequestError) for each in outcomes)
    return {
        "requests": n,
        "tries": seen["n_tries"],
        "faults": seen["n_faults"],
        "answered": n - n_failed,
        "marked failed": n_failed,
        "answered twice": seen["n_answered_twice"],
        "seconds": round(took_s, 1),
        "kept": check_outcomes(done, n)
        and n_failed <= MAX_FAILED_SHARE * n
        and seen["n_answered"] == n - n_failed
        and seen["n_answered_twice"] == 0,
    }


def measure_kill(n: int = 1_000) -> dict[str, Any]:
    """Checks (`kept`) that a run that is killed in the middle does not repeat a request whose answer it had stored.

    Raises:
        RunError: it ends by itself before that.
    """
    with served_apart(FAULTY) as root, tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.oracle", "--ask", root, folder, str(n)]
        with subprocess.Popen(command) as asking:  # noqa: S603 - ourselves
            while asking.poll() is None and read_counts(root)["n_answered"] < n // 2:
                time.sleep(0.05)
            if asking.returncode is not None:
                why = "see its error above, or use a larger --n if there is none"
                raise RunError(f"The client ended before it was killed, with exit code {asking.returncode}: {why}.")
            os.kill(asking.pid, signal.SIGKILL)
        with ReplyCache(Path(folder) / "answers.sqlite") as cache:
            n_kept = len(cache)
        n_answered_before = read_counts(root)["n_answered"]
        done: Counter[int] = Counter()
        outcomes = ask(root, Path(folder), make_payloads(n), FAULTY_CONFIG, done)
        seen = read_counts(root)
    replies = [each for each in outcomes if isinstance(each, ChatReply)]
    n_from_cache = sum(each.from_cache for each in replies)
    return {
        "requests": n,
        "stored when killed": n_kept,
        "answered on the wire when killed": n_answered_before - n_kept,
        "from the cache in the second run": n_from_cache,
        "asked in the second run": len(replies) - n_from_cache,
        "marked failed": n - len(replies),
        "answered twice": seen["n_answered_twice"],
        "kept": check_outcomes(done, n)
        and n - len(replies) <= MAX_FAILED_SHARE * n
        and n_from_cache == n_kept
        and seen["n_answered_twice"] <= n_answered_before - n_kept,
    }


def measure_stage(n: int = 40) -> dict[str, Any]:
    """Checks (`kept`) a whole run with the faulty server: each event is answered once or marked failed.

    Args:
        n: maximum number of items of each source.
    """
    from flows.runs.refresh import run_refresh
    from tests.support.runs import Silent, config_on_doubles

    with served_apart(FAULTY) as root, tempfile.TemporaryDirectory() as folder:
        chat = FAULTY_CONFIG.model_copy(update={"base_url": f"{root}/v1", "model": MODEL, "endpoint": "test"})
        config = config_on_doubles(Path(folder)).model_copy(update={"chat": chat, "oracle": OracleConfig(), "limit": n})
        begun_s = time.monotonic()
        run_refresh(config, Silent())
        took_s = time.monotonic() - begun_s
        events = [event for row in _read_rows(folder) for event in row.events]
        seen = read_counts(root)
    statuses = Counter(event.status for event in events)
    n_lost = sum((event.error or "").startswith("request:") for event in events)
    return {
        "events": dict(statuses),
        "lost requests' events": n_lost,
        "tries": seen["n_tries"],
        "answered": seen["n_answered"],
        "answered twice": seen["n_answered_twice"],
        "seconds": round(took_s, 1),
        "kept": seen["n_answered_twice"] == 0
        and all((event.text is None) == (event.status == "failed") for event in events)
        and 0 < statuses["answered"] <= seen["n_answered"]
        and n_lost <= MAX_FAILED_SHARE * len(events),
    }


def _read_rows(folder: str) -> list[OracleRow]:
    """Reads the oracle rows of a dataset."""
    reader = DatasetReader(folder)
    return [row for shard in reader.shards() for _, row in reader.rows(shard) if row]


MEASURES: dict[str, Measure] = {
    "throughput": measure_throughput,
    "faults": measure_faults,
    "kill": measure_kill,
    "stage": measure_stage,
}
"""Measurements by name, in order."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the measurements and prints them; returns 1 if a check failed."""
    parser = argparse.ArgumentParser(prog="benchmarks.oracle", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=list(MEASURES), help="what to measure")
    parser.add_argument(
        "--n", type=int, help="number of requests, instead of 2,000 and 1,000; too few do not fill 64 slots"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--ask", nargs=3, metavar=("ROOT", "FOLDER", "N"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.ask:
        root, folder, n = options.ask
        ask(root, Path(folder), make_payloads(int(n)), FAULTY_CONFIG)
        return 0
    size = {"n": options.n} if options.n else {}
    measured = {name: MEASURES[name](**size) for name in options.only}
    if options.json:
        print(json.dumps(measured))
    else:
        for name, figures in measured.items():
            print(f"{name}: " + "; ".join(f"{what} {figure}" for what, figure in figures.items()))
    return 0 if all(figures["kept"] for figures in measured.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
