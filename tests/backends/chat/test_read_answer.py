"""What a chat-completions response is read as: an answer with its tokens, or worth another try, or not."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.chat.answers import read_answer
from backends.chat.faults import TryAgainError, UnusableAnswerError

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["choices", "message", "content", "usage", "prompt_tokens_details"]), inner)
    ),
    max_leaves=12,
)


@given(json_values)
@pytest.mark.full
def test_any_json_is_an_answer_or_worth_another_try(value: Any) -> None:
    expected = None
    with contextlib.suppress(LookupError, TypeError):
        expected = value["choices"][0]["message"]["content"]
    if isinstance(expected, str):
        with contextlib.suppress(TryAgainError):  # its token counts may be nonsense
            assert read_answer(json.dumps(value)).text == expected
    else:
        with pytest.raises(TryAgainError, match="without a usable choice"):
            read_answer(json.dumps(value))


def response(content: Any, reason: str | None = "stop", usage: Any = None) -> str:
    choice = {"message": {"content": content}, "finish_reason": reason}
    return json.dumps({"choices": [choice], "usage": usage})


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_no_text_for_a_reason_that_stays_is_not_asked_for_again(reason: str) -> None:
    with pytest.raises(UnusableAnswerError, match=reason) as caught:
        read_answer(response(None, reason, {"prompt_tokens": 7, "completion_tokens": 48}))
    assert caught.value.is_final
    assert (caught.value.paid.n_tokens_in, caught.value.paid.n_tokens_out) == (7, 48)
    with pytest.raises(UnusableAnswerError) as passing:
        read_answer(response(None))
    assert not passing.value.is_final


TOLD = {"prompt_tokens": 7, "completion_tokens": 2}


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (TOLD, (7, 2, False, None)),
        ({"prompt_tokens": 7, "completion_tokens": 0}, (7, 0, False, None)),
        (None, (30, 3, True, None)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, (30, 3, True, None)),
        ({"prompt_tokens": 7}, (7, 3, True, None)),
        ({"prompt_tokens": float("inf"), "completion_tokens": -2}, (30, 3, True, None)),
        ({"prompt_tokens": 10**30, "completion_tokens": "many"}, (30, 3, True, None)),
        ([3], (30, 3, True, None)),
        (TOLD | {"prompt_tokens_details": {"cached_tokens": 4}}, (7, 2, False, 4)),
        (TOLD | {"prompt_tokens_details": {"cached_tokens": 0}}, (7, 2, False, 0)),
        (TOLD | {"prompt_tokens_details": {"cached_tokens": 9}}, (7, 2, False, 7)),
        (TOLD | {"prompt_tokens_details": {}}, (7, 2, False, None)),
        (TOLD | {"prompt_tokens_details": None}, (7, 2, False, None)),
    ],
)
def test_tokens_that_a_server_does_not_tell_are_estimated_and_cached_ones_unknown(usage: Any, counted: Any) -> None:
    reply = read_answer(response("ten apples", "stop", usage), (30, 48))
    assert (reply.n_tokens_in, reply.n_tokens_out, reply.is_estimated, reply.n_tokens_cached) == counted
    assert reply.finish_reason == "stop"
