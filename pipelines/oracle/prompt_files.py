"""The text of the prompts that a dataset's oracles were asked with, in the dataset: `prompts/<version>/<digest>.yaml`.

The digest in the name stands for the text, so a file needs no line in the manifest, and a row of a shard names its own.
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
    """Whether a file of a dataset is one of these, by its name."""
    return _PATH.fullmatch(path) is not None


def is_as_named(store: Store, path: str) -> bool:
    """Whether such a file holds the prompts whose digest is in its name."""
    found = _PATH.fullmatch(path)
    return found is not None and load_stored_prompts(store, found[1], found[2]) is not None


def make_prompts_path(version: str, digest: str) -> str:
    """Where prompts of a version stand in a dataset: not among its shards, which tools read by the folder."""
    return f"prompts/{version}/{digest}.yaml"


def write_prompts(store: Store, version: str, prompts: PromptSet) -> None:
    """Lays down a prompt set that oracles were made with; one that stands is left as it is."""
    path = make_prompts_path(version, prompts.digest)
    if load_stored_prompts(store, version, prompts.digest) is None:
        text = yaml.safe_dump(prompts.model_dump(), sort_keys=False, allow_unicode=True, width=120)
        store.write_bytes(path, text.encode())


def find_prompts(store: Store, version: str, digest: str) -> PromptSet | None:
    """The prompts that rows of a version were asked with: the dataset's own, else one of our sets; None: neither."""
    return load_stored_prompts(store, version, digest) or find_prompt_set(digest)


def load_stored_prompts(store: Store, version: str, digest: str) -> PromptSet | None:
    """The prompt set in a dataset's folder; None where its file is missing or was changed."""
    path = make_prompts_path(version, digest)
    if not store.exists(path):
        return None
    try:
        prompts = read_model(store.read_bytes(path).decode(), PromptSet)
    except (yaml.YAMLError, ValidationError, UnicodeDecodeError):
        return None  # who needs it says so: nothing can be checked against it
    return prompts if prompts.digest == digest else None


def remove_unused_prompts(store: Store, manifest: Manifest) -> None:
    """Removes the files of prompts that no row of the dataset was asked with."""
    used = {
        make_prompts_path(entry.oracle_version or "", digest)
        for entry in manifest.select_kind(ORACLE)
        for digest in set(store.read_table(entry.path, ["prompt_digest"])["prompt_digest"].to_pylist())
    }
    for path in store.files("prompts", ".yaml"):
        if is_prompt_file(path) and path not in used:
            store.remove(path)
