"""What stages that ask a chat model have in common: how they are run, their prompts, and when to ask no more."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache
from importlib.resources import files
from typing import Any, Protocol, TypeVar

import yaml

from backends.chat.protocol import ChatClient, Endpoint
from data_schemas.errors import BackendError
from pipelines.stage import Out, StageDescription, StageResult

Answer = TypeVar("Answer")
OpenClient = Callable[[], AbstractAsyncContextManager[ChatClient]]

N_JUDGED = 40
TOO_MANY_UNUSABLE = 38
"""When so many of the last `N_JUDGED` first answers cannot be used, no answer to come is worth its price."""
N_QUOTED = 80
"""Characters of an unusable answer that a message quotes."""


_NOT_USABLE = (
    "Take another model or prompt. One that thinks must be told not to (chat.extra: {reasoning_effort: none}, or "
    "{chat_template_kwargs: {enable_thinking: false}}), or given more oracle.max_tokens. Then run again: answers are "
    "kept."
)


class Usability:
    """Whether an endpoint's answers are of any use: stops a run that would pay for nothing to its end.

    First answers alone are judged. What is asked again was unusable before, so a few hard questions would make many.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._faults: deque[str] = deque(maxlen=N_JUDGED)

    def note(self, attempt: int, fault: str = "", example: str = "") -> None:
        """Notes an answer.

        Args:
            attempt: only those of attempt 0 count.
            fault: why it cannot be used, as a name; empty: it can.
            example: what shows that.

        Raises:
            BackendError: too few of the last ones could be used.
        """
        if attempt:
            return
        self._faults.append(fault)
        n_unusable = sum(map(bool, self._faults))
        if n_unusable >= TOO_MANY_UNUSABLE:
            ((commonest, n),) = Counter(filter(None, self._faults)).most_common(1)
            whose = f"{self._endpoint.model!r} at {self._endpoint.name!r}"
            raise BackendError(
                f"{n_unusable} of the last {len(self._faults)} answers of {whose} cannot be used: {n} are {commonest}. "
                f"The last one is {example[:N_QUOTED]!r}.",
                _NOT_USABLE,
            )


class AskingStage(StageDescription, Protocol[Out]):
    """A step from records to records that asks a chat model."""

    async def run_with(self, batch: Sequence[Any], client: ChatClient) -> StageResult[Out]:
        """The batch's outputs and rejects; the same batch and the same answers give the same result."""


def run_alone(stage: AskingStage[Out], batch: Sequence[Any], open_client: OpenClient) -> StageResult[Out]:
    """What an asking stage makes of one batch, with a client of its own."""

    async def ask() -> StageResult[Out]:
        async with open_client() as client:
            return await stage.run_with(batch, client)

    return asyncio.run(ask())


async def gather_all(works: Iterable[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    """What all of them return, in their order; the first error ends the others and is raised as it is."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@cache
def read_texts(package: str) -> dict[str, str]:
    """The texts of a package's `prompt.yaml`: its version, and what a chat model is told, by name."""
    text = (files(package) / "prompt.yaml").read_text(encoding="utf-8")
    texts: dict[str, str] = yaml.safe_load(text)
    return texts
