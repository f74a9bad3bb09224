"""Oracles, which are simulated answers of a back-end over time: the row of an oracle shard."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleEvent:
    """What a back-end would have answered at `t_s`, having heard `n_words_heard` of the turn's `n_words` words.

    `speaker` is who will say the predicted words, which is not the speaker of the turn. `status`: `answered` by its own
    request; `shared` with the request of an earlier event of its level, `request_id`; `truth`, level 5; `failed`, then
    `text` is null and `error` says why. `attempt` is the number of attempts before the stored answer (0: the first
    answer was usable), null if no model answered. `answered_by` and `system_fingerprint` are those of the server's
    response; null if it had none. `taken_from` is the dialogue whose true answer a random text is.
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
    """A row of an oracle shard: a dialogue's events and the settings they were made with.

    With its dialogue, an event's `attempt` and the prompts' text (`prompts/<version>/<prompt_digest>.yaml`) each
    request can be reproduced byte by byte (`pipelines/quality/knowledge_rules.py`). `simulator` is `llm`, or `random`
    for true answers of other items; then `model` and `endpoint` say so too. `wanted_words` is null in older rows. This
    version has rows only for dialogues whose random draw is in [`share_from`, `share_to`)
    (`pipelines/oracle/share.py`).
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
