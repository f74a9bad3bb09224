"""What the dashboard refuses: other names, other pages, no token, paths, scripts, long requests, hostile values."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from dashboard.forms import ROW as BLANK
from dashboard.forms import Node, Rows, Section, build_form, read_form
from dashboard.runs import KINDS
from data_schemas.flags import read_flagged
from data_schemas.store import Store
from tests.support.dashboards import SCRIPT, TOKEN, client_of, dialogues, write_small

pytestmark = pytest.mark.full
ROW = dialogues()[0][0].dialogue_id
FLAG = f"/datasets/small/dialogues/{ROW}/flag"
WITH_TOKEN = {"Authorization": f"Bearer {TOKEN}"}
ADDRESSED = {"Host": "localhost", **WITH_TOKEN}
FLAG_OPERATION = "/datasets/{key}/dialogues/{dialogue_id}/flag"
WANTED = {"is_flagged": True, "reason": "hiss"}
KNOWN = {"key": "small", "dialogue_id": ROW, "kind": "refresh"}
"""Values of parameters of addresses, for which something is there."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("access")
    write_small(folder / "root" / "small")
    (folder / "secret.txt").write_text("nobody should read this")
    return folder / "root"


@pytest.fixture(scope="module")
def client(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with client_of(root, tmp_path_factory.mktemp("cache")) as client:
        while client.get("/datasets/small").status_code == 202:  # its index is being made
            pass
        yield client


def test_every_answer_lets_a_page_load_nothing_but_ours(client: TestClient) -> None:
    for path in ("/", "/datasets/small/rows", "/nothing", "/static/dashboard.css", "/healthz"):
        policy = client.get(path).headers["Content-Security-Policy"]
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        assert rules["default-src"] == "'none'"
        assert rules["script-src"] == "'self'"
        assert "unsafe" not in policy
        assert rules["frame-ancestors"] == "'none'"


def test_no_page_has_a_script_or_style_in_its_text(client: TestClient) -> None:
    for path in ("/", "/datasets/small", "/datasets/small/rows", "/datasets/small/sql", FLAG.removesuffix("/flag")):
        text = client.get(path).text
        assert text.count("<script") == text.count('<script src="/static/') + text.count('<script type="module" src=')
        assert " style=" not in text
        assert "<style" not in text
        assert " onclick=" not in text


@pytest.mark.parametrize("path", ["rows", "rejects", "dialogues/mine-2-v0", "rows?q=%3Cscript%3Ealert(1)%3C/script%3E"])
def test_what_data_and_addresses_hold_is_text(client: TestClient, path: str) -> None:
    answer = client.get(f"/datasets/small/{path}")
    assert answer.status_code == 200
    assert SCRIPT not in answer.text
    assert "<script>" not in answer.text
    assert "&lt;script&gt;" in answer.text


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example:80"])
def test_another_name_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8990", "[::1]:8990", "LOCALHOST:1", "10.1.2.3"])
def test_its_own_names_are_not(client: TestClient, host: str) -> None:
    assert client.get("/healthz", headers={"Host": host}).json()["status"] == "ok"


@pytest.mark.parametrize(
    "headers", [{}, {"Origin": "http://localhost"}, {"Sec-Fetch-Site": "same-origin", "Origin": "https://team.example"}]
)
def test_a_flag_is_set_and_taken_away(client: TestClient, root: Path, headers: dict[str, str]) -> None:
    store = Store(str(root / "small"))
    set_ = client.post(FLAG, json=WANTED, headers=WITH_TOKEN | headers)
    assert set_.json() == {"dialogue_id": ROW, "flag": "hiss"}
    assert read_flagged(store) == {ROW: "hiss"}
    assert ROW in client.get("/datasets/small/rows?flag=hiss").text
    cleared = client.post(FLAG, json={"is_flagged": False}, headers=WITH_TOKEN | headers)
    assert cleared.json()["flag"] is None
    assert read_flagged(store) == {}


def test_without_a_token_nothing_can_be_changed_and_pages_say_so(root: Path, tmp_path: Path) -> None:
    with client_of(root, tmp_path, token=None) as client:
        assert client.post(FLAG, json=WANTED, headers=WITH_TOKEN).status_code == 403
        assert "read-only" in client.get("/").text


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"is_flagged": 3}', b'{"is_flagged": true, "path": "/etc/passwd"}'])
def test_a_body_that_is_no_flag_is_refused(client: TestClient, body: bytes) -> None:
    headers = WITH_TOKEN | {"Content-Type": "application/json"}
    assert client.post(FLAG, content=body, headers=headers).status_code == 422


