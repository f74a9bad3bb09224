"""What a back-end would have answered, moment by moment: the row of an oracle shard."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleEvent:
    """What a back-end would have answered at `t_s`, having heard `n_words_heard` of the turn's `n_words` words.

    `speaker` is who will say the predicted words: the other one than the turn's. `status`: `answered` by its own
    request; `shared` with the request of an earlier event of its level, `request_id`; `truth`, level 5; `failed`, then
    `text` is null and `error` says why.
    """

    event_id: str
    t_s: float
    speaker: str = "A"
    turn_index: int
    n_words_heard: int
    n_words: int
    r: float
    level: int
    status: str
    text: str | None
    raw_text: str | None
    request_id: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleRow:
    """An oracle shard's row: a dialogue's events, what wrote them, and all it takes to make each request again.

    `simulator` is `llm`, or `random` for true answers of other items; then `model` and `endpoint` say so too, and an
    event's `request_id` is the dialogue that its text was taken from.
    """

    dialogue_id: str
    split: str
    source: str
    oracle_version: str
    simulator: str
    endpoint: str | None
    model: str | None
    model_digest: str | None
    prompt_version: str
    prompt_digest: str
    interval_s: float
    level_bounds: tuple[float, ...]
    max_requests_per_turn: int
    both_directions: bool
    max_tokens: int
    temperature: float
    max_asks: int
    seed: int
    events: tuple[OracleEvent, ...]
