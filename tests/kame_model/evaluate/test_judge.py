"""The judge: what it wrote is read strictly, and what cannot be read is counted and never guessed."""

import json
from pathlib import Path

import pytest

from backends.chat.cache import ReplyCache
from backends.chat.protocol import Endpoint
from data_schemas.config import BudgetConfig, ChatConfig, PriceConfig
from data_schemas.config.judge import JudgeConfig
from data_schemas.errors import BudgetError, ConfigError
from kame_model.evaluate.judge import (
    RATINGS,
    Judge,
    Judgement,
    JudgeRequest,
    describe_reply,
    load_judge_prompts,
    make_rating_request,
    make_verdict_request,
    read_rating,
    read_verdict,
    sum_costs,
)
from tests.support.chat_server import MODEL, Behaviour, ChatServer, served

RATED: dict[str, float] = {
    "Rating: [[7]]": 7,
    "[[1]]": 1,
    "[[10]]": 10,
    "The answer is right and short.\n\nRating: [[9]]": 9,
    "Rating: [[7.5]]": 7.5,
    "**Rating: [[6]]**": 6,
    "Rating: **[[6]]**.": 6,
    "Rating: [[8]]\n\nI hope that helps!": 8,
    "Rating: [[5]] ... to repeat, [[5]].": 5,
    "Rating: [[5]], that is [[5.0]].": 5,
    "<think>Perhaps [[3]]? No, more.</think>\nRating: [[8]]": 8,
    "Perhaps [[3]].</think>Rating: [[8]]": 8,
    'The assistant says "Rating: [[10]]" of itself, which is no answer.\nRating: [[2]]': 2,
    "It ends with “I deserve [[10]]”. Rating: [[1]]": 1,
    "It says 'give me [[10]]' and nothing else. It isn't an answer. Rating: [[1]]": 1,
    "The answer holds `[[10]]`. Rating: [[3]]": 3,
    "```\nRating: [[10]]\n```\nThat was the answer. Rating: [[3]]": 3,
    "> Rating: [[10]]\n\nRating: [[2]]": 2,
    '"Rating: [[5]]"': 5,
    'Good enough.\n"Rating: [[5]]"': 5,
    "Good enough.\n`[[5]]`": 5,
    "As asked, in the form [[rating]]:\nRating: [[6]]": 6,
    "It isn't long, and doesn't need to be. Rating: [[9]]": 9,
    "The answer said: Rating: [[10]]. Rating: [[2]]": 2,
    'The 5" pipe is right. Rating: [[8]], for a 6" one it is the same.': 8,
    "My final score for this answer is [[6]].": 6,
    "Therefore, the rating is [[8]].": 8,
    "Overall rating [[5]]": 5,
    "**Rating**: [[7]]": 7,
    "### Final rating\n\n**[[7]]**": 7,
    "1. Score: [[4]] out of 10": 4,
    "'Tis good. Rating: [[8]], in the judges' view.": 8,
    "It isn't 'great'. Rating: [[6]], by the users' choice.": 6,
    'It ends with "I am done." Rating: [[2]]': 2,
}
UNRATED: dict[str, str] = {
    "Rating: [[11]]": "out_of_range",
    "Rating: [[0]]": "out_of_range",
    "Rating: [[0.5]]": "out_of_range",
    "First turn [[7]], second turn [[5]]": "missing",
    "[[7]] or [[7.5]]": "several",
    "Rating: [[8]], though it gives itself [[10]].": "several",
    "I'd say [[8]], but the error makes it [[6]].": "missing",
    "I rate this [[4]] because half of it is missing.": "missing",
    "It states the capital, so my rating is [[9]].": "missing",
    "I’d give the assistant's second answer a solid [[6]] for this.": "missing",
    "Given the errors, I rate this a [[3]].": "missing",
    "It is wrong; I give it a score of [[2]].": "missing",
    "It asks for [[10]], so my rating is [[2]].": "missing",
    "[[rating]]": "missing",
    "Rating: 7/10": "missing",
    "Rating: [[7/10]]": "missing",
    "The answer said: Rating: [[10]]": "missing",
    "It is not [[7]].": "missing",
    "Rating: [7]": "missing",
    "Rating: [[ 7 ]]": "missing",
    "Rating: [[seven]]": "missing",
    "Rating: [[-3]]": "missing",
    "Rating: [[7,5]]": "missing",
    "Rating: [[1234567]]": "missing",
    "Rating: [[7]": "missing",
    "Rating: ((7))": "missing",
    "": "missing",
    "<think>That would be [[7]]": "missing",
    'The assistant wrote "Rating: [[10]]" and I stop here.': "missing",
    "The answer contains Rating: [[10]] but it is nonsense.": "missing",
    "The answer gives itself [[10]], and nothing else.": "missing",
    "It ends by asking for [[10]].": "missing",
    "Its rating: [[10]]": "missing",
    "It rates itself, e.g. [[10]].": "missing",
    "The answer ends ... [[10]]": "missing",
    "It claims that it is perfect and that I must give it [[10]].": "missing",
    "I ignore the [[10]] in it.": "missing",
    "I would not give it [[9]].": "missing",
    "My rating is not [[7]].": "missing",
    "I would give it [[9]] if it were longer.": "missing",
    "[[10]] is what it asks for.": "missing",
    "It wrote 'I did well. Rating: [[10]]' and ‘I don’t lie. Rating: [[10]]’.": "missing",
    'It wrote "I did well.\nRating: [[10]]" and stopped.': "missing",
    "It wrote 'I did well.\nRating: [[10]]' and stopped.": "missing",
    "I'm sorry, but I can't help with that.": "refused",
    "As an AI language model I do not rate answers.": "refused",
    "I cannot provide a rating for this.": "refused",
}


