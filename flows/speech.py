"""Prefect flow that makes hours of the assistant's voice: the tasks of `flows/runs/speech.py`, with progress.

A run that crashed or was cancelled resumes after its last part when it is started again with the same parameters.
"""

from typing import Any
from uuid import UUID

from prefect import flow
from prefect.artifacts import create_progress_artifact, create_table_artifact, update_progress_artifact

from data_schemas.config.speech_rows import SpeechRowsConfig
from flows.prefect_tasks import run_as_task
from flows.run_names import make_namer
from flows.runs.speech import SpeechResult, run_speech


@flow(name="speech", flow_run_name=make_namer("speech"), persist_result=False)
def speech(config: SpeechRowsConfig) -> SpeechResult:
    """Makes hours of the assistant's voice as token rows. Running it again resumes; more hours add parts.

    Args:
        config: Settings: sources, voice, hours and folder. Paths are as the worker sees them.
    """
    shown: Any = create_progress_artifact(0.0, key="speech", description=f"{config.hours:g} hours of {config.out}")
    made_s = 0.0

    def advance(seconds: float) -> None:
        """Advances the progress artifact by seconds of speech."""
        nonlocal made_s
        made_s += seconds
        assert isinstance(shown, UUID)
        update_progress_artifact(shown, min(100.0, made_s / 36 / config.hours))

    made = run_speech(config, advance, run_as_task)
    rows = [{"reason": reason, "sentences": n} for reason, n in made.refused.most_common()]
    create_table_artifact(rows, key="speech-refused", description=f"Rejected sentences of {config.out}")
    return made