def test_a_long_body_is_refused_however_it_is_sent(client: TestClient) -> None:
    assert client.post(FLAG, content=b"x" * 70_000, headers=WITH_TOKEN).status_code == 413
    pieces = (b"x" * 10_000 for _ in range(10))
    assert client.post(FLAG, content=pieces, headers=WITH_TOKEN).status_code == 413


@pytest.mark.parametrize(
    "path",
    [
        "/datasets/../secret.txt",
        "/datasets/..%2fsecret.txt/rows",
        "/datasets/%2e%2e/rows",
        "/datasets/small/dialogues/..%2f..%2fsecret.txt/sound",
        "/static/..%2f..%2fsecret.txt",
        "/static/../templates/base.html",
        "/static/%2e%2e/app.py",
        "/datasets/small~../rows",
    ],
)
def test_paths_lead_nowhere_else(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert "nobody should read this" not in answer.text
    assert "import" not in answer.text


def test_another_servers_page_cannot_run_a_query(client: TestClient) -> None:
    path = "/datasets/small/sql/result.json?query=select+1"
    assert client.get(path, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert client.get(path, headers={"Sec-Fetch-Site": "same-origin"}).json()["rows"] == [["1"]]


def test_errors_are_a_page_for_people_and_json_for_programs(client: TestClient) -> None:
    page = client.get("/datasets/nothing")
    assert page.status_code == 404
    assert "There is no dataset" in page.text
    told = client.get("/datasets/small/rows?wer=x", headers={"Accept": "application/json"})
    assert told.status_code == 400
    assert told.json()["remedy"].startswith("Write it as")


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/datasets/nothing", "/runs/nothing", "/runs?page=0", "/runs?page=10001", "/compare?page=x",
     "/datasets/small/rows?page=0", "/datasets/small/rows?page=1000000000"],
)  # fmt: skip
def test_every_error_says_what_to_do(client: TestClient, path: str) -> None:
    assert client.get(path, headers={"Accept": "application/json"}).json()["remedy"]


def test_a_failure_that_nobody_foresaw_is_told_and_its_page_loads_nothing_else(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("dashboard.pages.datasets.read_totals")
    page = client.get("/datasets/small")
    assert page.status_code == 500
    assert "The dashboard failed to answer: NameError." in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]


def test_another_method_is_answered_with_the_right_one(client: TestClient) -> None:
    wrong = client.post("/healthz", headers=WITH_TOKEN | {"Accept": "application/json"})
    assert (wrong.status_code, wrong.json()["remedy"]) == (405, "Use GET.")


