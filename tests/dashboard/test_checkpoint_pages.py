"""Pages of checkpoints in headless Chromium: nobody kept out, and one press that starts a real server."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from dashboard.app import create_app
from flows.checkpoints import CheckpointFiles
from kame_model.evaluate.report.compare import compare
from tests.support.checkpoints import evaluate, write_checkpoint
from tests.support.dashboards import TOKEN
from tests.support.pages import CHROMIUM, grave_faults, opened, served
from tests.support.schedulers import RUN, KeptScheduler
from tests.support.training_pages import HOSTILE
from tests.support.whole_machine import kame_up

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason="chromium is not there: make system"), pytest.mark.slow]
TO_TALK = "t4lk4711"
READY_MS = 600_000
"""Prefect, a worker, a front-end and a chat model begin on a machine that others share."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checkpoints")
    one, two = write_checkpoint(root / "one", 1), write_checkpoint(root / "two", 2, preset="small")
    write_checkpoint(
        root / HOSTILE, 3, card="# Card\n\n<script>window.was_run = true</script> [x](javascript:alert(1))"
    )
    folders = {each.name: [evaluate(each, root / f"e-{each.name}", n)] for each, n in ((one, 30), (two, 20))}
    compare(folders, str(root / "compared"))
    return root


@pytest.fixture(scope="module")
def scheduler(root: Path) -> KeptScheduler:
    settings = {"checkpoint": str(root / "one")}
    made = replace(RUN, run_id="s1", kind="serve", name="serve one", settings=settings, url="http://127.0.0.1:4711")
    return KeptScheduler(RUN, made)


@pytest.fixture(scope="module")
def url(root: Path, scheduler: KeptScheduler, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    cache = tmp_path_factory.mktemp("cache")
    with served(create_app([root], cache, TOKEN, scheduler=scheduler, checkpoints=CheckpointFiles())) as url:
        yield url


def test_pages_are_open_to_all_and_fit(browser: "Browser", url: str, look: tuple[str, int]) -> None:
    hostile = quote(HOSTILE)
    compared = f"compare?checkpoint=one&checkpoint=two&checkpoint={hostile}"
    pages = ("", "/of/one", "/of/nano", f"/of/{hostile}", f"/{compared}", "/evaluations/e-one", "/evaluations/compared")
    assert grave_faults(browser, [f"{url}checkpoints{each}" for each in pages], look) == []


def test_chosen_checkpoints_are_compared_and_a_card_runs_nothing(browser: "Browser", url: str) -> None:
    with opened(browser, f"{url}checkpoints") as page:
        page.get_by_role("link", name=HOSTILE).click()
        page.locator("h2", has_text="Card").wait_for()
        assert page.locator(".card a[href]").count() == 0
        page.go_back()
        page.get_by_label("Choose one").check()
        page.get_by_label("Choose two").check()
        with page.expect_navigation():
            page.get_by_role("button", name="Compare").click()
        page.get_by_text("two − one").first.wait_for()
        assert page.locator("tbody th", has_text="preset").count() == 1
        page.locator("main select[name=checkpoint]").select_option("nano")
        page.get_by_role("button", name="Add").click()
        page.get_by_role("button", name="Remove").or_(page.get_by_label("Remove nano")).first.wait_for()


def test_a_press_starts_a_server_on_the_shipped_checkpoint(browser: "Browser", tmp_path: Path) -> None:
    """All of it is real: Prefect, its worker, the front-end that ships, its chat model and the page to talk by."""
    with kame_up(tmp_path, KAME_SERVE_TOKEN=TO_TALK) as parts, opened(browser, parts["dashboard"]) as page:
        page.set_default_timeout(READY_MS)
        page.goto(parts["dashboard"].replace("/#", "/checkpoints#"))
        page.get_by_role("link", name="nano", exact=True).click()
        page.get_by_role("button", name="Talk to it").click()
        page.get_by_text("is loading the checkpoint").wait_for()
        page.get_by_role("button", name="Open the talk page").click()
        page.get_by_role("heading", name="Talk with KAME").wait_for()
        page.locator("#mode option", has_text="tandem").wait_for(state="attached")
        assert page.locator("#token").input_value() == TO_TALK
        assert "#" not in page.url
        page.go_back()
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Stop").click()
        page.get_by_role("button", name="Talk to it").wait_for()
        logs = [*(tmp_path / ".cache" / "up").rglob("*.log")]
        told = [each.read_text(errors="replace") for each in (*logs, tmp_path / "up.txt")]
    assert logs
    assert not [each for each in told if TO_TALK in each]
