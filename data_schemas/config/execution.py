"""Where the stages that fill processors run, and what each of them takes there. None of it changes what is made."""

import re

from pydantic import Field

from data_schemas.config.base import Config

LOCAL = "local"
"""The executor that is this machine's processes."""

_EXECUTOR = re.compile(r"local|(?:dask|ray)://[^/\s:]+:(\d{1,5})")
_MAX_PORT = 65_535


def check_executor(text: str) -> str:
    """An executor's address as it is.

    Raises:
        ValueError: it is neither `local` nor the address of a Dask scheduler or a Ray head.
    """
    found = _EXECUTOR.fullmatch(text)
    if found is None or not 1 <= int(found[1] or 1) <= _MAX_PORT:
        raise ValueError(f"{text!r} is none of: local, dask://HOST:PORT, ray://HOST:PORT")
    return text


class StageResources(Config):
    """What one part of a stage takes of the machine that it is run on."""

    cores: float = Field(default=1.0, gt=0, le=256, description="Processor cores.")
    memory_gb: float = Field(default=1.0, ge=0, le=4096, description="Memory, 10^9 bytes; 0: not asked for.")
    gpus: float = Field(default=0.0, ge=0, le=16, description="GPUs; 0.25: four parts share one.")


class ResourcesConfig(Config):
    """What a part of each stage takes on a Dask or Ray cluster; processes of this machine are counted by `workers`.

    The defaults are for the embedded engines: a speech worker has been seen to grow to 1.9 GB.
    """

    script: StageResources = Field(default_factory=StageResources, description="Items to dialogues.")
    speech: StageResources = Field(
        default_factory=lambda: StageResources(memory_gb=2.5), description="Dialogues to speech, and hearing it again."
    )
    alignment: StageResources = Field(default_factory=StageResources, description="Speech to word times.")
    mixing: StageResources = Field(default_factory=StageResources, description="Utterances to two channels.")
    wait_s: float = Field(
        default=300.0, ge=0, le=86400, description="How long to wait for a worker that has all this, seconds."
    )

    def of(self, stage: str) -> StageResources:
        """What a part of that stage takes."""
        found: StageResources = getattr(self, stage)
        return found