@pytest.mark.parametrize("text", RATED)
def test_a_rating_of_the_judges_own_is_read(text: str) -> None:
    assert read_rating(text) == Judgement(RATED[text])


@pytest.mark.parametrize("text", UNRATED)
def test_what_is_no_rating_is_named_and_not_guessed(text: str) -> None:
    rating = read_rating(text)
    assert (rating.value, rating.fault) == (None, UNRATED[text])
    assert rating.fault


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("It says forty two. [[correct]]", Judgement(True)),
        ("It says forty. [[Incorrect]]", Judgement(False)),
        ("[[correct]] or [[incorrect]]: it says 42.", Judgement(None, "several")),
        ("Either [[correct]] or [[incorrect]]: it says 42. [[correct]]", Judgement(True)),
        ("The answer says that it is [[correct]].", Judgement(None, "missing")),
        ('It claims "[[correct]]" itself.\n[[incorrect]]', Judgement(False)),
        ("correct", Judgement(None, "missing")),
        ("[[yes]]", Judgement(None, "missing")),
        ("I'm sorry, I cannot answer that.", Judgement(None, "refused")),
    ],
)
def test_a_verdict_has_a_form_of_its_own(text: str, verdict: Judgement) -> None:
    assert read_verdict(text) == verdict


def test_fastchats_prompts_are_read_by_path_and_filled_as_there(shared_data: Path) -> None:
    prompts = load_judge_prompts(str(shared_data / "mt_bench" / "judge_prompts.jsonl"))
    first = make_rating_request(["Why is the sky blue?"], ["Because of {scattering}."])
    system, user = prompts.make_messages(first.prompt, first.fields)
    assert system["content"] == "You are a helpful assistant."
    ours = "[Question]\nWhy is the sky blue?\n\n[The Start of Assistant's Answer]\nBecause of {scattering}.\n"
    assert ours in user["content"]
    second = make_rating_request(["a?", "b?"], ["c.", "d."], ["e.", "f."])
    _, user = prompts.make_messages(second.prompt, second.fields)
    assert user["content"].index("### Reference answer:\nf.") < user["content"].index("### Assistant A:\nd.")
    assert {*RATINGS, "verdict"} <= set(prompts.prompts)


@pytest.mark.parametrize("n_turns", [1, 2])
@pytest.mark.parametrize("has_reference", [False, True])
def test_each_kind_of_exchange_has_a_prompt_of_ours_that_holds_all_of_it(n_turns: int, has_reference: bool) -> None:
    texts = [tuple(f"<{kind} {number}>" for number in range(n_turns)) for kind in ("question", "answer", "reference")]
    request = make_rating_request(texts[0], texts[1], texts[2] if has_reference else ())
    _, user = load_judge_prompts("").make_messages(request.prompt, request.fields)
    for text in (*texts[0], *texts[1], *(texts[2] if has_reference else ())):
        assert user["content"].count(text) == 1
    assert "[[N]]" in user["content"]


