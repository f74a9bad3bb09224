"""Other people's code that lies in the repository: as published, with its licence."""

import hashlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "dashboard" / "static" / "vendor", ROOT / "tests" / "support" / "vendor")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_vendored_files_are_what_their_list_says(folder: Path) -> None:
    listed = json.loads((folder / "VENDORED.json").read_text(encoding="utf-8"))
    named = {each[name] for each in listed for name in ("file", "licence_file")}
    assert {each.name for each in folder.iterdir()} == {*named, "VENDORED.json"}
    for each in listed:
        assert hashlib.sha256((folder / each["file"]).read_bytes()).hexdigest() == each["sha256"], each["file"]
        assert re.fullmatch(r"\d+\.\d+\.\d+", each["version"])


def test_pages_load_nothing_from_elsewhere() -> None:
    dashboard = ROOT / "dashboard"
    files = [*(dashboard / "templates").glob("*.html"), *(dashboard / "static").glob("*.[cj]s*")]
    found = {
        (file.name, address)
        for file in files
        for address in re.findall(r"(?:src|href|url|import|from)\s*[=(]?\s*[\"'](https?:[^\"']*)", file.read_text())
    }
    assert len(files) > 10
    assert found == set()
