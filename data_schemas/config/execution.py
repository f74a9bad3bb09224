"""Executor and resources of the stages that need processors. These settings do not change the output."""

import re

from pydantic import Field

from data_schemas.config.base import Config

LOCAL = "local"
"""The executor that uses processes of this machine."""

_EXECUTOR = re.compile(r"local|(?:dask|ray)://[^/\s:]+:(\d{1,5})")
_MAX_PORT = 65_535


def check_executor(text: str) -> str:
    """Returns the address of an executor unchanged.

    Raises:
        ValueError: if it is neither `local` nor the address of a Dask scheduler or a Ray head.
    """
    found = _EXECUTOR.fullmatch(text)
    if found is None or not 1 <= int(found[1] or 1) <= _MAX_PORT:
        raise ValueError(f"{text!r} is not an executor; use local, dask://HOST:PORT or ray://HOST:PORT")
    return text


class StageResources(Config):
    """Resources that one part of a stage requests."""

    cores: float = Field(default=1.0, gt=0, le=256, description="Number of processor cores.")
    memory_gb: float = Field(default=1.0, ge=0, le=4096, description="Memory in 10^9 bytes; 0: not requested.")
    gpus: float = Field(default=0.0, ge=0, le=16, description="Number of GPUs; 0.25: four parts share one GPU.")


class ResourcesConfig(Config):
    """Resources of one part of each stage on a Dask or Ray cluster; on this machine, `workers` sets the processes.

    The defaults are for the embedded engines: a speech worker was measured at up to 1.9 GB.
    """

    script: StageResources = Field(default_factory=StageResources, description="Stage script: items to dialogues.")
    speech: StageResources = Field(
        default_factory=lambda: StageResources(memory_gb=2.5),
        description="Stage speech: text-to-speech and its checks by a recogniser.",
    )
    alignment: StageResources = Field(default_factory=StageResources, description="Stage alignment: word timings.")
    mixing: StageResources = Field(
        default_factory=StageResources, description="Stage mixing: utterances to two channels."
    )
    wait_s: float = Field(
        default=300.0, ge=0, le=86400, description="Timeout in seconds for a worker with these resources to appear."
    )

    def get_stage_resources(self, stage: str) -> StageResources:
        """Returns the resources of one part of that stage."""
        found: StageResources = getattr(self, stage)
        return found
