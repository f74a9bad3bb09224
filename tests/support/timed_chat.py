"""A back-end cycle on a clock that jumps, with chat models that answer when they are told to."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from data_schemas.config.serving import CycleConfig
from kame_model.frames.ids import PADDING_ID
from kame_model.frames.oracle_stream import OracleQueue
from kame_model.serve.oracle.cycle import BackEndCycle
from kame_model.serve.oracle.prompts import load_prompt
from kame_model.serve.oracle.requests import RequestCounts, Requests
from kame_model.serve.oracle.routing import BackEnd, Choice, Router
from kame_model.serve.oracle.writer import OracleWriter
from kame_model.serve.session.conversation import Conversation
from kame_model.text.tokenizer import Tokenizer
from tests.support.jumping_clock import beside

Step = tuple[float, str | Exception]
"""What is waited for, seconds, and the piece that comes then, or the fault."""

QUICK: list[Step] = [(0.1, "It is "), (0.05, "sixty "), (0.05, "litres.")]
SIXTY = "it is sixty litres"
"""The same as the small vocabulary writes it."""

SLOW: list[Step] = [(0.2, "she earned "), *[(0.2, "it all ")] * 20]


class TimedChat:
    """Answers each request with its own steps, the last ones for all later requests.

    Attributes:
        asked_s: when each request came.
        heard: the last message of each.
        ended_s: when each was over, by its number.
        given_up: numbers of those that were closed before their end.
        most_open: requests under way at once, at most.
    """

    def __init__(self, *answers: Sequence[Step]) -> None:
        self._answers = answers
        self.asked_s: list[float] = []
        self.heard: list[str] = []
        self.payloads: list[dict[str, Any]] = []
        self.ended_s: dict[int, float] = {}
        self.given_up: list[int] = []
        self._n_open = self.most_open = 0

    async def stream(self, payload: dict[str, Any]) -> AsyncGenerator[str, None]:
        """Yields the pieces of the answer to a request, each after its wait; raises those that are exceptions."""
        now_s = asyncio.get_running_loop().time
        number = len(self.asked_s)
        self.asked_s.append(round(now_s(), 3))
        self.payloads.append(payload)
        self.heard.append(payload["messages"][-1]["content"])
        self._n_open += 1
        self.most_open = max(self.most_open, self._n_open)
        try:
            for wait_s, piece in self._answers[min(number, len(self._answers) - 1)]:
                await asyncio.sleep(wait_s)
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        except (asyncio.CancelledError, GeneratorExit):
            self.given_up.append(number)
            raise
        finally:
            self._n_open -= 1
            self.ended_s[number] = round(now_s(), 3)

    async def aclose(self) -> None:
        """Holds nothing."""


class CycleTalk:
    """One session's cycle, with what it told and what came into its queue."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        chats: Mapping[str, TimedChat | BackEnd],
        router: Router | None = None,
        **config: Any,
    ) -> None:
        self.tokenizer = tokenizer
        self.events: list[tuple[float, str, dict[str, Any]]] = []
        self.taken: list[str] = []
        self.queue = OracleQueue(tokenizer.text_card)
        self.conversation = Conversation(12, lambda: asyncio.get_running_loop().time())
        prompt = load_prompt("tandem")
        back_ends = {
            name: chat if isinstance(chat, BackEnd) else BackEnd(name, chat, prompt) for name, chat in chats.items()
        }
        self.choice = Choice(back_ends, router or Router(list(chats)))
        self.counts = RequestCounts()
        settings = CycleConfig(**config)
        requests = Requests(
            self.choice,
            self.conversation,
            lambda kind, data: self.events.append((round(asyncio.get_running_loop().time(), 3), kind, data)),
            self.counts,
            settings.first_token_timeout_s,
        )
        self.cycle = BackEndCycle(
            requests,
            self.conversation,
            lambda is_held: OracleWriter(self.queue, tokenizer, 30, is_held=is_held),
            settings,
        )

    def use(self, back_end: str | None = None, prompt: str | None = None) -> None:
        """Chooses another back-end or prompt, and restarts the request if that is a change."""
        if self.choice.use(back_end, prompt):
            self.cycle.restart_request()

    def user(self, text: str, *, is_final: bool = False) -> None:
        """Passes what the user has said so far in this turn to the conversation and to the cycle."""
        self.conversation.add_user_text(text, is_final)
        self.cycle.on_heard(text, is_final)

    async def speaks(self, text: str, word_s: float = 0.1, *, is_final: bool = True) -> None:
        """Says the user's turn, a word more every `word_s` seconds, and if `is_final` ends the turn."""
        words = text.split()
        for n_words in range(1, len(words) + 1):
            self.user(" ".join(words[:n_words]))
            await asyncio.sleep(word_s)
        if is_final:
            self.user(text, is_final=True)

    def told(self, kind: str) -> list[dict[str, Any]]:
        """Returns the data of all events of a kind, in order."""
        return [data for _, each, data in self.events if each == kind]

    def queued(self) -> str:
        """Takes all tokens from the queue, and returns their words."""
        tokens = []
        while (token := self.queue.pop()) != PADDING_ID:
            tokens.append(token)
        return self.tokenizer.decode([token for token in tokens if token != self.tokenizer.text_card])

    def take(self) -> None:
        """Keeps in `taken` what `queued` returns now."""
        self.taken.append(self.queued())

    def plays(self, *steps: str | float | Callable[[], object]) -> None:
        """Runs a course: words of the user (a "." ends the turn), seconds to wait, and what is done then."""

        async def course() -> None:
            for step in steps:
                if isinstance(step, str):
                    self.user(step.removesuffix("."), is_final=step.endswith("."))
                elif callable(step):
                    step()
                else:
                    await asyncio.sleep(step)

        self.runs(course)

    def runs(self, course: Callable[[], Awaitable[None]]) -> None:
        """Runs a course of the talk while the cycle runs, on a clock that jumps."""
        beside(self.cycle.run(), course, self.cycle.aclose)
