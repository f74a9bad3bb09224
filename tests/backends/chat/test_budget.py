"""What a run spends, the budget that stops it so that it can go on, and which model really answered."""

import logging
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from backends.chat.budget import RUN_ENV, ChatUsage, ModelSpending, Spending, compute_usd, list_spending, set_run_id
from backends.chat.cache import ReplyCache, StoredReply
from backends.chat.client import OpenAIChatClient, ask_all
from backends.chat.model_names import NOT_REPORTED
from backends.chat.protocol import ChatReply
from data_schemas.config import BudgetConfig, ChatConfig, PriceConfig
from data_schemas.errors import BudgetError, ConfigError
from tests.backends.chat.chatting import asking, batch_config, endpoint_at, numbered, use
from tests.support.chat_server import MODEL, Behaviour, served

pytestmark = pytest.mark.full

PRICE = PriceConfig(in_usd_per_mtok=2, cached_usd_per_mtok=0.5, out_usd_per_mtok=8)
CONFIG = ChatConfig(engine="openai", price=PRICE, max_in_flight=4)
PAYLOADS = [{**payload, "max_tokens": 20} for payload in numbered(60)]


def spent_by(folder: Path, run_id: str) -> list[ModelSpending]:
    with ReplyCache(folder / "replies.sqlite") as cache:
        return list_spending(cache, run_id)


def test_a_price_is_of_fresh_cached_and_written_tokens() -> None:
    assert compute_usd(PRICE, 1_000_000, 400_000, 100_000) == pytest.approx(1.2 + 0.2 + 0.8)
    plain = PriceConfig(in_usd_per_mtok=2, out_usd_per_mtok=8)
    assert compute_usd(plain, 1_000_000, 400_000, 0) == pytest.approx(2.0)


def test_it_stops_below_the_budget_and_goes_on_in_the_next_run(tmp_path: Path) -> None:
    budget = BudgetConfig(tokens=500)
    outcomes: list[Any] = []
    stops: list[str] = []
    with served(Behaviour()) as (root, server):
        while not outcomes:
            with set_run_id(f"run {len(stops)}"):
                try:
                    outcomes = use(endpoint_at(root), tmp_path, asking(PAYLOADS), CONFIG, budget)
                except BudgetError as error:
                    stops.append(str(error))
            (model,) = spent_by(tmp_path, f"run {len(stops) - (not outcomes)}")
            assert 0 < model.n_tokens_in + model.n_tokens_out <= 500
        assert len(stops) >= 2
        assert all("budget of 500 tokens" in stop and "same command again" in stop for stop in stops)
        assert all(isinstance(outcome, ChatReply) for outcome in outcomes)
        assert server.counts.as_json()["n_answered"] == len(PAYLOADS)  # none was paid for twice
        assert server.counts.as_json()["n_answered_twice"] == 0


def test_dollars_are_counted_by_the_price(tmp_path: Path) -> None:
    with served(Behaviour()) as (root, _), set_run_id("mine"), pytest.raises(BudgetError, match=r"0\.002 US dollars"):
        use(endpoint_at(root), tmp_path, asking(PAYLOADS), CONFIG, BudgetConfig(usd=0.002))
    (model,) = spent_by(tmp_path, "mine")
    assert (model.endpoint, model.model) == ("test", MODEL)
    assert model.usd == pytest.approx(compute_usd(PRICE, model.n_tokens_in, 0, model.n_tokens_out))
    assert 0.001 < (model.usd or 0) <= 0.002


def test_all_clients_of_a_run_share_its_budget(tmp_path: Path) -> None:
    budget = BudgetConfig(tokens=500)
    with served(Behaviour()) as (root, _), set_run_id("shared"):
        use(endpoint_at(root), tmp_path, asking(PAYLOADS[:12]), CONFIG, budget)
        with pytest.raises(BudgetError):
            use(endpoint_at(root), tmp_path, asking(PAYLOADS[12:]), CONFIG, budget)
    (model,) = spent_by(tmp_path, "shared")
    assert model.n_tokens_in + model.n_tokens_out <= 500


