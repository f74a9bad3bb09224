"""Common to stages that call a chat model: their protocol, their prompts, and the check that answers are usable."""

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
"""If so many of the last `N_JUDGED` first answers are unusable, the run stops: further requests would be wasted."""
N_QUOTED = 80
"""Number of characters of an unusable answer that a message quotes."""


_NOT_USABLE = (
    "Use another model or prompt. Disable the thinking of a reasoning model (chat.extra: {reasoning_effort: none}, or "
    "{chat_template_kwargs: {enable_thinking: false}}), or raise oracle.max_tokens. Then run again: answers are cached."
)


class Usability:
    """Counts unusable answers of an endpoint, and raises an error if further requests would be wasted.

    Only first answers count. A request is repeated because its answer was unusable, so a few hard questions would
    otherwise count many times.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._faults: deque[str] = deque(maxlen=N_JUDGED)

    def note(self, attempt: int, fault: str = "", example: str = "") -> None:
        """Counts an answer, and raises an error if nearly all of the last `N_JUDGED` ones are unusable.

        Args:
            attempt: number of the request; only answers to attempt 0, the first one, count.
            fault: the name of the reason why it is unusable; empty if it is usable.
            example: the text that shows it.

        Raises:
            BackendError: `TOO_MANY_UNUSABLE` or more of the last `N_JUDGED` first answers are unusable.
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
    """A stage that calls a chat model."""

    async def run_with(self, batch: Sequence[Any], client: ChatClient) -> StageResult[Out]:
        """Returns the outputs and rejects of a batch; they are determined by the batch and the model's answers."""


def run_alone(stage: AskingStage[Out], batch: Sequence[Any], open_client: OpenClient) -> StageResult[Out]:
    """Runs a stage that calls a chat model on one batch, with a client that is opened and closed for it.

    Returns the outputs and rejects; it must not be called inside a running event loop.
    """

    async def ask() -> StageResult[Out]:
        async with open_client() as client:
            return await stage.run_with(batch, client)

    return asyncio.run(ask())


async def gather_all(works: Iterable[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    """Runs all coroutines concurrently and returns their results in order.

    The first error cancels the others and is raised after they have ended.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@cache
def read_prompt_texts(package: str) -> dict[str, str]:
    """Returns the contents of the `prompt.yaml` of a Python package: its `version`, and its prompt texts by name."""
    text = (files(package) / "prompt.yaml").read_text(encoding="utf-8")
    texts: dict[str, str] = yaml.safe_load(text)
    return texts
