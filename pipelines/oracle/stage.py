"""The oracle stage: what a chat model would have answered at each tick of a turn."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from backends.chat.protocol import ChatClient, ChatReply, Endpoint
from data_schemas.config import OracleConfig
from data_schemas.errors import RequestError
from data_schemas.fingerprint import dump_relevant_fields
from data_schemas.records import Dialogue, OracleRow
from pipelines.asking import Usability, gather_all
from pipelines.oracle.events import RequestOutcome, add_row_or_reject, make_oracle_row
from pipelines.oracle.fit import FirstAnswers
from pipelines.oracle.plan import PlannedRequest, plan_dialogue
from pipelines.oracle.prompts import PromptSet, make_payload
from pipelines.oracle.share import select_share
from pipelines.oracle.validate import AnswerContext, Unusable, check_answer, is_as_long_as_wanted
from pipelines.stage import StageResult
from spoken.spoken_text import split_words


class OracleStage:
    """Requests the events of a batch from one endpoint; the client limits requests in flight and caches answers.

    An answer that is unusable, or shorter than `wanted_words`, is requested again, up to `max_asks` times. Then the
    longest usable one is kept. If there is none, or a request fails for good before there is one, the events are
    failed: without text, and with the reason. A later run repeats failed requests. A dialogue with too many failed
    events is rejected. The run stops if the back-end is lost, or if nearly none of its answers are usable.

    Raises:
        ConfigError: `both_directions` is configured, and the prompts have no texts for the user's words.
    """

    name: ClassVar[str] = "oracle"
    version: ClassVar[int] = 9
    inputs: ClassVar[tuple[str, ...]] = ("mixing",)
    input_types: ClassVar[tuple[type, ...]] = (Dialogue,)
    output_type: ClassVar[type] = OracleRow

    def __init__(self, config: OracleConfig, seed: int, endpoint: Endpoint, prompts: PromptSet) -> None:
        self.config = config
        self.seed = seed
        self.endpoint = endpoint
        self.prompts = prompts
        self._usability = Usability(endpoint)
        self._first_answers = FirstAnswers(endpoint.model, prompts.version)
        if config.both_directions:
            prompts.get_texts("B")  # raises now if there are none

    def get_fingerprint_fields(self) -> dict[str, Any]:
        """Returns what the fingerprint adds to the version and the inputs: configuration, seed, prompts and model."""
        return {
            "config": dump_relevant_fields(self.config),
            "seed": self.seed,
            "prompts": self.prompts.digest,
            "endpoint": [self.endpoint.name, self.endpoint.model, self.endpoint.model_digest],
        }

    async def run_with(self, batch: Sequence[tuple[Dialogue]], client: ChatClient) -> StageResult[OracleRow]:
        """Returns a row for each dialogue in this version's share, or a reject if too many of its events failed."""
        dialogues = select_share([dialogue for (dialogue,) in batch], self.config, self.seed)
        plans = [plan_dialogue(dialogue.turns, self.config) for dialogue in dialogues]
        requests = [request for plan in plans for request in plan.requests]
        answered: set[str] = set()
        answers = await gather_all([self._ask(request, client, answered) for request in requests])
        result: StageResult[OracleRow] = StageResult([], [], n_to_retry=sum(said.may_pass for said in answers))
        at = 0
        for dialogue, plan in zip(dialogues, plans, strict=True):
            own = answers[at : at + len(plan.requests)]
            at += len(plan.requests)
            row = make_oracle_row(dialogue, plan.events, own, self.config, self.endpoint, self.prompts, self.seed)
            add_row_or_reject(dialogue, row, self.config.max_failed_share, result)
        named = {event.request_id for row in result.outputs for event in row.events}
        result.other_request_ids.extend(sorted(answered - named))
        return result

    async def _ask(self, request: PlannedRequest, client: ChatClient, answered: set[str]) -> RequestOutcome:
        """Requests an answer, at most `max_asks` times, until one is as long as wanted.

        Returns that one, else the longest usable one, else a failure. The ids of all requests that were answered are
        added to `answered`.
        """
        instruction = self.prompts.get_texts(request.speaker).get_instruction_text(request.level)
        asked = AnswerContext(request.level, request.hint, instruction, " ".join([*request.history, request.heard]))
        longest, failed = None, RequestOutcome("failed")
        for attempt in range(self.config.max_asks):
            try:
                reply = await client.ask(make_payload(self.prompts, request, self.config, self.seed, attempt), attempt)
            except RequestError as error:
                self._usability.note(attempt, "no_answer", error.what)
                lost = replace(failed, error=f"request: {error.what}")  # keeps the answer before, if there is one
                return replace(longest or lost, may_pass=True)
            answered.add(reply.request_id)
            written = _make_unchecked_outcome(reply, attempt)
            try:
                text = _check_reply(reply, asked, self.config)
            except Unusable as fault:
                self._usability.note(attempt, fault.reason, reply.thought + reply.text)
                self._first_answers.note(attempt, request.level, fault.reason)
                failed = replace(written, error=f"asked {attempt + 1} times; {fault}"[:200])
                continue
            self._usability.note(attempt)
            self._first_answers.note(attempt, request.level)
            said = replace(written, status="answered", text=text)
            if is_as_long_as_wanted(text, asked, self.config):
                return said
            longest = said if longest is None else max(longest, said, key=_count_words)  # the first one of equals
        return longest or failed


def _make_unchecked_outcome(reply: ChatReply, attempt: int) -> RequestOutcome:
    """Returns the outcome of a reply that has not been checked yet: failed, without oracle text."""
    return RequestOutcome(
        "failed",
        raw_text=reply.thought + reply.text,
        request_id=reply.request_id,
        attempt=attempt,
        answered_by=reply.answered_by,
        system_fingerprint=reply.system_fingerprint,
    )


def _check_reply(reply: ChatReply, asked: AnswerContext, config: OracleConfig) -> str:
    """Returns the oracle text of an answer, without its reasoning.

    Raises:
        Unusable: nothing of it is usable as an oracle.
    """
    if reply.thought and not reply.text.strip():
        raise Unusable("only_thought", "it was cut off before it answered")
    return check_answer(reply.text, reply.finish_reason == "length", asked, config)


def _count_words(said: RequestOutcome) -> int:
    """Returns the number of words of an outcome's oracle text; 0 if it has none."""
    return len(split_words(said.text or ""))