def test_a_budget_in_dollars_without_a_price_is_told_up_front(tmp_path: Path) -> None:
    with served(Behaviour()) as (root, server):
        with pytest.raises(ConfigError, match=r"the price of 'test-model' .*is unknown.*chat\.price.*--budget-tokens"):
            use(endpoint_at(root), tmp_path, asking(PAYLOADS), ChatConfig(engine="openai"), BudgetConfig(usd=1))
        assert server.counts.bodies == []


def test_stored_answers_cost_nothing(tmp_path: Path) -> None:
    async def tokens(client: OpenAIChatClient) -> int:
        await ask_all(client, PAYLOADS[:5])
        return client.usage.n_tokens_out

    with served(Behaviour()) as (root, _):
        assert use(endpoint_at(root), tmp_path, tokens, CONFIG) > 0
        assert use(endpoint_at(root), tmp_path, tokens, CONFIG, BudgetConfig(tokens=1)) == 0


@pytest.mark.parametrize("behaviour", [Behaviour(tells_usage=False), Behaviour(fault_share=1.0, faults=("empty",))])
def test_what_a_server_does_not_tell_counts_by_its_estimate(behaviour: Behaviour, tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"max_attempts": 20})
    with served(behaviour) as (root, server), set_run_id("untold"):
        with pytest.raises(BudgetError, match="budget of 500 tokens"):
            use(endpoint_at(root), tmp_path, asking(PAYLOADS), config, BudgetConfig(tokens=500))
        assert len(server.counts.bodies) < 60
    (model,) = spent_by(tmp_path, "untold")
    assert model.n_estimated == len(server.counts.bodies) > 0
    assert 400 < model.n_tokens_in + model.n_tokens_out <= 500


def test_what_is_in_flight_at_the_stop_is_kept_and_counted_in_what_the_stop_tells(tmp_path: Path) -> None:
    behaviour = Behaviour(first_token_s=0.05)
    with served(behaviour) as (root, server), set_run_id("told"), pytest.raises(BudgetError) as caught:
        use(endpoint_at(root), tmp_path, asking(PAYLOADS), CONFIG, BudgetConfig(tokens=300))
    with ReplyCache(tmp_path / "replies.sqlite") as cache:
        assert len(cache) == server.counts.as_json()["n_answered"] > 0
    (model,) = spent_by(tmp_path, "told")
    used = model.n_tokens_in + model.n_tokens_out
    assert f"{used} tokens are spent, the next one may take 31 tokens." in str(caught.value)
    assert used + 31 > 300


async def test_nothing_is_reserved_when_all_requests_have_ended(tmp_path: Path) -> None:
    with ReplyCache(tmp_path / "replies.sqlite") as cache:
        spending = Spending(cache, endpoint_at(""), PRICE, BudgetConfig(usd=0.01))
        for n_in_flight in (2, 3):  # the first leave a rest below 0, the next one above it
            async with AsyncExitStack() as in_flight:
                for n in range(n_in_flight):
                    await in_flight.enter_async_context(spending.reserve_cost({"messages": [], "max_tokens": 7 + n}))
        with pytest.raises(BudgetError) as caught:
            await spending.reserve_cost({"messages": [], "max_tokens": 9_999}).__aenter__()
    assert "reserved" not in str(caught.value)


@pytest.mark.parametrize(
    ("budget", "remedy"),
    [
        (BudgetConfig(tokens=30), "Raise it to at least 31 tokens"),
        (BudgetConfig(usd=1e-4), r"Raise it to at least 0\.000182 US dollars"),
    ],
)
def test_a_budget_below_one_request_says_how_far_to_raise_it(budget: BudgetConfig, remedy: str, tmp_path: Path) -> None:
    with served(Behaviour()) as (root, server), pytest.raises(BudgetError, match=remedy):
        use(endpoint_at(root), tmp_path, asking(PAYLOADS), CONFIG, budget)
    assert server.counts.bodies == []


def test_a_run_without_a_name_is_of_its_process_and_without_a_price_costs_nobody_knows_what(
    tmp_path: Path,
) -> None:
    with served(Behaviour()) as (root, _):
        use(endpoint_at(root), tmp_path, asking(PAYLOADS[:2]), ChatConfig(engine="openai"))
    with ReplyCache(tmp_path / "replies.sqlite") as cache:
        ((run,),) = cache.run("SELECT run FROM spending")
    assert re.fullmatch(r"unnamed-[0-9a-f]{12}", run)
    (model,) = spent_by(tmp_path, run)
    assert (model.n_requests, model.usd) == (2, None)


