"""Provenance of a dataset beyond its rows: the records of its runs, and the texts of prompts."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dashboard.catalog import Dataset, MissingError
from data_schemas.errors import DatasetError

_RUNS, _PROMPTS = "runs", "prompts"


@dataclass(frozen=True, slots=True)
class RunFile:
    """Record of a run of `kame refresh` (`runs/<id>.json`); `content` is None if the file is damaged."""

    run_id: str
    content: Mapping[str, Any] | None

    def get_text(self, name: str) -> str:
        """Returns the value of a name as text; empty if it is missing, null, 0 or false, or the file is damaged."""
        return str((self.content or {}).get(name) or "")

    def get_section(self, name: str) -> Mapping[str, Any]:
        """Returns one of its groups of values; empty if it is missing."""
        found = (self.content or {}).get(name)
        return found if isinstance(found, Mapping) else {}

    @property
    def sources(self) -> list[str]:
        """Names of the question sets in the run's configuration; empty if the file is damaged."""
        sources = self.get_section("configuration").get("sources")
        named = [each.get("name") for each in sources if isinstance(each, Mapping)] if isinstance(sources, list) else []
        return [str(each) for each in named]


def list_run_files(dataset: Dataset, source: str | None = None) -> list[RunFile]:
    """Returns a dataset's runs, the newest first; with `source` only runs on that question set, and damaged ones."""
    files = sorted((dataset.folder / _RUNS).glob("*.json"), reverse=True)
    runs = [_read_run_file(dataset, each.stem) for each in files]
    return [run for run in runs if source is None or run.content is None or source in run.sources]


def read_run_file(dataset: Dataset, run_id: str) -> RunFile:
    """Returns a run of a dataset.

    Raises:
        MissingError: there is none of that name.
        DatasetError: its file is damaged.
    """
    known = {each.stem for each in (dataset.folder / _RUNS).glob("*.json")}
    if run_id not in known:
        raise MissingError(f"This dataset has no run {run_id!r}.", "A dialogue's page links to its runs.")
    run = _read_run_file(dataset, run_id)
    if run.content is None:
        raise DatasetError(f"{_RUNS}/{run_id}.json of {dataset.folder} is damaged.", "Delete it; it is not needed.")
    return run


def read_prompts(dataset: Dataset, version: str, digest: str) -> str | None:
    """Returns the YAML file of the prompts of an oracle version; None if the dataset has no such file."""
    try:
        return dataset.get_file(f"{_PROMPTS}/{version}/{digest}.yaml").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _read_run_file(dataset: Dataset, run_id: str) -> RunFile:
    """Reads the record of a run; its content is None if the file is missing or damaged."""
    try:
        content = json.loads(dataset.get_file(f"{_RUNS}/{run_id}.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return RunFile(run_id, None)
    return RunFile(run_id, content if isinstance(content, dict) else None)
