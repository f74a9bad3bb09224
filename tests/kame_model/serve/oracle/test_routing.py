"""Which back-end is asked: classifier, rules, the session's own."""

import asyncio
import threading

import pytest

from data_schemas.config.serving import RouteConfig
from data_schemas.errors import BackendError, ConfigError
from kame_model.serve.oracle.routing import N_CLASSIFYING, Router, load_classifier

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


def test_classifiers_that_hang_are_told_and_hold_up_neither_other_work_nor_the_end() -> None:
    may_end = threading.Event()
    router = Router(NAMES, (), lambda _: str(may_end.wait(60)))

    async def talk() -> int:
        asking = [asyncio.create_task(router.choose("hello", "small")) for _ in range(N_CLASSIFYING)]
        await asyncio.sleep(0)
        with pytest.raises(BackendError, match=f"{N_CLASSIFYING} classifier calls"):
            await router.choose("hello", "small")
        n_threads = await asyncio.to_thread(threading.active_count)  # for which there is a thread
        assert all(each.daemon for each in threading.enumerate() if each.name == "classifier")
        for each in asking:
            each.cancel()
        await asyncio.wait(asking)
        return n_threads

    assert asyncio.run(talk()) > N_CLASSIFYING  # it ends, though they hang
    may_end.set()
    for thread in [each for each in threading.enumerate() if each.name == "classifier"]:
        thread.join()
    assert chosen(Router(NAMES, (), lambda _: "law"), "hello") == "law"


def test_a_classifier_that_hung_and_goes_on_is_asked_again() -> None:
    may_end = threading.Event()
    router = Router(NAMES, (), lambda _: "law" if may_end.wait(60) else None)

    async def talk() -> list[str]:
        asking = [asyncio.create_task(router.choose("hello", "small")) for _ in range(N_CLASSIFYING)]
        await asyncio.sleep(0)
        may_end.set()
        return [*await asyncio.gather(*asking), await router.choose("hello", "small")]

    assert asyncio.run(talk()) == ["law"] * (N_CLASSIFYING + 1)


def test_a_classifier_is_named_by_module_and_function() -> None:
    assert load_classifier("json:dumps")("a") == '"a"'
    for place in ("json:nothing", "no_such_module:f", "json", "json:__name__"):
        with pytest.raises(ConfigError, match="module:function"):
            load_classifier(place)
