"""Licences of what a checkpoint was made from: what it learnt from, the weights it began with, the codec beside it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from data_schemas.errors import KameError
from data_schemas.store import Store
from kame_model.checkpoint.folder import find_place, read_contents
from kame_model.checkpoint.kame_json import KameJson, TrainingFacts
from kame_model.encode.manifest import read_manifest
from kame_model.train.run_facts import RunFacts, read_facts
from kame_model.train.run_folder import find_run

Licences = dict[str, str | None]

_KYUTAI: Final = "kyutai/"
_KYUTAIS: Final = "CC-BY-4.0"
"""Licence of Kyutai's weights, by the cards of their repositories."""


def run_licences(facts: RunFacts) -> Licences:
    """Licences by part of what a run, and those that it began with, learnt from; None: not known."""
    found: Licences = {}
    for rows, fingerprint in zip(facts.config.data.datasets, facts.datasets, strict=False):  # copying alone has none
        found.update(_of_rows(rows.path, fingerprint))
    if facts.config.init_from is not None:
        found.update(_of_weights(facts.config.init_from))
    return dict(sorted(found.items()))


def checkpoint_licences(facts: KameJson) -> Licences:
    """Licences by part of all that is in a checkpoint's folder; None: not known."""
    found = dict(_of_training(facts.training))
    if facts.codec is not None and facts.codec.is_mimi and facts.codec.files != []:
        found["codec"] = None  # Kyutai's, or one's own: the file does not tell
    return found


def _of_rows(folder: str, fingerprint: str) -> Licences:
    """As the rows' manifest tells, if it is still the one that was trained on."""
    try:
        manifest = read_manifest(Store(folder))
    except KameError:
        return {f"token rows {fingerprint}": None}
    known = manifest.licences if manifest.fingerprint == fingerprint else None
    return {f"token rows {fingerprint}": None} if known is None else known


def _of_weights(place: str) -> Licences:
    run = find_run(place)
    if run is not None:
        return run_licences(read_facts(run.folder))
    if not Path(place).expanduser().is_dir():  # of the Hub, or gone since; nobody is asked about what may be a path
        return {f"weights of {place}": _KYUTAIS if place.startswith(_KYUTAI) else None}
    try:
        facts = read_contents(find_place(place)).facts
    except KameError:
        facts = None  # it is damaged, or no checkpoint any more
    return {f"weights of {place}": None} if facts is None else dict(_of_training(facts.training))


def _of_training(told: TrainingFacts) -> Iterator[tuple[str, str | None]]:
    if told.licences is not None:
        yield from told.licences.items()
        return
    yield from ((f"token rows {fingerprint}", None) for fingerprint in told.data)
    if told.init_from is not None:
        yield f"weights of {told.init_from}", None
