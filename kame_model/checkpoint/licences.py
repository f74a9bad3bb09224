"""Licences of what a checkpoint was made from: its training data, its initial weights, and the codec in its folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from data_schemas.errors import KameError
from data_schemas.store import Store
from kame_model.checkpoint.folder import locate_checkpoint, read_contents
from kame_model.checkpoint.kame_json import WEIGHTS_OF, KameJson, TrainingFacts
from kame_model.encode.manifest import read_manifest
from kame_model.train.run_facts import RunFacts, read_facts
from kame_model.train.run_folder import find_run

Licences = dict[str, str | None]
"""Licences by the name of what is licensed (a part): questions of a source, a voice, token rows, weights, a codec."""

_KYUTAI: Final = "kyutai/"
_KYUTAIS: Final = "CC-BY-4.0"
"""Licence of Kyutai's weights according to the model cards of their repositories."""


def collect_run_licences(facts: RunFacts) -> Licences:
    """Returns the licences, by part, of a run's data and initial weights, also of earlier runs; None: unknown."""
    found: Licences = {}
    for rows, fingerprint in zip(facts.config.data.datasets, facts.datasets, strict=False):  # no datasets: only copying
        found.update(_read_row_licences(rows.path, fingerprint))
    if facts.config.init_from is not None:
        found.update(_find_weight_licences(facts.config.init_from))
    return dict(sorted(found.items()))


def collect_licences(facts: KameJson) -> Licences:
    """Returns the licences, by part, of everything in a checkpoint's folder; None: unknown."""
    found = dict(_list_training_licences(facts.training))
    if facts.codec is not None and facts.codec.is_mimi and facts.codec.files != []:
        found["codec"] = None  # Kyutai's or the user's own: the file does not say
    return found


def _read_row_licences(folder: str, fingerprint: str) -> Licences:
    """Returns the licences, by part, in the manifest of token rows.

    If the folder no longer holds the rows with this fingerprint, or they have no licences, the rows are the only part,
    with None.
    """
    try:
        manifest = read_manifest(Store(folder))
    except KameError:
        return {f"token rows {fingerprint}": None}
    known = manifest.licences if manifest.fingerprint == fingerprint else None
    return {f"token rows {fingerprint}": None} if known is None else known


def _find_weight_licences(place: str) -> Licences:
    """Returns the licences, by part, of what initial weights were made from; None: unknown. Nothing is downloaded."""
    run = find_run(place)
    if run is None and not Path(place).expanduser().is_dir():
        # on the Hub, or deleted: no request, because it may be a local path
        return {f"{WEIGHTS_OF}{place}": _KYUTAIS if place.startswith(_KYUTAI) else None}
    try:
        if run is not None:
            return collect_run_licences(read_facts(run.folder))
        facts = read_contents(locate_checkpoint(place)).facts
    except KameError:
        facts = None  # damaged, of another version, or no longer a checkpoint
    return {f"{WEIGHTS_OF}{place}": None} if facts is None else dict(_list_training_licences(facts.training))


def _list_training_licences(training: TrainingFacts) -> Iterator[tuple[str, str | None]]:
    """Yields the recorded licences by part; if none were recorded, each known part with None."""
    if training.licences is not None:
        yield from training.licences.items()
        return
    yield from ((f"token rows {fingerprint}", None) for fingerprint in training.data)
    if training.init_from is not None:
        yield f"{WEIGHTS_OF}{training.init_from}", None
