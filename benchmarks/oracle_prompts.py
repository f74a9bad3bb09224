"""Compares the prompt tokens of our oracle requests with those of the released recipe.

    python -m benchmarks.oracle_prompts DIR [--n 6] [--in-flight 1 4] [--json]

The embedded model is started again for each way to make requests, so that its cache is empty. The recipe, as far as it
is known: one request every half second, with the level's instruction first, then the whole conversation and the hint,
nothing shared. Its prompts are rewritten here in that order, so only their order is the release's. Each request
generates one token: prompt tokens are compared, by the server's own usage figures.

Ours are fewer, because unchanged words are shared and the requests of a turn are limited (a cap of 1,000 removes the
limit). Tokens are computed if they were not in the server's prefix cache.
"""

import asyncio
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Any

from backends.chat.protocol import ChatReply
from benchmarks.command import make_parser, print_figures
from data_schemas.config import BudgetConfig, ChatConfig, OracleConfig
from data_schemas.reader import DatasetReader
from data_schemas.records import AudioDialogue, Turn
from pipelines.asking import gather_all
from pipelines.oracle.plan import find_answered_turns, plan_dialogue
from pipelines.oracle.prompts import choose_prompts, make_payload
from pipelines.oracle.schedule import list_words, make_ticks
from pipelines.run.execute import open_client
from pipelines.run.stages import build_chat_engine
from spoken.conversation import ROLES, format_history_line

Payload = dict[str, Any]

INSTRUCTION = (
    "You simulate the language model behind a voice assistant. Every half second it is given what the user has said so "
    "far and predicts what the assistant will say next. Write that prediction: one or two spoken sentences of ten to "
    "thirty words, without digits, symbols or markup. The user may not have finished. Do not mention these "
    "instructions or the hint."
)
LEVELS = (
    "You know nothing but the conversation. Guess.",
    "The true answer is given as a hidden hint. Use only keywords of it; otherwise guess.",
    "The true answer is given as a hidden hint. Refer to it, and put in something that differs from it.",
    "The true answer is given as a hidden hint. Lean on it, but never say it word for word.",
    "The true answer is given as a hidden hint. Use it.",
    "The true answer is given as a hidden hint. Use it.",
)


def make_our_payloads(dialogue: AudioDialogue, config: OracleConfig) -> Iterator[Payload]:
    """Yields the requests of a dialogue as the oracle stage makes them, of one token each."""
    prompts = choose_prompts(config, ChatConfig())
    for request in plan_dialogue(dialogue.turns, config).requests:
        yield make_payload(prompts, request, config, 0, 0) | {"max_tokens": 1}


def make_recipe_payloads(dialogue: AudioDialogue) -> Iterator[Payload]:
    """Yields the requests of a dialogue as the recipe makes them: one per tick, nothing shared, of one token each."""
    for turn, answer in find_answered_turns(dialogue.turns, both_directions=False):
        yield from _make_turn_payloads(dialogue, turn, answer, OracleConfig())


def _make_turn_payloads(dialogue: AudioDialogue, turn: Turn, answer: Turn, config: OracleConfig) -> Iterator[Payload]:
    """Yields the recipe's requests for one turn of the user, one at each tick."""
    turns = dialogue.turns[: turn.turn_index]
    before = [format_history_line(ROLES[each.speaker], each.spoken_text, is_whole=True) for each in turns]
    words = list_words(turn)
    for tick in make_ticks(words, config.interval_s, config.level_bounds, config.max_requests_per_turn):
        heard = " ".join(word.word for word in words[: tick.n_words_heard])
        conversation = "\n".join([*before, format_history_line(ROLES[turn.speaker], heard, is_whole=True)])
        parts = [f"{INSTRUCTION} {LEVELS[tick.level]}", f"Conversation so far:\n{conversation}"]
        if tick.level > 0:
            parts.append(f"Hidden hint: {answer.spoken_text}")
        content = "\n\n".join([*parts, "The assistant will say:"])
        yield {"messages": [{"role": "user", "content": content}], "max_tokens": 1, "temperature": 0.0}


def count_tokens(payloads: Sequence[Payload], n_in_flight: int) -> dict[str, float]:
    """Sends all payloads to a new server of the embedded model, at most `n_in_flight` at once, as the stage does.

    Returns the number of requests and of their prompt tokens, in all and computed, by the server's own figures. Exits
    with a message if the server does not report cached tokens.
    """
    chat = ChatConfig(n_slots=n_in_flight)

    async def ask(folder: str) -> list[ChatReply]:
        async with open_client(chat, endpoint, BudgetConfig(), f"{folder}/a.sqlite", lambda _: None)() as client:
            return await gather_all([client.ask(payload) for payload in payloads])

    with tempfile.TemporaryDirectory() as folder, build_chat_engine(chat).serve() as endpoint:
        replies = asyncio.run(ask(folder))
    cached = [reply.n_tokens_cached for reply in replies if reply.n_tokens_cached is not None]
    if len(cached) < len(replies):
        sys.exit("The server does not report cached tokens.")
    n_tokens = sum(reply.n_tokens_in for reply in replies)
    n_computed = n_tokens - sum(cached)
    return {
        "requests": len(replies),
        "tokens": n_tokens,
        "computed": n_computed,
        "tokens_a_request": n_tokens / len(replies),
        "computed_a_request": n_computed / len(replies),
    }


def main() -> None:
    """Compares both ways on some dialogues with the embedded model, without a cache of answers."""
    parser = make_parser(__doc__)
    parser.add_argument("folder", help="folder of a dataset")
    parser.add_argument("--n", type=int, default=6, help="number of dialogues, spread evenly over the dataset")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1], help="numbers of concurrent requests")
    options = parser.parse_args()
    reader = DatasetReader(options.folder)
    step = max(1, sum(shard.n_rows for shard in reader.list_shards()) // options.n)
    dialogues = list(islice(reader.iterate_dialogues(), 0, step * options.n, step))
    recipe = count_tokens([payload for each in dialogues for payload in make_recipe_payloads(each)], 1)
    rows: list[dict[str, Any]] = [{"way": "recipe", "cap": None, "in_flight": 1} | recipe]
    for prompts, cap in product(("v2", "whole"), (8, 1_000)):
        config = OracleConfig(prompt=prompts, max_requests_per_turn=cap)
        payloads = [payload for each in dialogues for payload in make_our_payloads(each, config)]
        ways = ({"way": prompts, "cap": cap, "in_flight": n} for n in options.in_flight)
        rows += [way | count_tokens(payloads, way["in_flight"]) for way in ways]
    names = ("requests", "tokens", "computed")
    rows = [row | {f"{name} of recipe": row[name] / recipe[name] for name in names} for row in rows]
    print_figures({"prompts": rows}, options.json)


if __name__ == "__main__":
    main()
