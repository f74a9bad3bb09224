"""The facts that identify a run: its configuration, vocabulary and codec, and digests; without importing torch."""

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
"""Settings that may change when a run is resumed: where, how and how long it is computed, how often it is evaluated,
and paths (the contents of datasets are compared by fingerprint, their weights by the loader; the weights of
`init_from`, which adapters need again, by digest). Another `max_steps` changes the rest of the cosine."""


class VocabularyAndCodec(Config):
    """The vocabulary and codec that a run's weights belong to."""

    tokenizer_digest: str
    text_card: int = Field(description="Size of the vocabulary.")
    codec_digest: str
    layout: CodeLayout = Field(description="Layout of the codes.")

    @classmethod
    def from_dataset(cls, dataset: "TokenDataset") -> Self:
        """Makes the facts of the vocabulary and codec of a dataset."""
        return cls(**{name: getattr(dataset, name) for name in cls.model_fields})


class RunFacts(Config):
    """`config.json` in a run's folder."""

    config: TrainConfig
    speaks_with: VocabularyAndCodec
    datasets: list[str] = Field(
        description="Fingerprints of the datasets of token rows, in the order of the mixture; empty for copying, "
        "which only uses their vocabulary and codec."
    )
    base_digest: str | None = Field(
        default=None, description="Digest of the initial weights, `config.init_from`; empty: random ones."
    )

    @property
    def identity(self) -> str:
        """Digest of what is trained, with which data and settings, and from which weights: 16 hexadecimal digits.

        The length of the run and all of `MAY_CHANGE`, including precision and device, are excluded.
        """
        return ids.digest("run", _flatten_identity(self), [each.weight for each in self.config.data.datasets])

    def list_differences(self, now: Self) -> list[str]:
        """Returns the settings that differ from those of another run and may not change, each with both values."""
        one, other = _flatten_identity(self), _flatten_identity(now)
        return [
            f"{name} was {one.get(name)} and is {other.get(name)}"
            for name in sorted(one.keys() | other.keys())
            if one.get(name) != other.get(name)
        ]


def read_facts(folder: str | Path) -> RunFacts:
    """Reads the facts of a run.

    Raises:
        DatasetError: the folder is not a run's, or of another version.
    """
    path = Path(folder) / CONFIG
    if not path.is_file():
        if any(next(each.glob(f"*/{CONFIG}"), None) for each in find_seed_folders(folder).values()):
            raise DatasetError(
                f"{folder} has not reached its last stage yet.",
                f"Run the `kame train` command that started it (--out {folder}) again.",
            )
        raise DatasetError(
            f"{folder} is not a training run: it has no {CONFIG}.", "Give a folder that `kame train` wrote."
        )
    try:
        return RunFacts.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise DatasetError(
            f"{path} cannot be read: {error}.", "The file is damaged, or of another version of kame."
        ) from error


def _flatten_identity(facts: RunFacts) -> dict[str, Any]:
    """Returns everything that must not change when a run is resumed, by dotted name."""
    flat = _flatten(facts.model_dump(mode="json"))
    return {name.removeprefix("config."): value for name, value in flat.items()}


def _flatten(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested settings by dotted name, without those in `MAY_CHANGE`."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        full = f"{prefix}{name}"
        if full.removeprefix("config.") not in MAY_CHANGE:
            found |= _flatten(value, f"{full}.") if isinstance(value, dict) else {full: value}
    return found
