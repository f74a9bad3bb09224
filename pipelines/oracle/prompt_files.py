"""Stores the prompts of a dataset's oracles in the dataset: `prompts/<version>/<digest>.yaml`.

The digest in the name identifies the text, so a file needs no entry in the manifest, and the rows of a shard name their
own.
"""

import re

import yaml
from pydantic import ValidationError

from data_schemas.manifest import ORACLE, Manifest
from data_schemas.named_yaml import read_model
from data_schemas.store import Store
from pipelines.oracle.prompts import PromptSet, find_prompt_set

_PATH = re.compile(r"prompts/([^/]+)/([0-9a-f]{16})\.yaml")


def is_prompt_file(path: str) -> bool:
    """Returns whether the path of a file in a dataset is that of a prompt file; the file is not read."""
    return _PATH.fullmatch(path) is not None


def is_unchanged_prompt_file(store: Store, path: str) -> bool:
    """Returns whether a file is an unchanged prompt file: its prompts have the digest that is in its name."""
    found = _PATH.fullmatch(path)
    return found is not None and load_stored_prompts(store, found[1], found[2]) is not None


def make_prompts_path(version: str, digest: str) -> str:
    """Returns the path of the prompts with this digest in a dataset, for a version of its oracles."""
    return f"prompts/{version}/{digest}.yaml"


def write_prompts(store: Store, version: str, prompts: PromptSet) -> None:
    """Writes the prompt set of a version of the oracles into a dataset, unless its file exists unchanged."""
    path = make_prompts_path(version, prompts.digest)
    if load_stored_prompts(store, version, prompts.digest) is None:
        text = yaml.safe_dump(prompts.model_dump(), sort_keys=False, allow_unicode=True, width=120)
        store.write_bytes(path, text.encode())


def find_prompts(store: Store, version: str, digest: str) -> PromptSet | None:
    """Returns the prompt set with this digest: the one stored in the dataset, else a built-in one, else None."""
    return load_stored_prompts(store, version, digest) or find_prompt_set(digest)


def load_stored_prompts(store: Store, version: str, digest: str) -> PromptSet | None:
    """Returns the prompt set in a dataset's folder; None if its file is missing or was changed."""
    path = make_prompts_path(version, digest)
    if not store.exists(path):
        return None
    try:
        prompts = read_model(store.read_bytes(path).decode(), PromptSet)
    except (yaml.YAMLError, ValidationError, UnicodeDecodeError):
        return None  # reported by whoever needs it
    return prompts if prompts.digest == digest else None


def remove_unused_prompts(store: Store, manifest: Manifest) -> None:
    """Removes prompt files that no row of the dataset was made with."""
    used = {
        make_prompts_path(entry.oracle_version or "", digest)
        for entry in manifest.select_kind(ORACLE)
        for digest in set(store.read_table(entry.path, ["prompt_digest"])["prompt_digest"].to_pylist())
    }
    for path in store.list_files("prompts", ".yaml"):
        if is_prompt_file(path) and path not in used:
            store.remove(path)
