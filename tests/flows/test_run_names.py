"""Names of runs, as they are counted by a real Prefect server."""

import re
from typing import Any

import pytest
from prefect import flow
from prefect.client.orchestration import get_client

from flows.run_names import MAX_NAME, make_namer, name_run

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("server")]


@pytest.mark.parametrize(
    ("kind", "settings", "begin"),
    [
        ("refresh", {"sources": [{"name": "gsm8k"}, {"name": "mmlu_pro"}]}, "refresh gsm8k+mmlu_pro"),
        ("speech", {"sources": [{"name": "gsm8k"}]}, "speech gsm8k"),
        ("train", {"datasets": ["/data/one", "two"], "preset": "small"}, "train small one+two"),
        ("train", {}, "train nano"),
        ("evaluate", {"kind": "recall", "checkpoint": "checkpoints/nano-1"}, "evaluate recall nano-1"),
        ("serve", {"checkpoint": "checkpoints/nano-1"}, "serve nano-1"),
    ],
)
def test_a_name_says_kind_content_and_day(kind: str, settings: dict[str, Any], begin: str) -> None:
    with get_client(sync_client=True) as client:
        assert re.fullmatch(re.escape(begin) + r" \d{4}-\d{2}-\d{2} #\d+", name_run(client, kind, settings))


def test_runs_of_a_day_are_numbered() -> None:
    @flow(flow_run_name=make_namer("refresh"))
    def refresh(config: dict[str, Any]) -> str:
        from prefect.runtime import flow_run

        return str(flow_run.name)

    settings = {"sources": [{"name": "counted"}]}
    assert [refresh(settings).rpartition(" ")[2] for _ in range(2)] == ["#1", "#2"]


def test_a_run_that_was_named_before_it_begins_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT__RUNTIME__FLOW_RUN__NAME", "refresh gsm8k 2026-11-22 #3")
    assert make_namer("refresh")() == "refresh gsm8k 2026-11-22 #3"


def test_a_long_list_of_sources_leaves_room_for_day_and_number() -> None:
    sources = [{"name": f"source-{number}"} for number in range(200)]
    with get_client(sync_client=True) as client:
        name = name_run(client, "refresh", {"sources": sources})
    assert re.fullmatch(rf".{{{MAX_NAME}}} \d{{4}}-\d{{2}}-\d{{2}} #1", name)
