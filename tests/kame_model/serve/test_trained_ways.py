"""What a checkpoint knows of itself, and the server takes from it: how to sample, and how late oracles may be."""

import logging
from typing import Any

import numpy as np
import pytest
import torch

from data_schemas.config.model import SamplingConfig
from data_schemas.config.serving import Mode, ServeConfig
from data_schemas.guesses import Guesses
from kame_model.checkpoint.kame_json import TrainedDelays
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.server import KameServer
from tests.support.serving import Client, RepeatingChat, doubles, inline

pytestmark = [pytest.mark.looptime, pytest.mark.full]

LIKELIEST = SamplingConfig(use_sampling=False)


def knowing(checkpoint: Checkpoint, **facts: Any) -> Checkpoint:
    assert checkpoint.facts is not None
    return checkpoint._replace(facts=checkpoint.facts.model_copy(update=facts))


async def talk(
    checkpoint: Checkpoint, words: list[str | None], chat: RepeatingChat, mode: Mode, **settings: Any
) -> Any:
    """What is said in one call."""
    config = ServeConfig(checkpoint="tiny", limits={"max_sessions": 1}, **settings)  # type: ignore[arg-type]
    async with KameServer(checkpoint, config, doubles(chat), run=inline) as server:
        client = Client(await server.open_session("here", mode=mode))
        await client.talk(words)
        await client.session.close("bye")
        await client.over()
        return np.concatenate(client.frames)


async def test_the_server_samples_as_the_checkpoint_says_unless_it_is_told_otherwise(checkpoint: Checkpoint) -> None:
    words: list[str | None] = [*["alpha"] * 12, *[None] * 30]

    async def said(checkpoint: Checkpoint, seed: int, **settings: Any) -> Any:
        torch.manual_seed(seed)
        return await talk(checkpoint, words, RepeatingChat(), "direct", **settings)

    sure = knowing(checkpoint, sampling=LIKELIEST)
    first = await said(sure, 0)
    np.testing.assert_array_equal(first, await said(sure, 1))
    np.testing.assert_array_equal(first, await said(checkpoint, 2, sampling={"use_sampling": False}))
    assert not np.array_equal(first, await said(sure, 1, sampling={"use_sampling": True})), "told otherwise"
    assert not np.array_equal(first, await said(checkpoint, 1)), "older folders have moshi's way"


@pytest.mark.parametrize(
    ("mode", "gap_s", "n_warnings"), [("tandem", 1.0, 1), ("tandem", 0.05, 0), ("cascade", 1.0, 0)]
)
async def test_a_back_end_slower_than_in_training_is_told_of_once(
    checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture, mode: Mode, gap_s: float, n_warnings: int
) -> None:
    hurried = knowing(checkpoint, trained_delays=TrainedDelays(min_s=0.0, max_s=0.5))
    turn: list[str | None] = [*["alpha"] * 8, *[None] * 60]
    with caplog.at_level(logging.WARNING, "kame_model.serve.oracle.ages"):
        await talk(hurried, turn * 24, RepeatingChat(gap_s), mode)
    told = [each.getMessage() for each in caplog.records if each.name == "kame_model.serve.oracle.ages"]
    assert len(told) == n_warnings
    assert all("trained with 0.5 s at most" in each for each in told)


@pytest.mark.parametrize(
    ("trained", "told", "is_fed"), [("hold", None, False), ("feed", None, True), ("hold", "feed", True)]
)
async def test_guesses_are_treated_as_the_checkpoint_was_trained_unless_the_server_is_told_otherwise(
    checkpoint: Checkpoint, trained: Guesses, told: Guesses | None, is_fed: bool
) -> None:
    config = ServeConfig(checkpoint="tiny", cycle={"guesses": told})  # type: ignore[arg-type]
    chat, learnt = RepeatingChat(), knowing(checkpoint, guesses=trained)
    async with KameServer(learnt, config, doubles(chat), run=inline) as server:
        client = Client(await server.open_session("here", mode="tandem"))
        await client.talk([*["alpha"] * 8, *["bravo"] * 8])
        assert bool(client.told("oracle")) is is_fed, "while the user speaks"
        await client.talk([None] * 30)
        assert client.told("oracle"), "when the turn has ended"
        await client.session.close("bye")
        await client.over()
