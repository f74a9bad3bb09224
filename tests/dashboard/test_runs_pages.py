"""Pages of runs and their forms in headless Chromium: by the keyboard alone, faults at their fields, open to all."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dashboard.app import create_app
from dashboard.runs import KINDS
from tests.support.dashboards import TOKEN
from tests.support.pages import CHROMIUM, grave_faults, opened, served
from tests.support.schedulers import RUN, KeptScheduler

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason="chromium is not there: make system"), pytest.mark.slow]
FAILED = replace(RUN, run_id="r2", state="failed", state_name="Failed", message="It broke.")
PAGES = ("runs", "runs?kind=train", "runs/r1", "runs/r2", "start", *(f"start/{kind}" for kind in KINDS))


@pytest.fixture
def scheduler() -> KeptScheduler:
    return KeptScheduler(RUN, FAILED)


@pytest.fixture
def url(scheduler: KeptScheduler, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("root")
    with served(create_app([root], tmp_path_factory.mktemp("cache"), TOKEN, scheduler=scheduler)) as url:
        yield url


def tab_to(page: "Page", name: str) -> None:
    """Presses Tab until what has this name, or is of this path, has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate("[document.activeElement.dataset.path, document.activeElement.innerText]")
        if name in focused:
            return
    raise AssertionError(f"{name} cannot be reached by Tab")


def test_a_refresh_is_started_by_the_keyboard_alone(
    browser: "Browser", url: str, scheduler: KeptScheduler, tmp_path: Path
) -> None:
    questions = tmp_path / "a.jsonl"
    questions.touch()
    with opened(browser, f"{url}start/refresh#token={TOKEN}") as page:
        page.locator('[data-path="sources.0.name"]').wait_for()
        assert "#token" not in page.url
        assert not page.locator('[data-path="sources.0.columns"]').is_visible()  # folded away
        tab_to(page, "sources.0.name")
        page.keyboard.type("gsm8k")
        tab_to(page, "sources.0.path")
        page.keyboard.type(str(questions))
        tab_to(page, "limit")
        page.keyboard.type("0")
        page.locator("#fault-limit", has_text="greater").wait_for()
        assert page.locator("#limit").get_attribute("aria-invalid") == "true"
        with page.expect_response("**/check"):
            page.keyboard.press("Enter")
        page.locator("button[type=submit]:enabled").wait_for()
        page.locator("#status", has_text="1 field needs").wait_for()
        assert scheduler.started == []
        page.keyboard.press("Backspace")
        page.keyboard.type("3")
        tab_to(page, "Start")
        page.keyboard.press("Enter")
        page.wait_for_url("**/runs/r1")
        assert scheduler.started == [("refresh", {"sources": [{"name": "gsm8k", "path": str(questions)}], "limit": 3})]


def test_a_file_that_does_not_exist_is_marked_and_may_be_elsewhere(
    browser: "Browser", url: str, scheduler: KeptScheduler
) -> None:
    with opened(browser, f"{url}start/refresh?like=r1#token={TOKEN}") as page:
        path = page.locator('[data-path="sources.0.path"]')
        path.fill("/nowhere/a.jsonl")
        fault = page.locator('[id="fault-sources.0.path"]', has_text="There is no file")
        fault.wait_for()
        assert path.get_attribute("aria-invalid") == "true"
        page.get_by_role("button", name="Start", exact=True).click()
        page.get_by_role("button", name="Start anyway").wait_for()
        assert scheduler.started == []
        page.get_by_role("button", name="Remove this one").click()
        fault.wait_for(state="detached")
        page.get_by_role("button", name="Start", exact=True).wait_for()
        page.get_by_role("button", name="Add one: sources").click()
        page.keyboard.type("gsm8k")
        page.locator('[data-path="sources.0.path"]').fill("/nowhere/b.jsonl")
        page.get_by_role("button", name="Start", exact=True).click()
        page.get_by_role("button", name="Start anyway").click()
        page.wait_for_url("**/runs/r1")
        ((_, settings),) = scheduler.started
        assert settings["sources"] == [{"name": "gsm8k", "path": "/nowhere/b.jsonl"}]


