"""LLM as a judge: a chat model rates answers, or decides whether they agree with a reference answer.

Ratings are MT-Bench's (Zheng et al., "Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena", arXiv 2306.05685): one
answer at a time, the second turn within its conversation, beside a reference where there is one. FastChat's prompts
(`fastchat/llm_judge/data/judge_prompts.jsonl`) are read by path; kame's, for transcripts, have the same names.

FastChat takes the first number between brackets, or -1. Here a rating counts only if it is the judge's own and the only
one; every other reply has no rating and is counted by its fault.
"""

import asyncio
import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal

import yaml
from pydantic import Field, ValidationError

from backends import registry
from backends.chat.budget import check_price, compute_usd, set_run_id, sum_known
from backends.chat.cache import ReplyCache
from backends.chat.client import OpenAIChatClient, ask_all
from backends.chat.limits import Pace
from backends.chat.protocol import ChatEngine, ChatReply, Endpoint
from backends.chat.providers import get_price
from backends.chat.thoughts import split_thought
from data_schemas import ids
from data_schemas.config import PriceConfig
from data_schemas.config.base import Config
from data_schemas.config.judge import JudgeConfig
from data_schemas.errors import AnswerRefused, ConfigError, RequestError
from spoken.refusals import find_refusal

LOWEST, HIGHEST = 1.0, 10.0
RATINGS: Final = ("single-v1", "single-math-v1", "single-v1-multi-turn", "single-math-v1-multi-turn")
"""FastChat's names of its prompts that rate one answer; those with `math` have a reference answer."""
JUDGEMENTS: Final = "judgements.sqlite"
VERDICT: Final = "verdict"
RELEVANCE: Final = "relevance"
LEAST_RELEVANT, MOST_RELEVANT = 0.0, 5.0
_OURS: Final = files("kame_model.evaluate") / "judge_prompts.yaml"

Fault = Literal["", "missing", "refused", "several", "out_of_range", "failed", "unheard"]
"""Why there is no judgement: no mark in the requested format; none, because the judge refused; different marks; a
number outside the scale; the request failed permanently, and is retried in the next run; the recogniser rejected the
answer's audio, so that there was nothing to judge. Empty: there is a judgement."""

_MARK: Final = re.compile(r"\[\[([^\[\]]*)\]\]")
_NUMBER: Final = re.compile(r"\d{1,3}(?:\.\d+)?")
_CODE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_QUOTE: Final = re.compile(
    r"^[ \t]*>.*$"  # a quoted line
    r"|(?<!\w)\"(?=\S)[^\"]*\"|“[^”]*”|«[^»]*»"
    r"|(?<!\w)['‘](?!(?:tis|twas|twere|twill|til|em|cause|\d+s)\b)(?=\S)[^\n]*?(?<=\S)['’](?!\w)",  # not "'Tis"
    re.MULTILINE | re.IGNORECASE,
)
_SENTENCE_END: Final = re.compile(r"\n|(?<!\.)(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\bcf)(?<!\bca)[.!?][*_)]*\s+")
"""Not after an ellipsis, which may introduce a quotation, or an abbreviation."""

