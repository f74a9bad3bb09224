"""Uses the synthesiser's own word times if it reports them for every word of an utterance (Piper; see `Speech.words`).

It often does not: if eSpeak joins two words, neither has a time. Another aligner then aligns the utterance.
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
    """The aligner for utterances without the synthesiser's own times; further options are that aligner's."""

    model_config = ConfigDict(extra="allow")

    aligner: str = Field(default="pocketsphinx", description="Aligner of utterances without such times.")


class SynthesiserTimes:
    """Takes the place of an aligner, and is only called for utterances without the synthesiser's own times.

    Raises:
        ConfigError: the other aligner is not installed, rejects its options, or is this one.
    """

    name = "synthesiser"
    prefers_own_times = True

    def __init__(self, options: SynthesiserOptions) -> None:
        if options.aligner == self.name:
            raise ConfigError(f"The aligner {self.name!r} cannot be its own fallback.", "Set another.")
        self._other: Aligner = registry.build("aligner", options.aligner, options.model_extra or {})

    @property
    def digest(self) -> str:
        """Digest of the other aligner's name and digest, different from that digest itself."""
        return ids.digest("synthesiser's own times", 2, self._other.name, self._other.digest)

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of the other aligner, as any utterance may need it."""
        return self._other.languages

    def align(self, samples: Samples, sample_rate_hz: int, words: Sequence[str]) -> list[WordTiming]:
        """Returns the other aligner's times; its name is their `method`.

        Raises:
            AlignmentRefused, BackendError: as the other aligner.
        """
        return self._other.align(samples, sample_rate_hz, words)
