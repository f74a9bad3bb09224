"""What a back-end would have answered, moment by moment: the row of an oracle shard."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleEvent:
    """What a back-end would have answered at `t_s`, having heard `n_words_heard` of the turn's `n_words` words.

    `speaker` is who will say the predicted words: the other one than the turn's. `status`: `answered` by its own
    request; `shared` with the request of an earlier event of its level, `request_id`; `truth`, level 5; `failed`, then
    `text` is null and `error` says why. `attempt` counts the asks before the one whose answer is stored (0: the first
    answer could stand), null where nobody answered. `answered_by` is the model that answered and `system_fingerprint`
    the state it was in, both as its server names them; null where it did not tell. `taken_from` is the dialogue whose
    true answer a random text is.
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
    attempt: int | None
    answered_by: str | None
    system_fingerprint: str | None
    taken_from: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleRow:
    """An oracle shard's row: a dialogue's events and what wrote them.

    With its dialogue, an event's `attempt` and the prompts' text (`prompts/<version>/<prompt_digest>.yaml`) each
    request can be made again, to the byte (`pipelines/quality/knowledge_rules.py`). `simulator` is `llm`, or `random`
    for true answers of other items; then `model` and `endpoint` say so too. `wanted_words` is null in rows from before
    it was a setting. This version has rows for the dialogues that draw a place in [`share_from`, `share_to`)
    (`pipelines/oracle/share.py`), and for no others.
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
    max_words: int
    min_words: int
    wanted_words: tuple[int, ...] | None = None
    share_from: float
    share_to: float
    seed: int
    events: tuple[OracleEvent, ...]
