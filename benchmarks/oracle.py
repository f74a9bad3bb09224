"""Measures the throughput of the chat client with a normal server, and its retries with a faulty one.

    python -m benchmarks.oracle [--n 2000] [--json]

`throughput`: requests like those of the oracle stage to a server with 64 slots, with 256 in flight, compared with the
released recipe (sequential requests) with the same server. `faults`: requests of whose attempts a fifth fail in one of
eight ways. `kill`: the same, killed in the middle and run again. The server is `tests/support/chat_server.py`, in
another process. The exit code is 1 if a check (`kept`) fails.
"""

import asyncio
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from backends.chat.cache import ReplyCache
from backends.chat.client import OpenAIChatClient, ask_all
from backends.chat.protocol import ChatReply, Endpoint
from benchmarks.command import make_parser, print_figures
from data_schemas.config import ChatConfig
from data_schemas.errors import RequestError
from tests.support.chat_server import MODEL, Behaviour, served_apart
from tests.support.runs import RunError

N_SLOTS = 64
N_SEQUENTIAL = 20
SPEED = Behaviour(n_slots=N_SLOTS, first_token_s=0.5, tokens_per_s=16.0)
"""Speed of the simulated server, as of a hosted model: an answer of 12 to 20 tokens takes 1.2 to 1.8 s."""
FAULTY = Behaviour(fault_share=0.2, first_token_s=0.02, retry_after_s=0.1)
CONFIG = ChatConfig(engine="openai", max_in_flight=256)
SEQUENTIAL = ChatConfig(engine="openai", max_in_flight=1)
FAULTY_CONFIG = ChatConfig(engine="openai", max_in_flight=64, timeout_s=2.0)
MAX_FAILED_SHARE = 0.01
"""Maximum share of failed requests: a fifth of attempts fail, so five in a row fail once in 3,125."""
_SYSTEM = "You guess the answer to a question that is still being asked. " * 12
_QUESTION = "A baker sells 48 loaves in the morning and half as many in the afternoon so how many in all"

Figures = dict[str, Any]


def make_payloads(n: int) -> list[dict[str, Any]]:
    """Makes `n` requests like those of the oracle stage: those of a dialogue together, each with more words heard."""
    made = []
    for number in range(n):
        dialogue, event = divmod(number, 8)
        heard = _QUESTION[: 11 * (1 + event)]
        messages = [
            {"role": "system", "content": _SYSTEM},
            {"role": "user", "content": f"Dialogue {dialogue}. The user says: {heard} …\nLevel {event % 5}."},
        ]
        made.append({"messages": messages, "max_tokens": 48, "temperature": 0.0})
    return made


def ask(root: str, folder: str, n: int, config: ChatConfig) -> tuple[list[ChatReply], bool]:
    """Sends `n` requests with the client; returns the answers, and whether each request had exactly one outcome.

    `root` is the URL of the server, and `folder` that of the client's cache.
    """
    done: Counter[int] = Counter()

    async def send() -> list[ChatReply | RequestError]:
        endpoint = Endpoint("test", f"{root}/v1", MODEL, "")
        with ReplyCache(Path(folder) / "answers.sqlite") as cache:
            async with OpenAIChatClient(endpoint, config, cache) as client:
                return await ask_all(client, make_payloads(n), lambda index, _: done.update([index]))

    replies = [each for each in asyncio.run(send()) if isinstance(each, ChatReply)]
    return replies, sorted(done.items()) == [(index, 1) for index in range(n)]


def read_counts(root: str) -> Figures:
    """Returns the counters of the simulated server, such as requests, faults and answers."""
    return dict(httpx.get(f"{root}/counts").json())


