"""Pages of training runs in headless Chromium: curves that grow, several on each other, nobody kept out."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dashboard.app import create_app
from kame_model.train.logs import METRICS
from tests.support.pages import CHROMIUM, grave_faults, opened, served
from tests.support.training_pages import HOSTILE, append, write_free_running, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason="chromium is not there: make system"), pytest.mark.slow]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("training")
    write_free_running(write_run(root / "one", 30), {100: ["six", ""], 200: ["five", "it is six"]})
    write_run(root / "two", 20, optim={"learning_rate": 0.5})
    write_run(root / HOSTILE, 5)
    return root


@pytest.fixture(scope="module")
def url(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(create_app([root], tmp_path_factory.mktemp("cache"))) as url:
        yield url


def test_curves_grow_while_somebody_looks(browser: "Browser", url: str, root: Path) -> None:
    run = write_run(root / "growing", 3)
    with opened(browser, f"{url}training/runs?run=growing") as page:
        page.locator("#curve-loss canvas").wait_for()
        page.locator(".of-step", has_text="30").wait_for()
        trained = {"kind": "train", "step": 40, "loss": 1.25, "memory_gb": 3.5}
        append(run, trained, {"kind": "spike", "step": 41, "dialogues": ["<img src=x onerror=alert(1)>"]}, half='{"k')
        page.locator(".of-step", has_text="40 of 100").wait_for()
        page.locator("#curve-memory_gb canvas").wait_for()
        assert page.locator(".of-loss").inner_text() == "1.250"
        assert page.locator("#notes tbody td").all_inner_texts()[1:3] == ["41", "spike"]
        assert page.locator("#notes img").count() == 0
        (write_run(root / "again", 2) / METRICS).rename(run / METRICS)  # gone on with from a checkpoint
        page.locator(".of-step", has_text="20 of 100").wait_for()
        page.locator("#notes").wait_for(state="hidden")


def test_free_runs_have_a_group_of_their_own(browser: "Browser", url: str, root: Path) -> None:
    run = write_run(root / "free", 3)
    append(run, {"kind": "free", "step": 30, "once": 0.25, "silent": 0.5, "recorded_once": 1.0, "turns": 8.0})
    with opened(browser, f"{url}training/runs?run=free") as page:
        group = page.locator("section.curves", has=page.get_by_role("heading", name="Free running, share of answers"))
        group.locator("#curve-once canvas").wait_for()
        assert group.locator("figcaption").all_inner_texts() == [
            "the right answer said once, and no other",
            "nothing said",
            "right in the recording: an upper bound",
            "number of judged answers",
        ]


def test_what_a_model_said_freely_comes_as_it_is_written(browser: "Browser", url: str, root: Path) -> None:
    run = write_run(root / "said", 3)
    with opened(browser, f"{url}training/runs?run=said") as page:
        page.locator("#curve-loss canvas").wait_for()
        assert page.locator("#no-free").is_visible()
        write_free_running(run, {10: [HOSTILE, ""], 20: ["five", "six"]})
        newest = page.locator(".free-step", has_text="Step 20")
        newest.locator("article").first.wait_for()
        assert page.locator("#no-free").is_hidden()
        assert page.locator(".free-step summary").all_inner_texts() == [
            "Step 20 1 of 2 answers right",
            "Step 10 0 of 2 answers right",
        ]
        assert newest.locator("article .chip").all_inner_texts() == ["right", "wrong"]
        page.locator(".free-step summary", has_text="Step 10").click()
        assert page.locator(".free-step", has_text="Step 10").locator("dd").all_inner_texts()[1].startswith(HOSTILE)
        assert page.locator("#free img").count() == 0
        write_free_running(run, {10: [HOSTILE, ""], 20: ["five", "six"], 30: ["five"]})
        page.locator(".free-step[open]", has_text="Step 30").wait_for()
        assert page.locator(".free-step[open]").count() == 2  # the newest, and the one that was opened by hand


def test_chosen_runs_are_overlaid_and_the_address_holds_the_view(browser: "Browser", url: str) -> None:
    with opened(browser, f"{url}training") as page:
        page.get_by_label("Choose one").check()
        page.get_by_label("Choose two").check()
        page.get_by_role("button", name="Overlay").click()
        for name in ("one", "two"):  # what is told of each comes by itself
            page.locator("#curve-loss .u-series", has_text=f"{name}, validation").wait_for()
        assert page.locator("#curve-loss .u-series").count() == 1 + 2 * 2
        assert page.locator(".settings tbody th").all_inner_texts() == ["optim.learning_rate"]
        page.select_option("#x", "hours")
        page.select_option("#smooth", "0.9")
        page.locator("#curve-loss .u-series", has_text="hours").wait_for()
        page.wait_for_url("**run=one**&x=hours&smooth=0.9")
        address = page.url
        page.goto(address)
        page.locator("#curve-loss .u-series", has_text="hours").wait_for()
        page.get_by_role("link", name="Remove two").click()
        page.locator("h1", has_text="one").wait_for()
        page.locator("#curve-loss .u-series", has_text="right oracle").wait_for()
        page.locator("main select[name=run]").select_option(HOSTILE)
        page.get_by_role("button", name="Add").click()
        page.locator("#curve-loss .u-series", has_text=HOSTILE).first.wait_for()


def test_charts_are_zoomed_together_and_stay_so_when_lines_come(browser: "Browser", url: str, root: Path) -> None:
    run = write_run(root / "zoomed", 30, is_done=False)
    with opened(browser, f"{url}training/runs?run=zoomed") as page:
        page.locator("#curve-text .u-over").wait_for()
        box = page.locator("#curve-loss .u-over").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 20)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 20, steps=4)
        page.mouse.up()
        append(run, {"kind": "train", "step": 900, "loss": 1.0, "text": 1.0})
        page.locator(".of-step", has_text="900").wait_for()
        page.locator("#curve-text .u-over").hover(position={"x": box["width"] - 3, "y": 20})
        page.locator("#curve-text .u-series:first-child .u-value", has_text=re.compile(r"\d")).wait_for()
        at = float(page.locator("#curve-text .u-series .u-value").first.inner_text())
        assert 150 <= at <= 200
        page.locator("#curve-text .u-over").dblclick(position={"x": 20, "y": 20})
        page.locator("#curve-text .u-over").hover(position={"x": box["width"] - 3, "y": 20})
        page.locator("#curve-text .u-series .u-value", has_text="900").first.wait_for()


def test_pages_are_open_to_all_and_fit(browser: "Browser", url: str, look: tuple[str, int]) -> None:
    def prepare(page: "Page") -> None:
        if "?" in page.url:
            page.locator("#curve-loss canvas").wait_for()

    pages = ("training", "training/runs?run=one", "training/runs?run=one&run=two")
    assert grave_faults(browser, [url + each for each in pages], look, prepare) == []