def test_rows_are_added_and_a_schedule_is_set(browser: "Browser", url: str, scheduler: KeptScheduler) -> None:
    with opened(browser, f"{url}start/refresh?like=r1#token={TOKEN}") as page:
        page.get_by_role("button", name="Add one: sources").click()
        page.keyboard.type("mmlu_pro")
        page.get_by_text("Run on a schedule").click()
        page.fill("#cron", "0 3 * * 1")
        page.get_by_role("button", name="Schedule").click()
        page.get_by_role("button", name="Pause Refresh 0 3 * * 1").click()
        page.get_by_role("button", name="Resume Refresh 0 3 * * 1").wait_for()
        (made,) = scheduler.schedules
        assert [each["name"] for each in made.settings["sources"]] == ["gsm8k", "mmlu_pro"]
        assert not made.is_active
        assert scheduler.started == []


def test_a_press_before_the_scripts_of_a_page_run_is_not_lost(
    browser: "Browser", url: str, scheduler: KeptScheduler
) -> None:
    scheduler.add_schedule("refresh", {}, "0 3 * * 1", "UTC")
    with opened(browser, url) as page:
        held: list[Route] = []
        page.route("**/static/runs.js", lambda route: held.append(route))
        page.goto(f"{url}runs#token={TOKEN}", wait_until="commit")
        page.get_by_role("button", name="Pause Refresh").click()
        while not held:
            page.evaluate("0")
        assert scheduler.schedules[0].is_active
        held[0].continue_()
        page.get_by_role("button", name="Resume Refresh").wait_for()
        assert not scheduler.schedules[0].is_active


def test_a_token_is_asked_for_once_and_a_run_cancelled(browser: "Browser", url: str, scheduler: KeptScheduler) -> None:
    with opened(browser, f"{url}runs/r1") as page:
        page.on("dialog", lambda asked: asked.accept())
        page.locator("#log li", has_text="line 2").wait_for()
        page.locator("#cancel").focus()
        page.keyboard.press("Enter")
        page.locator("dialog input").wait_for()
        page.keyboard.press("Escape")
        page.locator("#fault", has_text="no token").wait_for()
        assert scheduler.cancelled == []
        page.locator("#cancel").click()
        page.locator("dialog input").fill(TOKEN)
        with page.expect_navigation():
            page.keyboard.press("Enter")
        assert scheduler.cancelled == ["r1"]


def test_a_run_that_ends_is_shown_without_a_reload(browser: "Browser", url: str, scheduler: KeptScheduler) -> None:
    with opened(browser, f"{url}runs") as page:
        page.locator(".state-running").wait_for()
        scheduler.runs["r1"] = replace(RUN, state="completed", state_name="Completed", percent=100.0)
        page.locator("tr", has=page.locator(".state-completed")).wait_for()
        assert page.locator(".state-running").count() == 0


def test_who_reads_keeps_the_place_while_the_list_changes(
    browser: "Browser", url: str, scheduler: KeptScheduler
) -> None:
    with opened(browser, f"{url}runs") as page:
        page.get_by_role("link", name=RUN.name).first.focus()
        scheduler.runs = {"r0": replace(RUN, run_id="r0", name="newer"), **scheduler.runs}
        scheduler.runs["r1"] = replace(RUN, percent=60.0)
        page.locator("tr", has_text="60 %").wait_for()
        assert page.locator("tbody th").all_inner_texts() == ["newer", RUN.name, FAILED.name]
        assert page.evaluate("document.activeElement.getAttribute('href')") == "/runs/r1"
        del scheduler.runs["r0"]
        page.locator("tr", has_text="newer").wait_for(state="detached")
        assert page.locator("tbody th").all_inner_texts() == [RUN.name, FAILED.name]
        assert page.evaluate("document.activeElement.getAttribute('href')") == "/runs/r1"


def test_pages_are_open_to_all_and_fit(browser: "Browser", url: str, look: tuple[str, int]) -> None:
    def prepare(page: "Page") -> None:
        if "/start/" in page.url:
            page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        if page.url.endswith("runs/r1"):
            page.locator("#log li").first.wait_for()

    assert grave_faults(browser, [url + path for path in PAGES], look, prepare) == []
