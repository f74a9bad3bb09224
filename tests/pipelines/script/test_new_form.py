"""A form added as docs/extending.md says works in a whole run, and makes no dataset anew while its share is 0."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from data_schemas import ids
from data_schemas.config import FormsConfig, ScriptConfig
from pipelines.script.stage import ScriptStage

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "extending.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.partition("\n## A form\n")[2].partition("\n## ")[0], re.S | re.M)
AFTER_FIELDS = '    @model_validator(mode="after")\n    def _check_any('
RUN = """
import json, sys
from pathlib import Path
from data_schemas.config import FormsConfig, FormShares
from data_schemas.reader import DatasetReader
from flows.runs.refresh import run_refresh
from pipelines.figures import collect_figures
from pipelines.quality.check import check
from pipelines.run.stages import describe_stages
from tests.support.runs import Silent, config_on_doubles

out = Path(sys.argv[1])
config = config_on_doubles(out)
as_before = describe_stages(config)["script"].get_fingerprint_fields()
shares = FormShares(**dict.fromkeys(FormShares.model_fields, 0.0) | {"repeat": 1.0})
run_refresh(config.model_copy(update={"forms": FormsConfig(shares=shares), "limit": 4}), Silent())
forms = collect_figures(DatasetReader(str(out))).forms
print(json.dumps({"fields": as_before, "forms": forms, "faults": len(check(str(out)))}))
"""


@pytest.mark.full
def test_a_form_added_as_the_docs_say_is_made_and_at_share_0_changes_no_fingerprint(tmp_path: Path) -> None:
    for package in ("data_schemas", "pipelines"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    file, line = BLOCKS
    (tmp_path / "pipelines" / "script" / "forms" / "repeat.py").write_text(file, encoding="utf-8")
    shares = tmp_path / "data_schemas" / "config" / "script.py"
    text = shares.read_text(encoding="utf-8")
    assert text.count(AFTER_FIELDS) == 1
    shares.write_text(text.replace(AFTER_FIELDS, f"{line}\n{AFTER_FIELDS}"), encoding="utf-8")

    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    command = [sys.executable, "-c", RUN, str(tmp_path / "out")]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert set(told["forms"]) == {"repeat"}
    assert told["faults"] == 0
    assert told["fields"] == ScriptStage(ScriptConfig(), FormsConfig(), 1.0, 0).get_fingerprint_fields()


@pytest.mark.parametrize(
    ("shares", "digest"),
    [({}, "a77b295ffe632a26"), ({"interruption": 0.0, "plain": 0.4}, "92b6c3ee36939e61")],
    ids=["as they come", "one form never"],
)
def test_what_forms_bring_to_a_fingerprint_is_what_it_was(shares: dict[str, float], digest: str) -> None:
    """As it was before a form could be added: datasets that were made then are not made anew."""
    config = FormsConfig.model_validate({"shares": shares})
    assert ids.digest(ScriptStage(ScriptConfig(), config, 1.0, 0).get_fingerprint_fields()["forms"]) == digest
