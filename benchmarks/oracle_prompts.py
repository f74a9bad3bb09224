"""Compares the prompt tokens of our oracle requests with those of the released recipe.

    python -m benchmarks.oracle_prompts DIR [--n 6] [--in-flight 1 4] [--prompts v2 whole] [--cap 8 1000]

The embedded model is started again for each way to make requests, so that its cache is empty. The recipe, as far as it
is known: one request every half second, with the level's instruction first, then the whole conversation and the hint,
nothing shared. Its prompts are rewritten here in that order, so their length is ours, not the release's. Each request
generates one token: prompt tokens are compared, by the server's own usage figures.

What saves tokens: `requests` shows how many fewer requests are made (unchanged words are shared, and the requests of a
turn are limited; `--cap 1000` removes the limit), `tokens_a_request` the length of a prompt, `computed_a_request` how
much of it was not in the server's prefix cache.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from backends.chat.protocol import ChatReply
from data_schemas.config import BudgetConfig, ChatConfig, OracleConfig
from data_schemas.records import Dialogue, Turn
from pipelines.asking import OpenClient, gather_all
from pipelines.oracle.plan import find_answered_turns, plan_dialogue
from pipelines.oracle.prompts import choose_prompts, list_prompt_sets, make_payload
from pipelines.oracle.schedule import list_words, make_ticks
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


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """Prompt tokens of one way to make requests; `n_tokens_cached` of `n_tokens` came from the prefix cache."""

    n_requests: int
    n_tokens: int
    n_tokens_cached: int

    @property
    def cached_share(self) -> float:
        """Share of the tokens that the server did not compute again."""
        return self.n_tokens_cached / self.n_tokens

    @property
    def n_tokens_computed(self) -> int:
        """Number of tokens that the server computed."""
        return self.n_tokens - self.n_tokens_cached

    def compare_with(self, recipe: "PromptTokens") -> dict[str, int | float]:
        """Returns the figures in total and per request, and as ratios to those of the recipe (this / recipe)."""
        return {
            "requests": self.n_requests,
            "tokens": self.n_tokens,
            "computed": self.n_tokens_computed,
            "tokens_a_request": round(self.n_tokens / self.n_requests, 1),
            "computed_a_request": round(self.n_tokens_computed / self.n_requests, 1),
            "cached_share": round(self.cached_share, 3),
            "requests_of_recipe": round(self.n_requests / recipe.n_requests, 3),
            "tokens_of_recipe": round(self.n_tokens / recipe.n_tokens, 3),
            "computed_of_recipe": round(self.n_tokens_computed / recipe.n_tokens_computed, 3),
        }


def make_our_payloads(dialogue: Dialogue, config: OracleConfig) -> list[Payload]:
    """Returns the requests of a dialogue as the oracle stage makes them, of one token each."""
    prompts = choose_prompts(config, ChatConfig())
    requests = plan_dialogue(dialogue.turns, config).requests
    return [make_payload(prompts, request, config, 0, 0) | {"max_tokens": 1} for request in requests]


def make_recipe_payloads(dialogue: Dialogue, config: OracleConfig) -> list[Payload]:
    """Returns the requests of a dialogue as the recipe makes them: one per tick, nothing shared, of one token each."""
    return [
        payload
        for turn, answer in find_answered_turns(dialogue.turns, both_directions=False)
        for payload in _make_turn_payloads(dialogue, turn, answer, config)
    ]


def _make_turn_payloads(dialogue: Dialogue, turn: Turn, answer: Turn, config: OracleConfig) -> list[Payload]:
    """Returns the recipe's requests for one turn of the user, one at each tick."""
    turns = dialogue.turns[: turn.turn_index]
    before = [format_history_line(ROLES[each.speaker], each.spoken_text, is_whole=True) for each in turns]
    words = list_words(turn)
    made = []
    for tick in make_ticks(words, config.interval_s, config.level_bounds, config.max_requests_per_turn):
        heard = " ".join(word.word for word in words[: tick.n_words_heard])
        conversation = "\n".join([*before, format_history_line(ROLES[turn.speaker], heard, is_whole=True)])
        parts = [f"{INSTRUCTION} {LEVELS[tick.level]}", f"Conversation so far:\n{conversation}"]
        if tick.level > 0:
            parts.append(f"Hidden hint: {answer.spoken_text}")
        content = "\n\n".join([*parts, "The assistant will say:"])
        made.append({"messages": [{"role": "user", "content": content}], "max_tokens": 1, "temperature": 0.0})
    return made


def count_tokens(payloads: Sequence[Payload], open_client: OpenClient) -> PromptTokens:
    """Sends all payloads concurrently, as the oracle stage does, and returns the prompt tokens that the server reports.

    Raises:
        ValueError: the server did not report cached tokens.
    """

    async def ask() -> list[ChatReply]:
        async with open_client() as client:
            return await gather_all([client.ask(payload) for payload in payloads])

    replies = asyncio.run(ask())
    cached = [reply.n_tokens_cached for reply in replies if reply.n_tokens_cached is not None]
    if len(cached) < len(replies):
        raise ValueError("The server does not report cached tokens.")
    return PromptTokens(len(replies), sum(reply.n_tokens_in for reply in replies), sum(cached))


def measure_prompts(payloads: Sequence[Payload], n_in_flight: int) -> PromptTokens:
    """Sends all payloads to a new server of the embedded model, at most `n_in_flight` at once; see `count_tokens`."""
    from pipelines.run.execute import open_client
    from pipelines.run.stages import build_chat_engine

    chat = ChatConfig(n_slots=n_in_flight)
    with tempfile.TemporaryDirectory() as folder, build_chat_engine(chat).serve() as endpoint:
        return count_tokens(payloads, open_client(chat, endpoint, BudgetConfig(), f"{folder}/a.sqlite", lambda _: None))


def read_dialogues(folder: str, n: int) -> list[Dialogue]:
    """Reads at most `n` dialogues, spread evenly over a dataset."""
    from data_schemas.reader import DatasetReader

    reader = DatasetReader(folder)
    step = max(1, sum(shard.n_rows for shard in reader.shards()) // n)
    return list(islice(reader.dialogues(), 0, step * n, step))


def main() -> None:
    """Compares both ways on some dialogues with the embedded model, without a cache of answers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", help="folder of a dataset")
    parser.add_argument("--n", type=int, default=6, help="number of dialogues")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1], help="numbers of concurrent requests")
    parser.add_argument("--prompts", nargs="+", choices=list_prompt_sets(), default=["v2", "whole"], help="prompt sets")
    parser.add_argument(
        "--cap", type=int, nargs="+", default=[8, 1000], help="maximum numbers of requests for one turn"
    )
    options = parser.parse_args()
    dialogues = read_dialogues(options.folder, options.n)
    asked = [payload for dialogue in dialogues for payload in make_recipe_payloads(dialogue, OracleConfig())]
    recipe = measure_prompts(asked, n_in_flight=1)
    print(json.dumps({"way": "recipe", "in_flight": 1} | recipe.compare_with(recipe)), flush=True)
    for prompts in options.prompts:
        for cap in options.cap:
            config = OracleConfig(prompt=prompts, max_requests_per_turn=cap)
            asked = [payload for dialogue in dialogues for payload in make_our_payloads(dialogue, config)]
            for n in options.in_flight:
                way = {"way": prompts, "cap": cap, "in_flight": n}
                print(json.dumps(way | measure_prompts(asked, n).compare_with(recipe)), flush=True)


if __name__ == "__main__":
    main()
