import json
from pathlib import Path

import pytest

from tests.support.golden_losses import COMMAND, golden_losses

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "nano_losses.json"


@pytest.mark.full
def test_losses_of_a_short_run_are_those_of_the_golden_file(tmp_path: Path) -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert golden["made_by"] == COMMAND
    found = golden_losses(tmp_path)
    assert len(found) == len(golden["steps"]) == 9
    for ours, theirs in zip(found, golden["steps"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3)
