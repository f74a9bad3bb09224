"""The manifest stands for the content of all files, in whatever order they were made."""

import pytest
from pydantic import ValidationError

from data_schemas.manifest import DatasetCounts, Manifest, ShardEntry, make_manifest

COUNTS = DatasetCounts(dialogues=2, audio_s=3.5, events=7, rejects=0)


def entry(path: str, **changes: object) -> ShardEntry:
    kept = {"path": path, "kind": "data", "source": "mine", "n_rows": 1, "n_bytes": 9, "sha256": "ab" * 32}
    return ShardEntry.model_validate(kept | changes)


def test_the_fingerprint_changes_with_content_and_names_and_not_with_the_order() -> None:
    first = make_manifest([entry("data/a.parquet")], COUNTS, "default").fingerprint
    assert make_manifest([entry("data/a.parquet", sha256="cd" * 32)], COUNTS, "default").fingerprint != first
    assert make_manifest([entry("data/b.parquet")], COUNTS, "default").fingerprint != first
    assert make_manifest([], COUNTS, "default").fingerprint != first
    assert make_manifest([entry("data/a.parquet")], COUNTS, "other").fingerprint == first
    one, other = entry("data/a.parquet"), entry("data/b.parquet")
    assert make_manifest([one, other], COUNTS, "default") == make_manifest([other, one], COUNTS, "default")


def test_entries_are_told_apart_by_kind() -> None:
    manifest = make_manifest([entry("b", kind="oracle"), entry("c"), entry("a")], COUNTS, "default")
    assert [each.path for each in manifest.select_kind("data")] == ["a", "c"]
    assert [each.path for each in manifest.select_kind("rejects")] == []


def test_a_manifest_with_a_field_nobody_knows_is_refused() -> None:
    with pytest.raises(ValidationError, match="extra"):
        Manifest.model_validate_json('{"extra": 1}')
