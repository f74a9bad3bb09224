"""Prompt tokens of our oracle requests against those of the released recipe's, on the same dialogues and server.

    python -m benchmarks.oracle_prompts DIR [--n 20]      (a dataset's folder; the embedded model is asked)

The recipe as it is known: every half second one request of its own, the level's instruction first, then the whole
conversation and the hint, none shared. Its prompts are written anew here in that order, so their length is ours, not
the release's. Each request writes one token: what is compared is reading, by the server's own usage numbers.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from backends.protocols import ChatClient
from data_schemas.config import BudgetConfig, ChatConfig, OracleConfig
from data_schemas.records import Dialogue, Turn
from pipelines.asking import OpenClient
from pipelines.oracle.plan import SPEAKER, answered_turns, plan_dialogue
from pipelines.oracle.prompts import payload_of, prompts_for
from pipelines.oracle.schedule import ticks, words_of

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
    """What one way of asking had a server read; `n_tokens_cached` of `n_tokens` came from its prefix cache."""

    n_requests: int
    n_tokens: int
    n_tokens_cached: int

    @property
    def cached_share(self) -> float:
        """Share of the tokens that the server did not compute again."""
        return self.n_tokens_cached / self.n_tokens

    @property
    def n_tokens_computed(self) -> int:
        """Tokens that the server did compute."""
        return self.n_tokens - self.n_tokens_cached


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours against the recipe's on the same dialogues."""

    n_dialogues: int
    ours: PromptTokens
    recipe: PromptTokens

    @property
    def share_of_tokens(self) -> float:
        """Our prompt tokens as a share of the recipe's: computed or cached, as a provider counts them."""
        return self.ours.n_tokens / self.recipe.n_tokens

    @property
    def share_computed(self) -> float:
        """The tokens that the server computed for us, as a share of those it computed for the recipe."""
        return self.ours.n_tokens_computed / self.recipe.n_tokens_computed


def our_payloads(dialogue: Dialogue, config: OracleConfig) -> list[Payload]:
    """The requests of a dialogue as the oracle stage asks them, of one token each."""
    prompts = prompts_for(config, ChatConfig())
    requests = plan_dialogue(dialogue.turns, config).requests
    return [payload_of(prompts, request, config, 0, 0) | {"max_tokens": 1} for request in requests]


def recipe_payloads(dialogue: Dialogue, config: OracleConfig) -> list[Payload]:
    """The requests of a dialogue as the recipe asks them: one a tick, nothing shared, of one token each."""
    return [
        payload
        for turn, answer in answered_turns(dialogue.turns, both_directions=False)
        for payload in _recipe_of_turn(dialogue, turn, answer, config)
    ]


def _recipe_of_turn(dialogue: Dialogue, turn: Turn, answer: Turn, config: OracleConfig) -> list[Payload]:
    before = [f"{SPEAKER[each.speaker]}: {each.spoken_text}" for each in dialogue.turns[: turn.turn_index]]
    words = words_of(turn)
    made = []
    for tick in ticks(words, config.interval_s, config.level_bounds, config.max_requests_per_turn):
        heard = " ".join(word.word for word in words[: tick.n_words_heard])
        conversation = "\n".join([*before, f"{SPEAKER[turn.speaker]}: {heard}"])
        parts = [f"{INSTRUCTION} {LEVELS[tick.level]}", f"Conversation so far:\n{conversation}"]
        if tick.level > 0:
            parts.append(f"Hidden hint: {answer.spoken_text}")
        content = "\n\n".join([*parts, "The assistant will say:"])
        made.append({"messages": [{"role": "user", "content": content}], "max_tokens": 1, "temperature": 0.0})
    return made


def compare(dialogues: Sequence[Dialogue], config: OracleConfig, open_client: OpenClient) -> Comparison:
    """Asks both ways, one request after another and each way on its own, and adds up what the server counted."""
    ours = [payload for dialogue in dialogues for payload in our_payloads(dialogue, config)]
    recipe = [payload for dialogue in dialogues for payload in recipe_payloads(dialogue, config)]
    return asyncio.run(_compare(len(dialogues), ours, recipe, open_client))


async def _compare(
    n_dialogues: int, ours: Sequence[Payload], recipe: Sequence[Payload], open_client: OpenClient
) -> Comparison:
    async with open_client() as client:
        return Comparison(n_dialogues, await _count(ours, client), await _count(recipe, client))


async def _count(payloads: Sequence[Payload], client: ChatClient) -> PromptTokens:
    replies = [await client.ask(payload) for payload in payloads]
    n_tokens = sum(reply.n_tokens_in for reply in replies)
    return PromptTokens(len(replies), n_tokens, sum(reply.n_tokens_cached for reply in replies))


def main() -> None:
    """Compares on a dataset's first dialogues with the embedded model, its answers cached nowhere that stays."""
    from data_schemas.arrow import from_table
    from data_schemas.manifest import DATA
    from data_schemas.reader import DatasetReader
    from pipelines.stations import chat_engine, open_client

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", help="folder of a dataset")
    parser.add_argument("--n", type=int, default=20, help="dialogues")
    options = parser.parse_args()
    reader = DatasetReader(options.folder)
    columns = list(Dialogue.__dataclass_fields__)
    rows = [
        row
        for entry in reader.manifest.of_kind(DATA)
        for row in from_table(reader.store.read_table(entry.path, columns), Dialogue)
    ]
    rows = rows[:: max(1, len(rows) // options.n)][: options.n]
    chat = ChatConfig()
    with tempfile.TemporaryDirectory() as folder, chat_engine(chat).serve() as endpoint:
        client = open_client(chat, endpoint, BudgetConfig(), f"{folder}/answers.sqlite", lambda _: None)
        found = compare(rows, OracleConfig(), client)
    shares = {
        "share_of_tokens": round(found.share_of_tokens, 3),
        "share_computed": round(found.share_computed, 3),
        "cached_share": round(found.ours.cached_share, 3),
        "recipe_cached_share": round(found.recipe.cached_share, 3),
    }
    print(json.dumps({**asdict(found), **shares}, indent=1))


if __name__ == "__main__":
    main()
