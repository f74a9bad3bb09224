"""What a run was begun with: its settings, what its weights speak with, and what stands for it; without torch."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, ValidationError

from data_schemas import ids
from data_schemas.code_layout import CodeLayout
from data_schemas.config import Config
from data_schemas.config.front_end import find_seed_folders
from data_schemas.config.training import TrainConfig
from data_schemas.errors import DatasetError

if TYPE_CHECKING:
    from kame_model.encode.token_dataset import TokenDataset

CONFIG = "config.json"
MAY_CHANGE = (
    "out",
    "max_steps",
    "max_hours",
    "hardware",
    "keep",
    "data.workers",
    "data.datasets",
    "tokenizer",
    "init_from",
)
"""Settings of which a run may be gone on with other values: where and how it is computed, how long, how often it is
looked at, and paths (the datasets' content is compared by fingerprint, their weights by the loader; what `init_from`
holds, which adapters need again, by digest). Another `max_steps` bends what is left of the cosine."""


class SpeaksWith(Config):
    """What a run's weights belong to; nothing else can go with them."""

    tokenizer_digest: str
    text_card: int = Field(description="Size of the vocabulary.")
    codec_digest: str
    layout: CodeLayout = Field(description="How the codes are read and said.")

    @classmethod
    def of(cls, dataset: "TokenDataset") -> Self:
        """What a dataset was encoded with."""
        return cls(**{name: getattr(dataset, name) for name in cls.model_fields})


class RunFacts(Config):
    """`config.json` of a run's folder."""

    config: TrainConfig
    speaks_with: SpeaksWith
    datasets: list[str] = Field(
        description="Fingerprints of the datasets of token rows, in the order of the mixture; none of copying alone, "
        "which takes only what they speak with."
    )
    base_digest: str | None = Field(
        default=None, description="Of the weights that the run began with, `config.init_from`; empty: random ones."
    )

    @property
    def identity(self) -> str:
        """Stands for what is trained, on what and how, rows and first weights by their digests: 16 hexadecimal digits.

        The run's length is left out, and so is all of `MAY_CHANGE`: precision and device too.
        """
        return ids.digest("run", _flatten_what_counts(self), [each.weight for each in self.config.data.datasets])

    def list_differences(self, now: Self) -> list[str]:
        """Settings that differ and matter, each with both values."""
        one, other = _flatten_what_counts(self), _flatten_what_counts(now)
        return [
            f"{name} was {one.get(name)} and is {other.get(name)}"
            for name in sorted(one.keys() | other.keys())
            if one.get(name) != other.get(name)
        ]


def read_facts(folder: str | Path) -> RunFacts:
    """What a run was begun with.

    Raises:
        DatasetError: the folder is no run's, or of another version.
    """
    path = Path(folder) / CONFIG
    if not path.is_file():
        if any(next(each.glob(f"*/{CONFIG}"), None) for each in find_seed_folders(folder).values()):
            raise DatasetError(f"{folder} has not come to its last stage so far.", "Let `kame train` go on with it.")
        raise DatasetError(
            f"{folder} is no training run: it has no {CONFIG}.", "Name a folder that `kame train` wrote."
        )
    try:
        return RunFacts.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise DatasetError(f"{path} cannot be read: {error}.", "It may be of another version of kame.") from error


def _flatten_what_counts(facts: RunFacts) -> dict[str, Any]:
    """Everything that a run is gone on with only as it was, by dotted name."""
    flat = _flatten(facts.model_dump(mode="json"))
    return {name.removeprefix("config."): value for name, value in flat.items()}


def _flatten(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in settings.items():
        full = f"{prefix}{name}"
        if full.removeprefix("config.") not in MAY_CHANGE:
            found |= _flatten(value, f"{full}.") if isinstance(value, dict) else {full: value}
    return found