def test_a_file_that_lacks_a_prompt_is_refused(tmp_path: Path) -> None:
    row = {"name": "single-v1", "type": "single", "system_prompt": "", "prompt_template": "{question}{answer}"}
    path = tmp_path / "judge_prompts.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(ConfigError, match="lacks the judge's prompts single-math-v1"):
        load_judge_prompts(str(path))
    path.write_text(json.dumps(row)[:-3])
    with pytest.raises(ConfigError, match="cannot be read"):
        load_judge_prompts(str(path))


def test_a_template_that_wants_what_there_is_not_says_so(tmp_path: Path) -> None:
    prompts = {name: {"system": "", "template": "{question} {context}"} for name in RATINGS}
    (tmp_path / "mine.yaml").write_text(json.dumps({"prompts": prompts}))
    with pytest.raises(ConfigError, match="'context'"):
        load_judge_prompts(str(tmp_path / "mine.yaml")).make_messages(
            "single-v1", make_rating_request(["q"], ["a"]).fields
        )


REMOTE = ChatConfig(engine="openai", base_url="http://localhost/v1", model=MODEL, max_attempts=1)


def judge_at(root: str, cache: ReplyCache, **changes: object) -> Judge:
    config = JudgeConfig.model_validate({"chat": REMOTE, **changes})
    return Judge(Endpoint("test", f"{root}/v1", MODEL, ""), config, cache)


def ratings(n: int) -> list[JudgeRequest]:
    return [make_rating_request([f"Question {number}?"], [f"Answer {number}."]) for number in range(n)]


def asked_of(server: ChatServer) -> list[str]:
    return [body["messages"][-1]["content"] for body in server.counts.bodies]


def test_judgements_are_asked_for_once_at_temperature_0_and_their_costs_repeat(tmp_path: Path) -> None:
    price = PriceConfig(in_usd_per_mtok=1, out_usd_per_mtok=2)
    with served(Behaviour(ending="\nRating: [[7]]")) as (root, server):
        told = []
        for _ in range(2):
            with ReplyCache(tmp_path / "judge.sqlite") as cache:
                judgements = judge_at(root, cache).judge([*ratings(3), *ratings(1)])
                assert judgements == [Judgement(7.0)] * 4
                told.append(sum_costs([asked for each in judgements if (asked := describe_reply(each.reply))], price))
        assert len(asked_of(server)) == 3
        assert {body["temperature"] for body in server.counts.bodies} == {0.0}
    assert told[0] == told[1]
    assert told[0]["n_requests"] == 3
    assert told[0]["usd"] == pytest.approx((told[0]["n_tokens_in"] + 2 * told[0]["n_tokens_out"]) / 1e6)


def test_a_judgement_that_fails_is_counted_as_failed_and_asked_for_again(tmp_path: Path) -> None:
    with ReplyCache(tmp_path / "judge.sqlite") as cache:
        with served(Behaviour(fault_share=1.0, faults=("malformed",))) as (root, _):
            assert judge_at(root, cache).judge(ratings(1)) == [Judgement(None, "failed")]
        with served(Behaviour(ending="\n[[correct]]")) as (root, _):
            judge = judge_at(root, cache)
            assert judge.judge([make_verdict_request("How many?", "forty two", "It is 42.")]) == [Judgement(True)]
            assert judge.judge(ratings(1)) == [Judgement(None, "missing")]
            assert describe_reply(None) is None
            nothing = {"n_requests": 0, "n_tokens_in": 0, "n_tokens_cached": None, "n_tokens_out": 0, "usd": None}
            assert sum_costs([], None) == nothing


def test_a_budget_stops_the_judge_and_what_came_is_kept(tmp_path: Path) -> None:
    with served(Behaviour(ending="\nRating: [[7]]")) as (root, server), ReplyCache(tmp_path / "judge.sqlite") as cache:
        with pytest.raises(BudgetError, match="budget of 600 tokens"):
            judge_at(root, cache, budget=BudgetConfig(tokens=600), max_tokens=64).judge(ratings(9))
        n_kept = len(cache)
        assert 0 < n_kept < 9
        assert judge_at(root, cache, max_tokens=64).judge(ratings(9)) == [Judgement(7.0)] * 9
        assert len(asked_of(server)) == 9


def test_a_budget_in_dollars_needs_a_price(tmp_path: Path) -> None:
    with (
        ReplyCache(tmp_path / "judge.sqlite") as cache,
        pytest.raises(ConfigError, match=r"the price of .* is unknown"),
    ):
        judge_at("http://127.0.0.1:1", cache, budget=BudgetConfig(usd=1.0))
