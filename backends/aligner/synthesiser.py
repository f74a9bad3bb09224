"""The synthesiser's own word times, where it tells them of every word of an utterance (Piper; see `Speech.words`).

It often does not: where eSpeak joins two words, neither has a time. Such an utterance is timed by another aligner.
"""

from collections.abc import Sequence

from pydantic import ConfigDict, Field

from backends import registry
from backends.aligner.protocol import Aligner
from backends.engine import Samples
from backends.options import Options
from data_schemas import ids
from data_schemas.errors import ConfigError
from data_schemas.records import WordTiming


class SynthesiserOptions(Options):
    """Who times the utterances of which the synthesiser does not tell all; further options are that aligner's."""

    model_config = ConfigDict(extra="allow")

    aligner: str = Field(default="pocketsphinx", description="Aligner of utterances without times of their own.")


class SynthesiserTimes:
    """Stands in the place of an aligner, and is asked only for what the synthesiser did not tell.

    Raises:
        ConfigError: the aligner named is not installed, does not take its options, or is this one.
    """

    name = "synthesiser"
    prefers_own_times = True

    def __init__(self, options: SynthesiserOptions) -> None:
        if options.aligner == self.name:
            raise ConfigError(f"The aligner {self.name!r} names itself for utterances without times.", "Name another.")
        self._other: Aligner = registry.build("aligner", options.aligner, options.model_extra or {})

    @property
    def digest(self) -> str:
        """Who times the rest."""
        return ids.digest("synthesiser's own times", 2, self._other.name, self._other.digest)

    @property
    def languages(self) -> tuple[str, ...]:
        """Those of the other aligner, for any utterance may need it."""
        return self._other.languages

    def align(self, samples: Samples, sample_rate_hz: int, words: Sequence[str]) -> list[WordTiming]:
        """The words' times by the other aligner, whose name is their `method`.

        Raises:
            AlignmentRefused, BackendError: as the other aligner's.
        """
        return self._other.align(samples, sample_rate_hz, words)
