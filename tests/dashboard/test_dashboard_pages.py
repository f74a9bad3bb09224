"""The pages in headless Chromium: a dialogue is played, flagged and left; rows are filtered; nobody is kept out."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from dashboard.app import create_app
from data_schemas.flags import read_flagged
from data_schemas.store import Store
from tests.support.dashboards import TOKEN, dialogues, write_small
from tests.support.pages import CHROMIUM, grave_faults, opened, play_slowly, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason="chromium is not there: make system"), pytest.mark.slow]
PAGES = ("", "datasets/small", "datasets/small/rows", "datasets/small/rejects", "datasets/small/refused?item=mine-9",
         "datasets/small/sql", "compare?left=small&right=second")  # fmt: skip
DIALOGUE = "datasets/small/dialogues/mine-2-v0"
MIDDLE_COLOUR = """canvas => {
  const { width, height } = canvas;
  return [...canvas.getContext("2d").getImageData(width / 2, height / 2, 1, 1).data].join();
}"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pages") / "root"
    write_small(root / "second", [], dialogues()[:1], "many eggs")
    return write_small(root / "small").parent


@pytest.fixture(scope="module")
def url(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(create_app([root], tmp_path_factory.mktemp("cache"), TOKEN)) as url:
        while httpx.get(url + PAGES[-1], headers={"Accept": "text/html"}, timeout=60).status_code == 202:
            pass  # a page that is opened before both indexes are made comes again by itself
        yield url


def seconds(page: "Page") -> float:
    return float(page.locator("#clock").inner_text())


def test_seeking_shows_what_is_whispered_then(browser: "Browser", url: str) -> None:
    with opened(browser, url + DIALOGUE) as page:
        page.locator("#wave-A canvas").first.wait_for()
        page.get_by_role("button", name="0.40").click()
        page.locator("#now-text", has_text="a few eggs").wait_for()
        assert seconds(page) == pytest.approx(0.4, abs=0.02)
        assert page.locator("#now-level").inner_text() == "level 0"
        assert page.locator("tr.now .said").inner_text() == "a few eggs"
        page.keyboard.press("ArrowRight")
        page.locator("#now-level", has_text="level 5").wait_for()
        assert page.locator("#now-text").inner_text() == "eighteen eggs."


def test_a_word_is_played_alone(browser: "Browser", url: str) -> None:
    with opened(browser, url + DIALOGUE) as page:
        page.locator("#wave-A canvas").first.wait_for()
        page.evaluate("audio.onplay = () => { audio.dataset.was = 'played'; }")
        page.locator(".word", has_text="many").click()
        page.locator("audio[data-was=played]").wait_for(state="attached")
        page.locator("#play[aria-label=Play]").wait_for()
        page.locator("#clock", has_text="0.46").wait_for()  # the word ends at 0.44 s
        assert page.evaluate("audio.paused")


def test_a_stretch_is_marked_and_looped_and_voices_are_heard_alone(browser: "Browser", url: str) -> None:
    with opened(browser, url + DIALOGUE) as page:
        page.locator("#wave-A canvas").first.wait_for()
        ruler = page.locator("#ruler").bounding_box()
        assert ruler is not None
        middle = ruler["y"] + 10
        page.mouse.move(ruler["x"] + 30, middle)
        page.mouse.down()
        page.mouse.move(ruler["x"] + 60, middle, steps=3)
        page.mouse.up()
        assert page.locator("#loop").get_attribute("aria-pressed") == "true"
        start = seconds(page)
        play_slowly(page)
        page.evaluate("window.n_back = 0; document.getElementById('audio').onseeking = () => { window.n_back += 1; }")
        page.keyboard.press("Space")
        while page.evaluate("window.n_back") < 3:
            assert start - 0.05 <= seconds(page) <= start + 0.7
        page.keyboard.press("b")
        assert page.locator("[data-solo=B]").get_attribute("aria-pressed") == "true"
        page.keyboard.press("b")
        page.locator("[data-mute=A]").click()
        assert page.locator("[data-mute=A]").get_attribute("aria-pressed") == "true"


def test_a_dialogue_is_flagged_by_keyboard_with_the_token_asked_once(browser: "Browser", url: str, root: Path) -> None:
    store = Store(str(root / "small"))
    with opened(browser, url + DIALOGUE) as page:
        page.locator("#wave-A canvas").first.wait_for()
        page.keyboard.press("f")
        page.keyboard.type("wrong answer")
        page.fill("#token", TOKEN)
        page.keyboard.press("Enter")
        page.locator("#flag-text", has_text="Flagged: wrong answer").wait_for()
        assert read_flagged(store) == {"mine-2-v0": "wrong answer"}
        page.goto(f"{url}datasets/small/rows?flag=wrong+answer")
        page.locator("tbody th a").click()
        page.locator("#wave-A canvas").first.wait_for()  # its scripts run
        assert page.locator("#flag-text").inner_text() == "Flagged: wrong answer"
        page.keyboard.press("f")
        assert not page.locator("#token").is_visible()
        page.click("#flag-clear")
        page.locator("#flag-text", has_text="Flag").wait_for()
        page.locator("#flagging").wait_for(state="hidden")
        assert read_flagged(store) == {}


def test_next_and_previous_follow_the_view(browser: "Browser", url: str) -> None:
    with opened(browser, f"{url}datasets/small/rows?sort=-duration_s") as page:
        names = page.locator("tbody th").all_inner_texts()
        page.locator("tbody th a").first.click()
        for key, name in (("j", names[0]), ("k", names[1]), ("", names[0])):
            page.locator("h1", has_text=name).wait_for()
            page.locator("#wave-A canvas").first.wait_for()  # its scripts run
            if key:
                page.keyboard.press(key)


def test_dragging_over_a_histogram_filters_and_the_address_holds_it(browser: "Browser", url: str) -> None:
    with opened(browser, f"{url}datasets/small/rows") as page:
        box = page.locator(".histogram svg").first.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 20)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.99, box["y"] + 20, steps=4)
        page.mouse.up()
        page.wait_for_url("**duration_s=**")
        page.get_by_role("link", name="Clear").wait_for()
        assert sorted(page.locator("tbody th").all_inner_texts()) == ["mine-1-v0", "mine-2-v0"]
        page.get_by_text("form", exact=True).first.click()
        page.get_by_label("greeting").check()
        page.keyboard.press("Escape")
        page.wait_for_url("**form=greeting**")
        assert page.locator("tbody th").all_inner_texts() == ["mine-1-v0"]