def test_every_operation_answers_whatever_it_is_asked(client: TestClient) -> None:
    asked = set()
    for result in schemathesis.openapi.from_asgi("/openapi.json", client.app, headers=ADDRESSED).get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        modes = [GenerationMode.POSITIVE, *([GenerationMode.NEGATIVE] if list(operation.body) else [])]
        for mode in modes if next(operation.iter_parameters(), None) else []:

            @settings(max_examples=8, database=None)
            @given(case=operation.as_strategy(generation_mode=mode))
            def ask(case: "schemathesis.Case[Any]") -> None:
                assert case.call(headers=ADDRESSED).status_code < 500

            ask()
        asked.add(operation.label)
    assert {f"POST {FLAG_OPERATION}", "POST /start/{kind}", "POST /runs/{run_id}/cancel"} <= asked


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Bearer {TOKEN[:-1]}"}, 401),
        ({"Authorization": f"Bearer {TOKEN}!"}, 401),
        ({"Authorization": "Bearer ü".encode()}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        (WITH_TOKEN | {"Origin": "http://evil.example"}, 403),
        (WITH_TOKEN | {"Origin": "null"}, 403),
        (WITH_TOKEN | {"Origin": "http://localhost:81"}, 403),
        (WITH_TOKEN | {"Sec-Fetch-Site": "cross-site"}, 403),
        (WITH_TOKEN | {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost"}, 403),
    ],
)
def test_no_operation_changes_anything_without_the_token_or_from_elsewhere(
    client: TestClient, headers: dict[str, Any], status: int
) -> None:
    """Of all operations there are, so of those that are added too."""
    paths = client.get("/openapi.json").json()["paths"]
    posted = {path: operations["post"] for path, operations in paths.items() if "post" in operations}
    assert "/start/{kind}" in posted
    assert all(set(operations) <= {"get", "post"} for operations in paths.values())
    for path, operation in posted.items():
        named = {each["name"]: KNOWN.get(each["name"], "r1") for each in operation.get("parameters", ())}
        assert client.post(path.format(**named), json={}, headers=headers).status_code == status, path


TEXTS = ("1e999", "-0", "nan", "9" * 400, "../../etc/passwd", "\0", "\ud800", "{}" * 40, "[" * 2000, "&a [*a, *a]",
         "!!python/object/apply:os.system [ls]", "a: 1\na: 2", "$(reboot)", "'; --", "__n__", "on", " ")  # fmt: skip
HOSTILE = st.text(max_size=20) | st.sampled_from(TEXTS)


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_forms_are_started_whole_or_refused(client: TestClient, kind: str) -> None:
    """Whatever is typed into any field: the server answers, and no run begins with settings that do not hold."""
    known = sorted(_list_paths(build_form(KINDS[kind].config, {})))

    def ask(values: dict[str, Any], cron: str, to: str) -> None:
        body = json.dumps({"values": values} if to else {"values": values, "cron": cron})
        headers = WITH_TOKEN | {"Content-Type": "application/json"}
        answer = client.post(f"/start/{kind}{to}", content=body, headers=headers)
        assert answer.status_code in (200, 400, 413, 422), answer.text
        if answer.status_code == 200 and not to:
            KINDS[kind].config.model_validate(read_form(KINDS[kind].config, values)[0])

    for text in TEXTS:
        ask({text: "as a name"}, "", "/check")
        n_fields = max(1, min(len(known), 40_000 // (len(json.dumps(text)) + 60)))  # a request has its limit
        for first in range(0, len(known), n_fields):
            ask(dict.fromkeys(known[first : first + n_fields], text), "", "/check")
    values = st.dictionaries(
        st.sampled_from(known) | HOSTILE, HOSTILE | st.booleans() | st.lists(HOSTILE, max_size=3), max_size=5
    )
    several = given(
        values=values, cron=st.sampled_from(["", "* * * * *"]) | HOSTILE, to=st.sampled_from(["", "/check"])
    )
    settings(max_examples=20, database=None)(several(ask))()


def _list_paths(nodes: Sequence[Node]) -> Iterator[str]:
    """Every path that a form's page can send, rows by the number 0."""
    for node in nodes:
        yield node.path.replace(BLANK, "0")
        yield from _list_paths(node.nodes if isinstance(node, Section) else ())
        yield from _list_paths([node.blank] if isinstance(node, Rows) else ())


NAMES = st.sampled_from(["q", "sort", "page", "columns", "form", "duration_s", "wer", "oracles", "level"])
VALUES = st.text(max_size=12) | st.sampled_from(
    ["-wer", "1..2", "nan..inf", "-1", "9" * 30, "'; --", "../..", "\0", "%", "__class__"]
)


@given(
    path=st.sampled_from(["rows", "rejects", "rows.csv", "rejects.parquet", f"dialogues/{ROW}"]),
    pairs=st.lists(st.tuples(NAMES, VALUES), max_size=4),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_hostile_views_are_shown_or_refused(client: TestClient, path: str, pairs: list[tuple[str, str]]) -> None:
    query = urlencode(pairs, errors="replace")
    assert client.get(f"/datasets/small/{path}?{query}").status_code in (200, 400, 404)
