"""Makes oracle rows from planned events and their answers, for every simulator."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from backends.chat.protocol import Endpoint
from data_schemas.config import OracleConfig
from data_schemas.records import Dialogue, OracleEvent, OracleRow
from pipelines.oracle.plan import PlannedEvent
from pipelines.oracle.prompts import PromptSet
from pipelines.stage import StageResult, make_reject

TOO_MANY_FAILED = "too_many_failed_oracles"


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """The outcome of a request: the fields of `OracleEvent` with the same names.

    `may_pass` marks a failure that may not recur in another run.
    """

    status: str
    text: str | None = None
    raw_text: str | None = None
    request_id: str | None = None
    attempt: int | None = None
    answered_by: str | None = None
    system_fingerprint: str | None = None
    taken_from: str | None = None
    error: str | None = None
    may_pass: bool = False


def make_oracle_row(
    dialogue: Dialogue,
    planned: Sequence[PlannedEvent],
    answers: Sequence[RequestOutcome],
    config: OracleConfig,
    endpoint: Endpoint,
    prompts: PromptSet | None,
    seed: int,
) -> OracleRow:
    """Makes the oracle row of a dialogue from its planned events and the outcomes of their requests.

    Args:
        answers: outcome of each request, by the index that `PlannedEvent.request` names.
        prompts: the prompt set that was used; None if there was none.
    """
    first_of: set[int] = set()
    events = [
        _make_event(f"{dialogue.dialogue_id}-e{number}", each, answers, first_of) for number, each in enumerate(planned)
    ]
    return OracleRow(
        dialogue_id=dialogue.dialogue_id,
        split=dialogue.split,
        source=dialogue.source,
        oracle_version=config.version,
        simulator=config.simulator,
        endpoint=endpoint.name,
        model=endpoint.model,
        model_digest=endpoint.model_digest,
        prompt_version=prompts.version if prompts else "none",
        prompt_digest=prompts.digest if prompts else "none",
        interval_s=config.interval_s,
        level_bounds=tuple(config.level_bounds),
        max_requests_per_turn=config.max_requests_per_turn,
        both_directions=config.both_directions,
        max_tokens=config.max_tokens,
        temperature=config.temperature,
        max_asks=config.max_asks,
        max_words=config.max_words,
        min_words=config.min_words,
        wanted_words=tuple(config.wanted_words),
        share_from=config.share_from,
        share_to=config.share_to,
        seed=seed,
        events=tuple(events),
    )


def add_row_or_reject(
    dialogue: Dialogue, row: OracleRow, max_failed_share: float, result: StageResult[OracleRow]
) -> None:
    """Adds the row to `result.outputs`, or a reject to `result.rejects` if too many of its requested events failed.

    Args:
        max_failed_share: largest share of failed events with which the row is kept.
    """
    asked = [event for event in row.events if event.status != "truth"]
    failed = [event for event in asked if event.status == "failed"]
    if len(failed) > max_failed_share * len(asked):
        detail = f"{row.dialogue_id}, {row.oracle_version}: {len(failed)} of {len(asked)}; {failed[0].error}"
        result.rejects.append(make_reject(dialogue, "oracle", TOO_MANY_FAILED, detail))
    else:
        result.outputs.append(row)


def _make_event(
    event_id: str, planned: PlannedEvent, answers: Sequence[RequestOutcome], first_of: set[int]
) -> OracleEvent:
    """Makes an event with the outcome of its request, or with the true answer if it has no request.

    The index of its request is added to `first_of`; if it is there already and was answered, the status is `shared`.
    """
    said = RequestOutcome("truth", text=planned.truth)
    if planned.request is not None:
        said = answers[planned.request]
        if said.status == "answered" and planned.request in first_of:
            said = replace(said, status="shared")
        first_of.add(planned.request)
    return OracleEvent(
        event_id=event_id,
        t_s=planned.tick.t_s,
        speaker=planned.speaker,
        turn_index=planned.turn_index,
        n_words_heard=planned.tick.n_words_heard,
        n_words=planned.tick.n_words,
        r=planned.tick.r,
        level=planned.tick.level,
        status=said.status,
        text=said.text,
        raw_text=said.raw_text,
        request_id=said.request_id,
        attempt=said.attempt,
        answered_by=said.answered_by,
        system_fingerprint=said.system_fingerprint,
        taken_from=said.taken_from,
        error=said.error,
    )