_LABELLED: Final = re.compile(
    r"(?:\d+\.)?[\s*_#(•–—-]*(?:(?:overall|therefore|thus|so|finally|in summary|in conclusion)[,:]?\s+)?"
    r"(?:(?:(?:my|the)\s+)?(?:(?:final|overall|total)\s+){0,2}(?:rating|score|verdict|judge?ment)"
    r"(?:\s+for\s+(?:this|the)\s+\w+)?[*_]*(?:\s+is)?)?[\s*_:=–—-]*",
    re.IGNORECASE,
)
"""What precedes a mark in the requested form: nothing, or a label such as "Final rating: "."""
_NOT_ITS_OWN: Final = re.compile(r"[.,!?*_]*[\"'”’»]|\W*?\s(?:is|was|would|are|were)\b", re.IGNORECASE)
"""What follows a mark at the end of a quotation, or one that is itself a subject: "[[10]] is what it asks for"."""
_QUOTED_LINE: Final = re.compile(
    rf"""[\s*_]*["'“‘`](?P<line>{_LABELLED.pattern}{_MARK.pattern}[\s*_.]*)["'”’`][\s*_.]*""", re.IGNORECASE
)
"""A line with only a mark in quotation marks or code, as some models write the requested format."""
_HIDDEN: Final = "…"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A rating, or whether an answer agrees with the reference; None: there is none, and `fault` says why. `reply` is
    what the judge wrote."""

    value: float | bool | None
    fault: Fault = ""
    reply: ChatReply | None = field(default=None, compare=False, repr=False)


def read_rating(text: str, lowest: float = LOWEST, highest: float = HIGHEST) -> Judgement:
    """Parses the rating in a judge's reply: `[[7]]`, a number from `lowest` to `highest`, integer or decimal.

    A judgement without a rating has one of the faults "missing", "refused", "several" and "out_of_range".

    A mark counts only in the requested form: at the start of a sentence or line, alone or after a label ("Final rating:
    [[7]]", "My rating is [[7]]"); or alone on the last line, also in quotation marks or code. Other sentences ("I'd
    give it a [[7]]") could be about the answer's own rating. Reasoning (`<think>`), other quotations and code, and
    quoted lines are ignored. All marks count that follow such a mark in its sentence. The same rating twice counts
    once; several different ones are invalid, and so are `[[ 7 ]]`, `[[7/10]]`, `[[seven]]`, `[7]` and `7/10`.
    """
    numbers = {float(mark) for mark in _find_marks(text) if _NUMBER.fullmatch(mark)}
    if len(numbers) != 1:
        return Judgement(None, "several" if numbers else _classify_missing_mark(text))
    (number,) = numbers
    return Judgement(number) if lowest <= number <= highest else Judgement(None, "out_of_range")


def read_verdict(text: str) -> Judgement:
    """Parses `[[correct]]` or `[[incorrect]]` in a judge's reply, case-insensitively, as True or False.

    Without exactly one of them the value is None, with the fault "missing", "refused" or "several".
    """
    marks = {mark.lower() for mark in _find_marks(text)} & {"correct", "incorrect"}
    if len(marks) != 1:
        return Judgement(None, "several" if marks else _classify_missing_mark(text))
    return Judgement(marks == {"correct"})


def _find_marks(text: str) -> list[str]:
    """Returns the contents of the double brackets that count, by the rule in `read_rating`, in order."""
    lines = split_thought(text)[1].rstrip().splitlines()
    if lines and (last := _QUOTED_LINE.fullmatch(lines[-1])):
        lines[-1] = last["line"]
    own = _QUOTE.sub(_hide, _CODE.sub(_HIDDEN, "\n".join(lines)))
    return [mark for sentence in _SENTENCE_END.split(own) for mark in _find_marks_of_sentence(sentence)]


def _hide(quotation: re.Match[str]) -> str:
    """Returns the text that replaces a quotation; it ends a sentence if the quotation does."""
    return f"{_HIDDEN}." if quotation[0][-2:-1] in {".", "!", "?"} else _HIDDEN


def _find_marks_of_sentence(sentence: str) -> list[str]:
    """Returns the marks of a sentence that begins with one in the requested form; else none."""
    marks = list(_MARK.finditer(sentence))
    first = marks[0] if marks else None
    if first is None or not _LABELLED.fullmatch(sentence[: first.start()]):
        return []
    return [] if _NOT_ITS_OWN.match(sentence[first.end() :]) else [each[1] for each in marks]


def _classify_missing_mark(text: str) -> Fault:
    """Returns why a reply has no mark: the judge refused, or did not write one in the requested format."""
    return "refused" if find_refusal(split_thought(text)[1]) else "missing"


class JudgePrompt(Config):
    """A judge's prompt; the template has field names in braces."""

    system: str
    template: str


class JudgePrompts(Config):
    """The prompts of one file, by FastChat's names."""

    version: str = Field(description="Name of this version of the prompts in reports.")
    prompts: dict[str, JudgePrompt]

    def make_messages(self, name: str, fields: Mapping[str, str]) -> list[dict[str, str]]:
        """Fills a prompt and returns the messages of a request.

        Raises:
            ConfigError: the template has an unknown field, or is malformed.
        """
        prompt = self.prompts[name]
        try:
            request = prompt.template.format(**fields)
        except (LookupError, ValueError) as error:
            raise ConfigError(
                f"The judge's prompt {name!r} of {self.version} cannot be filled: {error}.",
                f"Its template may have the fields {', '.join('{' + field + '}' for field in fields)}.",
            ) from error
        return [{"role": "system", "content": prompt.system.strip()}, {"role": "user", "content": request.strip()}]


def load_judge_prompts(path: str) -> JudgePrompts:
    """Loads kame's prompts (`path` is empty), a YAML file in the same format, or FastChat's judge_prompts.jsonl.

    A file needs the four prompts of `RATINGS`; if it has no `verdict` or `relevance`, kame's own is used.

    Raises:
        ConfigError: the file cannot be read, or a prompt is missing.
    """
    shipped = _read_prompts(_OURS.read_text(encoding="utf-8"), "ours")
    if not path:
        return shipped
    try:
        text = Path(path).read_text(encoding="utf-8")
        read = _read_fastchat if path.endswith(".jsonl") else _read_prompts
        given = read(text, Path(path).name)
    except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError, ValidationError) as error:
        raise ConfigError(
            f"The judge's prompts in {path} cannot be read: {error}.",
            "Use FastChat's judge_prompts.jsonl or a YAML file like kame_model/evaluate/judge_prompts.yaml.",
        ) from error
    if lacking := [name for name in RATINGS if name not in given.prompts]:
        raise ConfigError(f"{path} lacks the judge's prompts {', '.join(lacking)}.", "Add them under these names.")
    return given.model_copy(
        update={"prompts": {**{name: shipped.prompts[name] for name in (VERDICT, RELEVANCE)}, **given.prompts}}
    )