def measure_throughput(n: int) -> Figures:
    """Measures the share of busy slots, and the speed relative to the recipe's.

    `kept` is whether at least 90 % of the slots were busy and all requests were answered.
    """
    with served_apart(SPEED) as root, tempfile.TemporaryDirectory() as folder:
        begun_s, before_s = time.monotonic(), time.process_time()
        replies, _ = ask(root, folder, n, CONFIG)
        took_s, processor_s = time.monotonic() - begun_s, time.process_time() - before_s
        seen = read_counts(root)
    with served_apart(SPEED) as root, tempfile.TemporaryDirectory() as folder:
        begun_s = time.monotonic()
        ask(root, folder, N_SEQUENTIAL, SEQUENTIAL)
        sequential_s = (time.monotonic() - begun_s) / N_SEQUENTIAL
    busy = seen["busy_slot_s"] / (N_SLOTS * seen["span_s"])
    return {
        "requests": n,
        "answered": len(replies),
        "seconds": took_s,
        "client's processor, milliseconds a request": 1000 * processor_s / n,
        "slots busy": busy,
        "recipe, seconds a request": sequential_s,
        "times as fast": sequential_s * n / took_s,
        "kept": busy >= 0.9 and len(replies) == n,
    }


def measure_faults(n: int) -> Figures:
    """Checks (`kept`) that each request is answered once or marked failed, although a fifth of all attempts fail."""
    with served_apart(FAULTY) as root, tempfile.TemporaryDirectory() as folder:
        replies, is_each_told_once = ask(root, folder, n, FAULTY_CONFIG)
        seen = read_counts(root)
    return {
        "requests": n,
        "tries": seen["n_tries"],
        "faults": seen["n_faults"],
        "answered": len(replies),
        "answered twice": seen["n_answered_twice"],
        "kept": is_each_told_once
        and n - len(replies) <= MAX_FAILED_SHARE * n
        and seen["n_answered"] == len(replies)
        and seen["n_answered_twice"] == 0,
    }


def measure_kill(n: int) -> Figures:
    """Checks (`kept`) that a run that is killed in the middle does not repeat a request whose answer it had stored.

    Raises:
        RunError: the process that is to be killed ends by itself.
    """
    with served_apart(FAULTY) as root, tempfile.TemporaryDirectory() as folder:
        asking = multiprocessing.get_context("spawn").Process(
            target=ask, args=(root, folder, n, FAULTY_CONFIG), daemon=True
        )
        asking.start()
        while read_counts(root)["n_answered"] < n // 2:
            if asking.exitcode is not None:
                raise RunError(f"The process that asks ended with {asking.exitcode}; its error is above.")
            time.sleep(0.05)
        asking.kill()
        asking.join()
        with ReplyCache(Path(folder) / "answers.sqlite") as cache:
            n_stored = len(cache)
        n_on_the_wire = read_counts(root)["n_answered"] - n_stored
        replies, is_each_told_once = ask(root, folder, n, FAULTY_CONFIG)
        seen = read_counts(root)
    n_from_cache = sum(each.from_cache for each in replies)
    return {
        "requests": n,
        "stored when killed": n_stored,
        "answered on the wire when killed": n_on_the_wire,
        "from the cache in the second run": n_from_cache,
        "asked in the second run": len(replies) - n_from_cache,
        "answered twice": seen["n_answered_twice"],
        "kept": is_each_told_once
        and n - len(replies) <= MAX_FAILED_SHARE * n
        and n_from_cache == n_stored
        and seen["n_answered_twice"] <= n_on_the_wire,
    }


def main() -> None:
    """Runs the measurements and prints them; exit code 1 if a check failed."""
    parser = make_parser(__doc__)
    parser.add_argument("--n", type=int, default=2_000, help="number of requests; with faults half as many")
    options = parser.parse_args()
    n_faulty = options.n // 2
    measured = {
        "throughput": measure_throughput(options.n),
        "faults": measure_faults(n_faulty),
        "kill": measure_kill(n_faulty),
    }
    print_figures(measured, options.json)
    sys.exit(not all(figures["kept"] for figures in measured.values()))


if __name__ == "__main__":
    main()
