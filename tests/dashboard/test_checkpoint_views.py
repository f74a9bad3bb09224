"""Checkpoints in the dashboard: the list, one with its card and figures, several side by side, what is refused."""

import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from dashboard import checkpoints
from dashboard.app import create_app
from dashboard.checkpoints import Checkpoints
from dashboard.markdown import render_markdown
from dashboard.runs import Run
from dashboard.training import TrainingRun, list_runs
from data_schemas.errors import StoreError
from flows.checkpoints import CheckpointFiles
from flows.settings import find_shipped_checkpoint
from kame_model.checkpoint.files import WEIGHTS, digest_files
from kame_model.checkpoint.kame_json import TrainingFacts
from kame_model.evaluate.report.compare import compare
from kame_model.train.run import train
from kame_model.train.run_facts import read_facts
from tests.support.checkpoints import evaluate, write_checkpoint
from tests.support.dashboards import SCRIPT, TOKEN
from tests.support.schedulers import RUN, KeptScheduler
from tests.support.train_runs import tiny_dataset, tiny_run
from tests.support.training_pages import HOSTILE as NAME

HOSTILE = NAME.replace("%2e", "")  # the test client decodes addresses twice; test_checkpoint_pages.py has all of it
WITH_TOKEN = {"Authorization": f"Bearer {TOKEN}"}
SERVE_TOKEN = "let me/talk"
MOST_S = 60.0


class OwnFiles(CheckpointFiles):
    """The files below the roots alone."""

    def list_shipped(self) -> list[Path]:
        return []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def scheduler() -> KeptScheduler:
    return KeptScheduler(RUN)


def open_client(
    root: Path, scheduler: KeptScheduler | None, token: str | None = TOKEN, files: CheckpointFiles | None = None
) -> TestClient:
    reads, cache = files or OwnFiles(), root.parent / "cache"
    app = create_app([root], cache, token, scheduler=scheduler, checkpoints=reads, serve_token=SERVE_TOKEN)
    headers = {"Accept": "text/html,*/*"}
    return TestClient(app, base_url="http://localhost", headers=headers, raise_server_exceptions=False)


@pytest.fixture
def client(root: Path, scheduler: KeptScheduler) -> Iterator[TestClient]:
    with open_client(root, scheduler) as client:
        yield client


