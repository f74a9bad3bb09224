"""Descriptive names of runs, such as `refresh gsm8k+mmlu_pro 2026-11-22 #3`."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName

_NUMBERED_NAME = re.compile(r".+ \d{4}-\d{2}-\d{2} #\d+")
MAX_NAME = 160


def name_run(client: SyncPrefectClient, kind: str, settings: Mapping[str, Any]) -> str:
    """Returns the name of a new run: its kind, its subject, the date (UTC), and a number.

    Kind and subject are cut to `MAX_NAME` characters. The number is one more than the count of existing runs with the
    same kind, subject and date in their names.
    """
    description = " ".join(filter(None, (kind, _describe(kind, settings))))[:MAX_NAME]
    begin = f"{description} {datetime.now(UTC):%Y-%m-%d}"
    same = FlowRunFilter(name=FlowRunFilterName(like_=f"{begin} #"))
    return f"{begin} #{client.count_flow_runs(flow_run_filter=same) + 1}"


def make_namer(kind: str) -> Callable[[], str]:
    """Returns the function that Prefect calls to name a run by `name_run`; a run that has such a name keeps it."""

    def name() -> str:
        """Names the current flow run by its parameters."""
        from prefect.runtime import flow_run

        if _NUMBERED_NAME.fullmatch(str(flow_run.name)):
            return str(flow_run.name)
        config = flow_run.parameters.get("config", {})
        settings = config if isinstance(config, Mapping) else config.model_dump(mode="json")
        with get_client(sync_client=True) as client:
            return name_run(client, kind, settings)

    return name


def _describe(kind: str, settings: Mapping[str, Any]) -> str:
    """Returns the subject of a run in a few words; it may be empty.

    It has the sources of a refresh or of speech, preset and datasets of a training, kind and checkpoint of an
    evaluation, or the checkpoint of a server.
    """
    if kind in ("refresh", "speech"):
        return "+".join(_get_last_part(each["name"]) for each in settings.get("sources", ()))
    if kind == "train":
        datasets = "+".join(map(_get_last_part, settings.get("datasets", ())))
        return " ".join(filter(None, (settings.get("preset", "nano"), datasets)))
    of = _get_last_part(settings.get("checkpoint", ""))
    return f"{settings.get('kind', 'duplex')} {of}" if kind == "evaluate" else of


def _get_last_part(path: str) -> str:
    """Returns the last component of a path, a dataset's name on the Hub, or a question set's name."""
    return PurePath(path).name