def test_columns_are_chosen(browser: "Browser", url: str) -> None:
    with opened(browser, f"{url}datasets/small/rows") as page:
        page.get_by_text("columns", exact=True).click()
        page.get_by_label("noise, dBFS").check()
        page.get_by_label("question", exact=True).uncheck()
        page.keyboard.press("Escape")
        page.wait_for_url("**columns=dialogue_id,**")
        page.get_by_role("link", name="noise, dBFS").wait_for()
        assert "question" not in page.locator("thead").inner_text()


def test_a_query_is_run_and_its_error_told(browser: "Browser", url: str) -> None:
    with opened(browser, f"{url}datasets/small/sql") as page:
        page.fill("#query", "select form, count(*) n from dialogues group by 1 order by 1")
        page.keyboard.press("Control+Enter")
        page.locator("#result td").first.wait_for()
        assert page.locator("#result td").all_inner_texts() == ["greeting", "2", "plain", "3"]


def test_pages_are_open_to_all_and_fit(browser: "Browser", url: str, look: tuple[str, int]) -> None:
    assert grave_faults(browser, [url + path for path in PAGES], look) == []
    drawn = "#wave-B canvas"
    assert grave_faults(browser, [url + DIALOGUE], look, lambda page: page.locator(drawn).first.wait_for()) == []


def test_the_switch_changes_the_theme_for_good(browser: "Browser", url: str) -> None:
    with opened(browser, url, color_scheme="light") as page:
        ground = "getComputedStyle(document.documentElement).backgroundColor"
        light = page.evaluate(ground)
        page.click("#theme")
        dark = page.evaluate(ground)
        assert dark != light
        page.goto(f"{url}datasets/small")
        assert page.evaluate(ground) == dark


def test_what_is_drawn_follows_the_systems_theme(browser: "Browser", url: str) -> None:
    with opened(browser, url + DIALOGUE, color_scheme="light") as page:
        wave = page.locator("#wave-B canvas").first
        wave.wait_for()
        light = wave.evaluate(MIDDLE_COLOUR)
        page.evaluate("addEventListener('themechange', () => { document.body.dataset.is = 'drawn'; })")
        page.emulate_media(color_scheme="dark")
        page.locator("body[data-is=drawn]").wait_for()
        assert page.locator("#wave-B canvas").first.evaluate(MIDDLE_COLOUR) != light