def _read_prompts(text: str, name: str) -> JudgePrompts:
    """Parses prompts in kame's format (YAML); `name` becomes their version."""
    return JudgePrompts.model_validate({"version": name, **yaml.safe_load(text)})


def _read_fastchat(text: str, name: str) -> JudgePrompts:
    """Parses the rows of type `single` of FastChat's file; pairwise comparison is not supported."""
    rows = [row for line in text.splitlines() if line.strip() and (row := json.loads(line))["type"] == "single"]
    prompts = {row["name"]: {"system": row["system_prompt"], "template": row["prompt_template"]} for row in rows}
    return JudgePrompts.model_validate({"version": f"{name} (FastChat's)", "prompts": prompts})


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """A request to a judge: the prompt's name, the fields of its template, and how the reply is parsed."""

    prompt: str
    fields: Mapping[str, str]
    read: Callable[[str], Judgement]


def make_rating_request(
    questions: Sequence[str], answers: Sequence[str], references: Sequence[str] = ()
) -> JudgeRequest:
    """Makes the request to rate the last of one or two answers from 1 to 10, with FastChat's names of prompts and
    fields.

    Args:
        questions: one or two questions.
        answers: the answer to each.
        references: the reference answer to each; empty: there are none.
    """
    prompt = "single-math-v1" if references else "single-v1"
    fields = {"question": questions[-1], "answer": answers[-1]}
    for name, texts in (("question", questions), ("answer", answers), ("ref_answer", references)):
        fields |= {f"{name}_{number}": text for number, text in enumerate(texts, start=1)}
    return JudgeRequest(f"{prompt}-multi-turn" if len(questions) > 1 else prompt, fields, read_rating)


def make_verdict_request(question: str, reference: str, answer: str) -> JudgeRequest:
    """Makes the request to decide whether an answer agrees with the reference."""
    return JudgeRequest(VERDICT, {"question": question, "reference": reference, "answer": answer}, read_verdict)


def make_relevance_request(context: str, interruption: str, answer: str) -> JudgeRequest:
    """Makes the request to rate the relevance of an answer to an interruption, from 0 to 5.

    Args:
        context: what the user said before.
        interruption: what the user said when interrupting.
    """
    fields = {"context": context, "interruption": interruption, "answer": answer}
    return JudgeRequest(RELEVANCE, fields, lambda text: read_rating(text, LEAST_RELEVANT, MOST_RELEVANT))