@pytest.mark.parametrize(("tells", "n_cached"), [(True, 0), (False, None)])
def test_cached_tokens_that_nobody_told_are_unknown_in_the_counts(
    tells: bool, n_cached: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RUN_ENV, "a run")
    with served(Behaviour(tells_cached=tells)) as (root, _):
        usage = use(endpoint_at(root), tmp_path, asking_for_usage, CONFIG)
    (model,) = spent_by(tmp_path, "a run")
    assert (model.n_tokens_cached, usage.n_tokens_cached, usage.n_requests) == (n_cached, n_cached, len(PAYLOADS))
    assert ChatUsage.sum([usage, ChatUsage(), usage]).n_tokens_cached == n_cached
    assert ChatUsage.sum([usage, usage]).n_requests == 2 * len(PAYLOADS)
    assert ChatUsage.sum([]) == ChatUsage()


async def asking_for_usage(client: OpenAIChatClient) -> ChatUsage:
    await ask_all(client, PAYLOADS)
    return client.usage


def test_a_model_whose_first_answer_comes_meanwhile_is_listed_or_not(tmp_path: Path) -> None:
    class Overtaken(ReplyCache):
        """A cache in which another process counts an answer after each statement."""

        def run(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
            rows = super().run(statement, parameters)
            with ReplyCache(self.path) as other, set_run_id("mine"):
                Spending(other, endpoint_at(""), None, BudgetConfig()).add(StoredReply("yes", 1, None, 1))
            return rows

    with Overtaken(tmp_path / "replies.sqlite") as cache:
        assert all(model.model == MODEL for model in list_spending(cache, "mine"))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


@pytest.mark.parametrize("transport", ["direct", "batch"])
def test_the_model_that_answered_is_kept_summed_and_warned_of(
    transport: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = batch_config(tmp_path).model_copy(update={"transport": transport})
    with served(Behaviour(answers_as="smaller-model")) as (root, _), set_run_id("mine"):
        fresh, again = (use(endpoint_at(root), tmp_path, asking(numbered(n)), config) for n in (3, 4))
    assert {(each.answered_by, each.system_fingerprint) for each in [*fresh, *again]} == {("smaller-model", "fp_1")}
    assert [each.from_cache for each in again] == [True] * 3 + [False]
    (model,) = spent_by(tmp_path, "mine")
    assert (model.model, model.answered_by, model.system_fingerprints) == (MODEL, {"smaller-model": 4}, {"fp_1": 4})
    told = f"The chat endpoint 'test' was asked for model '{MODEL}', but 'smaller-model' answered."
    assert [told in each for each in warnings(caplog)] == [True, True]  # once for each client, not for each answer


@pytest.mark.parametrize("answers_as", ["", f"{MODEL}-2025-04-14", f"lab/{MODEL}"])
def test_the_model_that_was_asked_is_no_news(answers_as: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with served(Behaviour(answers_as=answers_as)) as (root, _), set_run_id("mine"):
        use(endpoint_at(root), tmp_path, asking(numbered(3)), CONFIG)
    (model,) = spent_by(tmp_path, "mine")
    assert model.answered_by == {answers_as or MODEL: 3}
    assert model.system_fingerprints == {"fp_1" if answers_as else NOT_REPORTED: 3}
    assert warnings(caplog) == []


def test_a_deployment_is_named_by_its_owner(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "azure.yaml").write_text("path: /deployments/{model}\nneeds_key: false\n", encoding="utf-8")
    config = ChatConfig(engine="openai", provider=str(tmp_path / "azure.yaml"))
    behaviour = Behaviour(answers_as="gpt-4o-2024-08-06", prefix=f"/v1/deployments/{MODEL}")
    with served(behaviour) as (root, _):
        (reply,) = use(endpoint_at(root), tmp_path, asking(numbered(1)), config)
    assert reply.answered_by == "gpt-4o-2024-08-06"
    assert warnings(caplog) == []
