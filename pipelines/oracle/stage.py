"""Word times to oracle events: what a chat model would have answered at each tick of the user's turn."""

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

from backends.chat.client import ask_all
from backends.protocols import ChatClient, ChatReply, Endpoint
from data_schemas import ids
from data_schemas.config import OracleConfig
from data_schemas.errors import RequestError
from data_schemas.fingerprint import what_matters
from data_schemas.records import Dialogue, OracleEvent, OracleRow, Turn
from pipelines.oracle.prompts import load_prompts
from pipelines.oracle.schedule import Tick, ticks, words_of
from pipelines.script.speakable import Unspeakable, speak, spoken_words
from pipelines.stage import StageResult

Payload = dict[str, Any]
Answer = ChatReply | RequestError
OpenClient = Callable[[], AbstractAsyncContextManager[ChatClient]]

_SPEAKER = {"A": "Assistant", "B": "User"}


@dataclass(frozen=True, slots=True)
class _Asked:
    """A tick with the index of its request among the batch's payloads; None at level 5."""

    turn: Turn
    tick: Tick
    request: int | None
    truth: str


@dataclass(frozen=True, slots=True)
class _Said:
    """What a request left in an event: the fields of `OracleEvent` of the same names."""

    status: str
    text: str | None = None
    raw_text: str | None = None
    request_id: str | None = None
    error: str | None = None


class OracleStage:
    """Asks one endpoint for all events of a batch at once; the client bounds what is in flight and caches answers.

    A request that fails leaves failed events, without text and with its error; a later run asks for it again. A
    back-end that is gone stops the run.
    """

    name: ClassVar[str] = "oracle"
    version: ClassVar[int] = 2
    inputs: ClassVar[tuple[str, ...]] = ("mixing",)
    input_types: ClassVar[tuple[type, ...]] = (Dialogue,)
    output_type: ClassVar[type] = OracleRow

    def __init__(self, config: OracleConfig, seed: int, endpoint: Endpoint, open_client: OpenClient) -> None:
        self.config = config
        self.seed = seed
        self.endpoint = endpoint
        self.open_client = open_client
        self.prompts = load_prompts(config.prompt)

    def matters(self) -> dict[str, Any]:
        """Configuration, seed, the prompts' text and what stands for the model."""
        return {
            "config": what_matters(self.config),
            "seed": self.seed,
            "prompts": self.prompts.digest,
            "endpoint": [self.endpoint.name, self.endpoint.model, self.endpoint.model_digest],
        }

    def run(self, batch: Sequence[tuple[Dialogue]]) -> StageResult[OracleRow]:
        """One row a dialogue; this stage refuses nothing, it marks events as failed."""
        payloads: list[Payload] = []
        asked = [self._plan(dialogue, payloads) for (dialogue,) in batch]
        answers = asyncio.run(self._ask(payloads))
        rows = [self._row(dialogue, events, answers) for (dialogue,), events in zip(batch, asked, strict=True)]
        return StageResult(rows, [], n_to_retry=sum(isinstance(answer, RequestError) for answer in answers))

    async def _ask(self, payloads: list[Payload]) -> list[Answer]:
        async with self.open_client() as client:
            return await ask_all(client, payloads)

    def _plan(self, dialogue: Dialogue, payloads: list[Payload]) -> list[_Asked]:
        """The dialogue's events; appends what must be asked to `payloads`."""
        planned: list[_Asked] = []
        for turn, answer in pairwise(dialogue.turns):
            if turn.speaker != "B" or answer.speaker != "A":
                continue
            words = words_of(turn)
            schedule = ticks(words, self.config.interval_s, self.config.level_bounds, self.config.max_requests_per_turn)
            history = [f"{_SPEAKER[each.speaker]}: {each.spoken_text}" for each in dialogue.turns[: turn.turn_index]]
            requests: dict[int, int] = {}
            for index, tick in enumerate(schedule):
                if tick.asks == index:
                    requests[index] = len(payloads)
                    heard = " ".join(word.word for word in words[: tick.n_words_heard])
                    payloads.append(self._payload(history, heard, tick.level, answer.body))
                request = None if tick.asks is None else requests[tick.asks]
                planned.append(_Asked(turn, tick, request, answer.body))
        return planned

    def _payload(self, history: Sequence[str], heard: str, level: int, hint: str) -> Payload:
        payload: Payload = {
            "messages": self.prompts.messages(history, heard, level, hint),
            "max_tokens": self.config.max_tokens,
            "temperature": self.config.temperature,
            "seed": ids.seed_for(self.seed) % 2**31,
        }
        return payload | ({"stop": self.prompts.stop} if self.prompts.stop else {})

    def _row(self, dialogue: Dialogue, planned: Sequence[_Asked], answers: Sequence[Answer]) -> OracleRow:
        events: list[OracleEvent] = []
        first_of: set[int] = set()
        for number, each in enumerate(planned):
            events.append(self._event(f"{dialogue.dialogue_id}-e{number}", each, answers, first_of))
        return OracleRow(
            dialogue_id=dialogue.dialogue_id,
            split=dialogue.split,
            source=dialogue.source,
            oracle_version=self.config.version,
            endpoint=self.endpoint.name,
            model=self.endpoint.model,
            model_digest=self.endpoint.model_digest,
            prompt_version=self.prompts.version,
            prompt_digest=self.prompts.digest,
            interval_s=self.config.interval_s,
            level_bounds=tuple(self.config.level_bounds),
            max_requests_per_turn=self.config.max_requests_per_turn,
            seed=self.seed,
            events=tuple(events),
        )

    def _event(self, event_id: str, asked: _Asked, answers: Sequence[Answer], first_of: set[int]) -> OracleEvent:
        tick = asked.tick
        said = _Said("truth", text=asked.truth)
        if asked.request is not None:
            said = self._said(answers[asked.request])
            if said.status == "answered" and asked.request in first_of:
                said = replace(said, status="shared")
            first_of.add(asked.request)
        return OracleEvent(
            event_id=event_id,
            t_s=tick.t_s,
            turn_index=asked.turn.turn_index,
            n_words_heard=tick.n_words_heard,
            n_words=tick.n_words,
            r=tick.r,
            level=tick.level,
            **asdict(said),
        )

    def _said(self, answer: Answer) -> _Said:
        if isinstance(answer, RequestError):
            return _Said("failed", error=f"request: {answer.what}")
        try:
            text = spoken_answer(answer.text, self.config.max_words)
        except Unspeakable as refusal:
            return _Said("failed", None, answer.text, answer.request_id, f"{refusal.reason}: {refusal.detail}"[:200])
        return _Said("answered", text, answer.text, answer.request_id)


def spoken_answer(raw_text: str, max_words: int) -> str:
    """A model's answer as it would be said: its first paragraph, whole sentences as far as they fit `max_words`.

    A first sentence that is longer is cut at the bound, as a voice that is interrupted would be.

    Raises:
        Unspeakable: nothing can be said, or not surely.
    """
    said = speak(raw_text.strip().strip('"').split("\n", 1)[0])
    kept: list[str] = []
    for sentence in re.findall(r"[^.?!]+[.?!]*", said):
        if kept and len(spoken_words(" ".join([*kept, sentence]))) > max_words:
            break
        kept.append(sentence.strip())
    words = " ".join(kept).split()[:max_words]
    return " ".join(words).rstrip(",;:")