class Judge:
    """Requests judgements from one chat model, through the client that caches every reply. Not for use in event loops.

    Args:
        endpoint: the chat model's server.
        config: prompts, sampling and budget.
        cache: cache of replies; an equal request is never made twice.

    Attributes:
        prompts: the judge's prompts.

    Raises:
        ConfigError: the prompts cannot be read, or there is a budget in dollars but no price.
    """

    def __init__(self, endpoint: Endpoint, config: JudgeConfig, cache: ReplyCache) -> None:
        self.prompts = load_judge_prompts(config.prompts)
        self._endpoint, self._config, self._cache = endpoint, config, cache
        self._pace = Pace(config.chat)
        check_price(endpoint, get_price(config.chat, endpoint.model), config.budget)

    def describe(self) -> dict[str, Any]:
        """Returns everything that affects a judgement, as JSON values."""
        return {
            "endpoint": self._endpoint.name,
            "model": self._endpoint.model,
            "model_digest": self._endpoint.model_digest,
            "prompts": self.prompts.version,
            "prompts_digest": ids.digest(self.prompts.model_dump()),
            "max_tokens": self._config.max_tokens,
            "temperature": 0.0,
        }

    def judge(self, requests: Sequence[JudgeRequest], on_done: Callable[[], None] = lambda: None) -> list[Judgement]:
        """Returns the judgements in the order of the requests, which are made concurrently.

        A failed request has a judgement without a value, with the fault. It must not be called in an event loop.

        Args:
            on_done: called after each judgement.

        Raises:
            BackendError, BudgetError, StoreError: as `OpenAIChatClient.ask`; replies received so far are cached.
            ConfigError: a prompt has an unknown field.
        """
        payloads = [
            {
                "messages": self.prompts.make_messages(each.prompt, each.fields),
                "max_tokens": self._config.max_tokens,
                "temperature": 0.0,
            }
            for each in requests
        ]

        async def ask() -> list[ChatReply | RequestError]:
            config = self._config
            async with OpenAIChatClient(
                self._endpoint, config.chat, self._cache, budget=config.budget, pace=self._pace
            ) as client:
                return await ask_all(client, payloads, lambda index, outcome: on_done())

        replies = asyncio.run(ask()) if payloads else []
        return [
            Judgement(None, _classify_fault(reply))
            if isinstance(reply, RequestError)
            else replace(each.read(reply.text), reply=reply)
            for each, reply in zip(requests, replies, strict=True)
        ]


def _classify_fault(error: RequestError) -> Fault:
    """Returns why a failed request gave no judgement: the judge refused, or the request failed."""
    return "refused" if isinstance(error, AnswerRefused) else "failed"


def sum_costs(asked: Iterable[Mapping[str, Any]], price: PriceConfig | None) -> dict[str, Any]:
    """Sums the token usage and price of requests; each counts once, even if several runs of an evaluation made it.

    Args:
        asked: records with `n_tokens_in`, `n_tokens_cached` and `n_tokens_out`, and optionally the number of requests
            (`n_requests`, default 1); records with the same `request_id` count once.

    Returns:
        The sums, and `usd`. Unknown values are None: the price, or the number of cached tokens.
    """
    each = list({one.get("request_id") or f"#{number}": one for number, one in enumerate(asked)}.values())
    n_in, n_out = (sum(one[name] for one in each) for name in ("n_tokens_in", "n_tokens_out"))
    n_cached = sum_known(one["n_tokens_cached"] for one in each)
    return {
        "n_requests": sum(one.get("n_requests", 1) for one in each),
        "n_tokens_in": n_in,
        "n_tokens_cached": n_cached,
        "n_tokens_out": n_out,
        "usd": round(compute_usd(price, n_in, n_cached, n_out), 6) if price else None,
    }


def describe_reply(reply: ChatReply | None) -> dict[str, Any] | None:
    """Returns the text and token usage of a judge's reply, for the record of the item; None if there was no reply."""
    if reply is None:
        return None
    names = ("request_id", "n_tokens_in", "n_tokens_cached", "n_tokens_out", "answered_by")
    return {"text": reply.text, **{name: getattr(reply, name) for name in names}}


@contextmanager
def open_judge(config: JudgeConfig, out: str) -> Iterator[Judge]:
    """Context manager that yields a judge; a server that is started for it is stopped afterwards.

    Args:
        config: the judge's chat model, prompts and budget.
        out: the evaluation's folder, which also has the cache of replies.

    Raises:
        ConfigError: as `Judge`, or the chat engine is unknown.
        BackendError: the endpoint is unavailable, or rejects the API key or the model.
    """
    load_judge_prompts(config.prompts)  # fails before a server is started
    engine: ChatEngine = registry.load("chat", config.chat.engine)(config.chat)
    with (
        set_run_id(f"judging-{uuid.uuid4().hex[:12]}"),
        engine.serve() as endpoint,
        ReplyCache(Path(out) / JUDGEMENTS) as cache,
    ):
        yield Judge(endpoint, config, cache)