def server(folder: Path, **changes: object) -> Run:
    """A server of a checkpoint that is ready."""
    made = replace(
        RUN,
        run_id="s1",
        kind="serve",
        name="serve one",
        settings={"checkpoint": str(folder)},
        url="http://127.0.0.1:4711",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def test_checkpoints_are_listed_with_their_figures_and_sorted(root: Path, client: TestClient) -> None:
    write_checkpoint(root / "one", 1)
    write_checkpoint(root / "deep" / "two", 2)
    evaluate(root / "one", root / "evaluation", 30)
    page = client.get("/checkpoints?sort=steps").text
    assert page.index("/checkpoints/of/one") < page.index("/checkpoints/of/deep~two")
    assert 'aria-sort="ascending"' in page
    for told in ("1.500", "0.800", "72.5 %", "[10.0, 90.0]", "decoded", "dialogues", "1\u202f001"):
        assert told in page
    assert page.count('#evaluations">questions</a>') == 1
    page = client.get("/checkpoints?sort=-steps").text
    assert page.index("/checkpoints/of/deep~two") < page.index("/checkpoints/of/one")
    assert client.get("/checkpoints?sort=nothing").status_code == 404


def test_an_empty_folder_says_what_to_type(client: TestClient, root: Path) -> None:
    page = client.get("/checkpoints").text
    assert f"kame train {root}/gsm8k" in page
    assert "kame checkpoint export" in page


def test_the_shipped_checkpoint_is_there_wherever_one_looks(root: Path, scheduler: KeptScheduler) -> None:
    shipped = find_shipped_checkpoint()
    assert shipped is not None
    with open_client(root, scheduler, files=CheckpointFiles()) as client:
        page = client.get("/checkpoints/of/nano").text
        assert "6.4 M" in page
        assert "codec2-neural" in page
        assert "What it is not for" in page
        assert f'<option value="{shipped}">' in client.get("/start/evaluate").text
        assert f'value="{shipped}"' in client.get("/start/serve?checkpoint=nano").text


def test_a_checkpoint_has_its_evaluations_by_the_digest_of_its_weights(root: Path, client: TestClient) -> None:
    one = write_checkpoint(root / "one", 1)
    write_checkpoint(root / "two", 2)
    evaluate(one, root / "e1", 30)
    shutil.copytree(one, root / "copy")
    for key in ("one", "copy"):
        page = client.get(f"/checkpoints/of/{key}").text
        assert "questions behind gpt, seed 0" in page
        assert "75.0 %" in page
        assert "1.195" in page  # a mean of seconds is no share
    assert "There is no evaluation of this checkpoint" in client.get("/checkpoints/of/two").text
    (root / "copy" / WEIGHTS).write_bytes((root / "two" / WEIGHTS).read_bytes())
    assert "There is no evaluation of this checkpoint" in client.get("/checkpoints/of/copy").text


def test_a_checkpoint_leads_to_the_training_run_it_came_from(root: Path, client: TestClient, tmp_path: Path) -> None:
    run = root / "out" / "seed-0" / "run"
    train(tiny_run(run, tiny_dataset(tmp_path / "rows")))
    write_checkpoint(root / "one", training=TrainingFacts(run=read_facts(run).identity, step=6))
    write_checkpoint(root / "other", training=TrainingFacts(run="0123456789abcdef"))
    assert 'href="/training/runs?run=out~seed-0~run"' in client.get("/checkpoints/of/one").text
    assert "is not in the folders" in client.get("/checkpoints/of/other").text


def test_the_list_searches_the_runs_of_all_checkpoints_once(
    root: Path, client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[Sequence[Path]] = []

    def count(roots: Sequence[Path]) -> list[TrainingRun]:
        searched.append(roots)
        return list_runs(roots)

    monkeypatch.setattr(checkpoints, "list_runs", count)
    train(tiny_run(root / "run", tiny_dataset(tmp_path / "rows")))
    for name in ("one", "two"):
        write_checkpoint(root / name, training=TrainingFacts(run=read_facts(root / "run").identity, step=6))
    write_checkpoint(root / "other", training=TrainingFacts(run="0123456789abcdef"))
    assert client.get("/checkpoints").text.count('href="/training/runs?run=run"') == 2
    assert len(searched) == 1


def test_a_report_is_shown_with_its_plots_alone(root: Path, client: TestClient, tmp_path: Path) -> None:
    evaluation = Path(evaluate(write_checkpoint(root / "one"), root / "e", 30))
    (evaluation / "plots").mkdir()
    (evaluation / "plots" / "a.png").write_bytes(b"picture")
    (tmp_path / "secret.png").write_bytes(b"secret")
    (evaluation / "plots" / "link.png").symlink_to(tmp_path / "secret.png")
    (evaluation / "report.md").write_text(f"# Told\n\n![A](plots/a.png) ![B](http://evil/b.png) {SCRIPT}\n")
    page = client.get("/checkpoints/evaluations/e").text
    assert "<h2>Told</h2>" in page
    assert '<img src="/checkpoints/evaluations/e/plots/a.png" alt="A">' in page
    assert page.count("<img") == 1
    assert SCRIPT not in page
    assert client.get("/checkpoints/evaluations/e/plots/a.png").content == b"picture"
    for name in ("link.png", "..%2F..%2Ffigures.json", "%2Fetc%2Fpasswd", "no.png"):
        assert client.get(f"/checkpoints/evaluations/e/plots/{name}").status_code == 404


def test_checkpoints_stand_side_by_side_with_intervals(root: Path, client: TestClient) -> None:
    one, two = write_checkpoint(root / "one", 1), write_checkpoint(root / "two", 2, preset="small")
    folders = {each.name: [evaluate(each, root / f"e-{each.name}", n)] for each, n in ((one, 30), (two, 20))}
    evaluate(one, root / "alone", 10, judge="other")
    page = client.get("/checkpoints/compare?checkpoint=one&checkpoint=two").text
    for told in (
        "unpaired",
        "75.0 %",
        "50.0 %",
        "&#34;small&#34;",
        "training.step",
        f"kame evaluate compare one={root}",
    ):
        assert told in page
    assert "preset" in page
    assert "text_card" not in page  # of which both have the same
    assert "were made of one of them only" in page
    assert "Paired" not in page
    compare(folders, str(root / "compared"))
    page = client.get("/checkpoints/compare?checkpoint=one&checkpoint=two").text
    assert "Paired" in page
    assert "two − one" in page
    assert "Compared with others" in client.get("/checkpoints/of/one").text


@pytest.mark.parametrize(
    "query", ["checkpoint=one", "checkpoint=one&checkpoint=no", "", "checkpoint=one&checkpoint=.."]
)
def test_other_comparisons_are_refused(root: Path, client: TestClient, query: str) -> None:
    write_checkpoint(root / "one")
    assert client.get(f"/checkpoints/compare?{query}").status_code in (404, 422)


def test_what_files_hold_is_text(root: Path, client: TestClient) -> None:
    card = f"# {SCRIPT}\n\n[x](javascript:alert(1)) <img src=x onerror=alert(1)> ![{SCRIPT}](data:image/png;base64,x)"
    folder = write_checkpoint(
        root / HOSTILE, card=card, preset=SCRIPT, training=TrainingFacts(stage=SCRIPT, data=[SCRIPT], run=SCRIPT)
    )
    write_checkpoint(root / "one", 1)
    evaluate(folder, root / f"e {HOSTILE}", 3, set={"name": SCRIPT})
    address = f"/checkpoints/of/{quote(HOSTILE)}"
    pages = (
        "/checkpoints",
        address,
        f"/checkpoints/compare?checkpoint={quote(HOSTILE)}&checkpoint=one",
        f"/checkpoints/evaluations/{quote(f'e {HOSTILE}')}",
    )
    for path in pages:
        answer = client.get(path)
        assert answer.status_code == 200
        assert "<script>window" not in answer.text
        assert "<img src=x" not in answer.text
        assert 'href="javascript' not in answer.text
        assert "data:image" not in answer.text
    assert f'href="{address}"' in client.get("/checkpoints").text


@pytest.mark.parametrize("key", ["no", "..%2Fone", "%2Fetc", "one~..", "~one"])
def test_other_addresses_are_not_there(root: Path, client: TestClient, key: str) -> None:
    write_checkpoint(root / "one")
    write_checkpoint(root.parent / "outside")
    (root / "link").symlink_to(root.parent / "outside")
    assert client.get(f"/checkpoints/of/{key}").status_code == 404
    assert client.get(f"/checkpoints/evaluations/{key}").status_code == 404
    assert client.post(f"/checkpoints/of/{key}/talk", json={}, headers=WITH_TOKEN).status_code == 404
    assert client.get("/checkpoints/of/link").status_code == 404


def test_a_card_that_leads_out_of_the_folder_is_not_read(root: Path, client: TestClient, tmp_path: Path) -> None:
    folder = write_checkpoint(root / "one")
    (tmp_path / "secret.md").write_text("the secret")
    (folder / "README.md").unlink()
    (folder / "README.md").symlink_to(tmp_path / "secret.md")
    page = client.get("/checkpoints/of/one").text
    assert "the secret" not in page
    assert "Recall on held-out dialogues" in page  # told from kame.json instead


@pytest.mark.parametrize("facts", ["", "{", '{"format": 99}', "[" * 100_000])
def test_a_damaged_checkpoint_hides_no_other(root: Path, client: TestClient, facts: str) -> None:
    write_checkpoint(root / "one")
    (write_checkpoint(root / "two") / "kame.json").write_text(facts)
    page = client.get("/checkpoints").text
    assert "/checkpoints/of/one" in page
    assert "/checkpoints/of/two" not in page
    assert str(root / "two") in page
    assert client.get("/checkpoints/of/two").status_code == 500
    assert client.get("/checkpoints/of/one").status_code == 200


def test_a_checkpoint_that_is_being_copied_is_read_once_it_is_complete(root: Path, client: TestClient) -> None:
    weights = write_checkpoint(root / "one") / WEIGHTS
    weights.rename(root / "elsewhere")
    assert "/checkpoints/of/one" not in client.get("/checkpoints").text
    (root / "elsewhere").rename(weights)
    assert "/checkpoints/of/one" in client.get("/checkpoints").text


@pytest.mark.parametrize(
    "figures", ["", "[]", "[" * 100_000, '{"run": 1, "rows": []}', '{"run": {"kind": "compare"}, "rows": 1}']
)
def test_a_damaged_evaluation_hides_no_other(root: Path, client: TestClient, figures: str) -> None:
    one = write_checkpoint(root / "one")
    evaluate(one, root / "good", 30)
    (Path(evaluate(one, root / "bad", 30)) / "figures.json").write_text(figures)
    page = client.get("/checkpoints/of/one").text
    assert "/checkpoints/evaluations/good" in page
    assert "/checkpoints/evaluations/bad" not in page


class WaitingFiles(OwnFiles):
    """Weights that take as long to read as one wants."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.n_read = 0

    def read_digest(self, weights: Path) -> str:
        self.may_go_on.wait()
        self.n_read += 1
        return digest_files([weights])


def test_large_weights_are_read_once_while_the_page_says_so(root: Path, scheduler: KeptScheduler) -> None:
    evaluate(write_checkpoint(root / "one"), root / "e", 30)
    files = WaitingFiles()
    with open_client(root, scheduler, files=files) as client:
        for page in (client.get("/checkpoints/of/one").text, client.get("/checkpoints").text):
            assert 'data-alive="yes"' in page
        assert "are being read" in client.get("/checkpoints/of/one").text
        files.may_go_on.set()
        while "are being read" in (page := client.get("/checkpoints/of/one").text):
            pass
        assert 'data-alive="no"' in page
        assert "questions behind gpt" in page
    files.may_go_on.clear()
    with open_client(root, scheduler, files=files) as client:  # another dashboard finds what was written down
        assert "questions behind gpt" in client.get("/checkpoints/of/one").text
    assert files.n_read == 1


class FailingOnce(OwnFiles):
    """Weights that cannot be read the first time."""

    def __init__(self, error: Exception) -> None:
        self.errors = [error]

    def read_digest(self, weights: Path) -> str:
        if self.errors:
            raise self.errors.pop()
        return super().read_digest(weights)


@pytest.mark.parametrize("error", [StoreError("The disk is gone."), OSError("The disk is gone."), ValueError("odd")])
def test_weights_that_cannot_be_read_are_an_error_only_until_they_can(
    root: Path, tmp_path: Path, error: Exception
) -> None:
    write_checkpoint(root / "one")
    checkpoints = Checkpoints([root], FailingOnce(error), tmp_path / "cache")
    (one,) = checkpoints.list_checkpoints()
    with pytest.raises(StoreError, match=r"The disk is gone|could not be computed: ValueError"):
        checkpoints.find_digest(one, MOST_S)
    assert checkpoints.find_digest(one, MOST_S) == digest_files([root / "one" / WEIGHTS])


@pytest.mark.parametrize("address", ["/checkpoints", "/checkpoints/compare?checkpoint=one&checkpoint=two"])
def test_a_page_does_not_wait_for_weights_that_cannot_be_read(
    root: Path, scheduler: KeptScheduler, address: str
) -> None:
    for name in ("one", "two"):
        write_checkpoint(root / name)
    files = FailingOnce(ValueError("odd"))
    files.errors *= 1_000
    with open_client(root, scheduler, files=files) as client:
        assert any('data-alive="no"' in client.get(address).text for _ in range(100))


def test_a_press_starts_one_server_and_shows_it(root: Path, client: TestClient, scheduler: KeptScheduler) -> None:
    folder = write_checkpoint(root / "one")
    assert client.post("/checkpoints/of/one/talk", json={}, headers=WITH_TOKEN).json() == {"url": "/checkpoints/of/one"}
    assert scheduler.started == [("serve", {"checkpoint": str(folder), "port": 0})]
    scheduler.runs["s1"] = server(folder, state="pending", url="", name=SCRIPT)
    page = client.get("/checkpoints/of/one").text
    assert "is waiting for a worker" in page
    assert 'data-alive="yes"' in page
    assert SCRIPT not in page
    client.post("/checkpoints/of/one/talk", json={}, headers=WITH_TOKEN)
    assert len(scheduler.started) == 1
    scheduler.runs["s1"] = server(folder, url="")
    assert "is loading the checkpoint" in client.get("/checkpoints/of/one").text
    scheduler.runs["s1"] = server(folder)
    assert "http://127.0.0.1:4711" in client.get("/checkpoints/of/one").text
    assert client.post("/checkpoints/servers/s1/stop", json={}, headers=WITH_TOKEN).json()["url"].endswith("/of/one")
    assert scheduler.cancelled == ["s1"]


def test_another_checkpoints_server_and_one_that_broke_are_told(
    root: Path, client: TestClient, scheduler: KeptScheduler
) -> None:
    one, two = write_checkpoint(root / "one"), write_checkpoint(root / "two", 2)
    scheduler.runs["s1"] = server(one)
    page = client.get("/checkpoints/of/two").text
    assert "One server runs at a time" in page
    assert 'data-post="/checkpoints/of/two/talk"' in page
    scheduler.runs["s1"] = server(two, state="failed", url="", message=f"No chat model. {SCRIPT}")
    page = client.get("/checkpoints/of/two").text
    assert "The last server of this checkpoint failed: No chat model." in page
    assert SCRIPT not in page


def test_the_token_of_servers_is_given_for_the_dashboards_own_alone(
    root: Path, client: TestClient, scheduler: KeptScheduler
) -> None:
    folder = write_checkpoint(root / "one")
    scheduler.runs |= {
        "s1": server(folder),
        "s2": server(folder, settings={"checkpoint": str(folder), "care": {"token_env": "OTHER"}}),
        "s3": server(folder, url=""),
    }
    for path in ("/checkpoints/of/one", "/runs/s1"):
        page = client.get(path).text
        assert SERVE_TOKEN not in page
        assert quote(SERVE_TOKEN, safe="") not in page
        assert 'data-post="/checkpoints/servers/s1/enter"' in page
    entered = client.post("/checkpoints/servers/s1/enter", json={}, headers=WITH_TOKEN)
    assert entered.json() == {"url": "http://127.0.0.1:4711/#token=let%20me%2Ftalk"}
    assert entered.headers["Cache-Control"] == "no-store"
    others = client.post("/checkpoints/servers/s2/enter", json={}, headers=WITH_TOKEN)
    assert others.json() == {"url": "http://127.0.0.1:4711"}
    for run_id in ("s3", "r1", "nothing"):
        assert client.post(f"/checkpoints/servers/{run_id}/enter", json={}, headers=WITH_TOKEN).status_code == 404


@pytest.mark.parametrize("path", ["of/one/talk", "servers/s1/stop", "servers/s1/enter"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({"Authorization": "Bearer wrong"}, 401), (WITH_TOKEN | {"Origin": "http://evil.example"}, 403)],
)
def test_nothing_is_done_without_the_token_or_from_elsewhere(
    root: Path, client: TestClient, scheduler: KeptScheduler, path: str, headers: dict[str, str], status: int
) -> None:
    scheduler.runs["s1"] = server(write_checkpoint(root / "one"))
    answer = client.post(f"/checkpoints/{path}", json={}, headers=headers)
    assert answer.status_code == status
    assert "token=" not in answer.text
    assert (scheduler.started, scheduler.cancelled) == ([], [])


def test_only_servers_are_stopped_and_entered_here(client: TestClient, scheduler: KeptScheduler) -> None:
    assert client.post("/checkpoints/servers/r1/stop", json={}, headers=WITH_TOKEN).status_code == 404
    assert scheduler.cancelled == []


@pytest.mark.parametrize(
    ("url", "host", "shown", "is_elsewhere"),
    [
        ("http://127.0.0.1:4711", "192.0.2.7", "http://127.0.0.1:4711", True),
        ("http://0.0.0.0:4711", "192.0.2.7", "http://192.0.2.7:4711", False),
        ("http://127.0.0.1:4711", "localhost", "http://127.0.0.1:4711", False),
    ],
)
def test_a_server_that_the_browser_does_not_reach_is_told_as_such(
    root: Path, client: TestClient, scheduler: KeptScheduler, url: str, host: str, shown: str, is_elsewhere: bool
) -> None:
    scheduler.runs["s1"] = server(write_checkpoint(root / "one"), url=url)
    page = client.get("/checkpoints/of/one", headers={"Host": host}).text
    assert f"<code>{shown}</code>" in page
    assert ("can only be reached from its own machine" in page) == is_elsewhere


def test_without_prefect_the_page_says_what_to_type(root: Path, scheduler: KeptScheduler) -> None:
    folder = write_checkpoint(root / "my one")
    line = f"kame serve &#39;{folder}&#39;"
    with open_client(root, None) as client:
        page = client.get("/checkpoints/of/my%20one").text
        assert line in page
        assert "data-post" not in page
    scheduler.is_gone = True
    with open_client(root, scheduler) as client:
        page = client.get("/checkpoints/of/my%20one").text
        assert line in page
        assert "does not answer" in page


def test_a_read_only_dashboard_offers_no_press(root: Path, scheduler: KeptScheduler) -> None:
    write_checkpoint(root / "one")
    with open_client(root, scheduler, token=None) as client:
        assert "This dashboard is read-only" in client.get("/checkpoints/of/one").text
        assert client.post("/checkpoints/of/one/talk", json={}, headers=WITH_TOKEN).status_code == 403


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("<b>x</b>", "<p>&lt;b&gt;x&lt;/b&gt;</p>\n"),
        ("[x](/runs)", '<p><a class="no-link">x</a></p>\n'),
        ("<javascript:x>", '<p><a class="no-link">javascript:x</a></p>\n'),
        ("[x](HTTPS://a.b/?c)", '<p><a href="HTTPS://a.b/?c" rel="noreferrer nofollow">x</a></p>\n'),
        ('![a" onload=x](b.png)', "<p><em>a&quot; onload=x</em></p>\n"),
        ("---\ntags: [x]\n---\n# T", "<h2>T</h2>\n"),
        ("```<i>\n<i>\n```", '<pre tabindex="0"><code>&lt;i&gt;\n</code></pre>\n'),
        ("&lt;script&gt;", "<p>&lt;script&gt;</p>\n"),
    ],
)
def test_markdown_is_text_and_its_form(text: str, html: str) -> None:
    assert render_markdown(text) == html
