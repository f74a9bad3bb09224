"""Which back-end is asked: classifier, rules, the session's own."""

import asyncio

import pytest

from data_schemas.config.serving import RouteConfig
from data_schemas.errors import BackendError, ConfigError
from kame_model.serve.routing import Router, load_classifier

NAMES = ("small", "maths", "law")
ROUTES = [
    RouteConfig(words=["how many", "percent"], back_end="maths"),
    RouteConfig(words=["judge", "many"], back_end="law"),
]


def chosen(router: Router, text: str) -> str:
    return asyncio.run(router.choose(text, "small"))


@pytest.mark.parametrize(
    ("text", "back_end"),
    [
        ("Hello there", "small"),
        ("So, how many sheep", "maths"),
        ("What are the judge's duties?", "law"),
        ("many people", "law"),
        ("HOW, many?", "maths"),
        ("somehow manyfold", "small"),
        ("", "small"),
    ],
)
def test_the_first_rule_whose_words_were_said_decides(text: str, back_end: str) -> None:
    assert chosen(Router(NAMES, ROUTES), text) == back_end


def test_the_classifier_comes_first_and_may_leave_it_to_the_rules() -> None:
    router = Router(NAMES, ROUTES, lambda text: "law" if "sheep" in text else None)
    assert chosen(router, "how many sheep") == "law"
    assert chosen(router, "how many goats") == "maths"


def test_a_classifier_s_fault_is_told() -> None:
    with pytest.raises(BackendError, match="ZeroDivisionError"):
        chosen(Router(NAMES, (), lambda text: str(1 // 0)), "hello")
    with pytest.raises(BackendError, match="'gone'"):
        chosen(Router(NAMES, (), lambda _: "gone"), "hello")


def test_a_classifier_is_named_by_module_and_function() -> None:
    assert load_classifier("json:dumps")("a") == '"a"'
    for place in ("json:nothing", "no_such_module:f", "json", "json:__name__"):
        with pytest.raises(ConfigError, match="module:function"):
            load_classifier(place)
