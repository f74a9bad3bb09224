"""The pictures stage: a chat model with vision describes what a question needs from its picture, as text.

Only questions that depend on their picture are sent (`pipelines.script.picture_pointers` decides): one request for
each, and none for others. Without a model every item passes unchanged, and the script stage rejects those that need
their picture.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from backends.chat.client import ask_all
from backends.chat.protocol import ChatClient, ChatReply, Endpoint
from data_schemas import ids
from data_schemas.errors import RequestError
from data_schemas.records import Item, Reject
from pipelines.asking import read_prompt_texts
from pipelines.pictures.files import find_picture_file
from pipelines.script.picture_pointers import make_pictureless_question
from pipelines.script.rejections import NotAskable
from pipelines.stage import StageResult, make_reject
from spoken.reader import Unspeakable, speak
from spoken.spoken_text import find_last_words, split_lower_words

MAX_WORDS: Final = 60
"""A listener tolerates about twenty seconds of description before the question."""

MAX_ATTEMPTS: Final = 3
MAX_TOKENS: Final = 160
_MEDIA: Final = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}


class PictureUnread(Exception):
    """An unusable description; the message says why."""


class PicturesStage:
    """Fills `Item.picture_text`; rejects items whose picture is missing or cannot be described."""

    name: ClassVar[str] = "pictures"
    version: ClassVar[int] = 2
    inputs: ClassVar[tuple[str, ...]] = ("items",)
    input_types: ClassVar[tuple[type, ...]] = (Item,)
    output_type: ClassVar[type] = Item

    def __init__(self, folders: Mapping[str, str], endpoint: Endpoint | None) -> None:
        """Makes a stage for pictures in these folders, by source; without an endpoint use only `run`."""
        self._folders = folders
        self._endpoint = endpoint

    def get_fingerprint_fields(self) -> dict[str, Any]:
        """Returns what determines the outputs besides the inputs: model, prompt and limits, or no model."""
        if self._endpoint is None:
            return {"model": None}
        model = [self._endpoint.name, self._endpoint.model, self._endpoint.model_digest]
        return {
            "model": model,
            "prompt": ids.digest(read_prompt_texts("pipelines.pictures")),
            "attempts": MAX_ATTEMPTS,
            "words": MAX_WORDS,
        }

    def run(self, batch: Sequence[tuple[Item]]) -> StageResult[Item]:
        """Returns every item unchanged; no model is called."""
        return StageResult([item for (item,) in batch], [])

    async def run_with(self, batch: Sequence[tuple[Item]], client: ChatClient) -> StageResult[Item]:
        """Returns the items, with descriptions where needed; rejects have `picture_missing` or `picture_unread`.

        An item whose request failed is rejected too, and requested again by a later run.
        """
        result: StageResult[Item] = StageResult([], [])
        items = [item for (item,) in batch]
        found = await self._describe_all(items, client)
        n_to_retry = 0
        for item in items:
            outcome = found.get(item.item_id, item)
            n_to_retry += isinstance(outcome, RequestError)
            if isinstance(outcome, RequestError):
                result.rejects.append(make_reject(item, self.name, "picture_unread", f"request: {outcome.what}"))
            elif isinstance(outcome, Reject):
                result.rejects.append(outcome)
            else:
                result.outputs.append(outcome)
        return replace(result, n_to_retry=n_to_retry)

    async def _describe_all(self, items: Sequence[Item], client: ChatClient) -> dict[str, Item | Reject | RequestError]:
        """Returns, by item id, the outcome for each item that needs its picture.

        Unusable descriptions are requested again, up to `MAX_ATTEMPTS` times in all.
        """
        outcomes: dict[str, Item | Reject | RequestError] = {}
        payloads: dict[str, dict[str, Any]] = {}
        waiting = {item.item_id: item for item in items if item.picture is not None and _needs_picture(item)}
        for item_id, item in waiting.items():
            payload = self._make_payload(item)
            if isinstance(payload, Reject):
                outcomes[item_id] = payload
            else:
                payloads[item_id] = payload
        for attempt in range(MAX_ATTEMPTS):
            asked = [item_id for item_id in payloads if not isinstance(outcomes.get(item_id), Item | RequestError)]
            answers = await ask_all(
                client, [_make_attempt_payload(payloads[item_id], attempt) for item_id in asked], None, attempt
            )
            outcomes |= {
                each: self._check_outcome(waiting[each], answer) for each, answer in zip(asked, answers, strict=True)
            }
        return outcomes

    def _make_payload(self, item: Item) -> dict[str, Any] | Reject:
        """Returns the payload that requests a description, with the picture in it; a reject if there is no picture."""
        assert item.picture is not None
        folder = self._folders.get(item.source)
        if folder is None:
            return self._make_missing_reject(item, "no folder of pictures is given")
        media = _MEDIA.get(Path(item.picture).suffix.lower())
        file = find_picture_file(folder, item.picture)
        if item.picture_digest is None or media is None or file is None:
            return self._make_missing_reject(
                item, f"no such picture file ({', '.join(_MEDIA)}) inside the source's folder"
            )
        picture = base64.b64encode(file.read_bytes()).decode()
        prompt = read_prompt_texts("pipelines.pictures")
        content = [
            {"type": "image_url", "image_url": {"url": f"data:{media};base64,{picture}"}},
            {"type": "text", "text": prompt["request"].strip().replace("{question}", item.question)},
        ]
        messages = [{"role": "system", "content": prompt["system"].strip()}, {"role": "user", "content": content}]
        return {"messages": messages, "max_tokens": MAX_TOKENS, "temperature": 0.0}

    def _make_missing_reject(self, item: Item, why: str) -> Reject:
        return make_reject(item, self.name, "picture_missing", f"{item.picture}: {why}")

    def _check_outcome(self, item: Item, answer: ChatReply | RequestError) -> Item | Reject | RequestError:
        """Returns the item with the described picture, a reject if the description is unusable, or the error."""
        if isinstance(answer, RequestError):
            return answer
        try:
            return replace(item, picture_text=check_description(answer.text, item.answer))
        except PictureUnread as why:
            return make_reject(item, self.name, "picture_unread", f"{why}: {answer.text}")


def check_description(raw_text: str, answer: str) -> str:
    """Checks a model's description, and returns it with single spaces, for insertion into the question.

    If the true answer cannot be spoken, whether it is given away is not checked.

    Args:
        raw_text: what the model wrote.
        answer: the true answer as written, which must not be given away.

    Raises:
        PictureUnread: it is empty, longer than `MAX_WORDS`, cannot be spoken, or contains the answer.
    """
    text = " ".join(raw_text.split())
    try:
        words = split_lower_words(speak(text))
    except Unspeakable as refusal:
        raise PictureUnread(f"cannot be said, {refusal.reason}") from refusal
    if len(words) > MAX_WORDS:
        raise PictureUnread(f"{len(words)} words, at most {MAX_WORDS} are said")
    try:
        wanted = split_lower_words(speak(answer))
    except Unspeakable:
        return text  # an answer that cannot be spoken cannot be given away; the script stage rejects it
    if find_last_words(wanted, words) is not None:
        raise PictureUnread("gives the answer away")
    return text


def _needs_picture(item: Item) -> bool:
    """Returns whether the question cannot be asked without a description of its picture."""
    try:
        make_pictureless_question(item)
    except NotAskable:
        return True
    return False


def _make_attempt_payload(payload: dict[str, Any], attempt: int) -> dict[str, Any]:
    """Returns the payload with the temperature and seed of an attempt; the temperature is 0 at attempt 0.

    Later ones have a higher one, so that a deterministic server answers differently.
    """
    return payload | {"temperature": 0.4 * attempt, "seed": attempt}
