"""Which model really answered: kept with each answer, summed by run, and told where it is another than was asked."""

import logging
from pathlib import Path
from typing import Any

import pytest

from backends.chat.budget import list_spending, set_run_id
from backends.chat.cache import ReplyCache
from backends.chat.model_names import NOT_TOLD
from data_schemas.config import ChatConfig
from tests.backends.chat.chatting import asking, batch_config, endpoint_at, numbered, use
from tests.support.chat_server import MODEL, Behaviour, served

CONFIG = ChatConfig(engine="openai")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def ask(root: str, folder: Path, n: int = 3, config: ChatConfig = CONFIG) -> list[Any]:
    replies: list[Any] = use(endpoint_at(root), folder, asking(numbered(n)), config)
    return replies


@pytest.mark.parametrize("transport", ["direct", "batch"])
def test_the_model_that_answered_is_kept_summed_and_warned_of(
    transport: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = batch_config(tmp_path).model_copy(update={"transport": transport})
    with served(Behaviour(answers_as="smaller-model")) as (root, _), set_run_id("mine"):
        fresh = ask(root, tmp_path, 3, config)
        again = ask(root, tmp_path, 4, config)
    assert {(each.answered_by, each.system_fingerprint) for each in [*fresh, *again]} == {("smaller-model", "fp_1")}
    assert [each.from_cache for each in again] == [True] * 3 + [False]
    with ReplyCache(tmp_path / "replies.sqlite") as cache:
        (model,) = list_spending(cache, "mine")
    assert (model.model, model.answered_by, model.system_fingerprints) == (MODEL, {"smaller-model": 4}, {"fp_1": 4})
    told = f"The chat endpoint 'test' was asked for model '{MODEL}', but 'smaller-model' answered."
    assert [told in each for each in warnings(caplog)] == [True, True]  # once for each client, not for each answer


@pytest.mark.parametrize("answers_as", ["", f"{MODEL}-2025-04-14", f"lab/{MODEL}"])
def test_the_model_that_was_asked_is_no_news(answers_as: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with served(Behaviour(answers_as=answers_as)) as (root, _), set_run_id("mine"):
        ask(root, tmp_path)
    with ReplyCache(tmp_path / "replies.sqlite") as cache:
        (model,) = list_spending(cache, "mine")
    assert model.answered_by == {answers_as or MODEL: 3}
    assert model.system_fingerprints == {"fp_1" if answers_as else NOT_TOLD: 3}
    assert warnings(caplog) == []


def test_a_deployment_is_named_by_its_owner(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "azure.yaml").write_text("path: /deployments/{model}\nneeds_key: false\n", encoding="utf-8")
    config = ChatConfig(engine="openai", provider=str(tmp_path / "azure.yaml"))
    behaviour = Behaviour(answers_as="gpt-4o-2024-08-06", prefix=f"/v1/deployments/{MODEL}")
    with served(behaviour) as (root, _):
        assert ask(root, tmp_path, 1, config)[0].answered_by == "gpt-4o-2024-08-06"
    assert warnings(caplog) == []
