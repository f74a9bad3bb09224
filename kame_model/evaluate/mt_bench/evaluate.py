"""Evaluates a server with spoken MT-Bench: both turns of a question in one call, each answer rated from 1 to 10.

It follows KAME's paper (arXiv 2510.02327): MT-Bench's reasoning, STEM and humanities, made speakable and spoken, six
runs, a chat model as judge. The paper does not define voices, judge and where an answer ends. Here an answer is all
that the assistant says from the question's last audible sound, as in `questions`, to the start of the next question.
Three texts of each answer are rated separately:

score         the recogniser's transcript of its audio
score_text    its own text: the inner monologue, or the cascade's words
score_oracle  the last oracle of the turn, as far as it was fed, as text: the upper bound (7.79 in the paper)

An empty answer (no word was recognised, or no text) gets the lowest rating, 1, without a request to the judge. One that
repeats itself in a loop (`is_degenerate`) is counted, and rated by the judge as any other. An answer without a valid
rating of the judge is excluded from all means, and its fault is counted.

Conversations are stored before they are judged, so another judge can reuse them. The run itself is
`calls.run.run_calls`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from backends import registry
from backends.asr.protocol import Recogniser
from backends.tts.protocol import SpeechRefused
from data_schemas import ids
from data_schemas.config.mt_bench import MtBenchConfig
from data_schemas.units import SAMPLE_RATE_HZ
from kame_model.evaluate.answers.heard_words import count_word_errors
from kame_model.evaluate.answers.scoring import is_degenerate, normalise
from kame_model.evaluate.calls.asking_voices import AskingVoices
from kame_model.evaluate.calls.call import Call, CalledServer
from kame_model.evaluate.calls.delays import find_audible_spans, measure_delays
from kame_model.evaluate.calls.run import (
    CallCondition,
    Counting,
    Item,
    Record,
    describe_run,
    run_calls,
    show_no_progress,
    transcribe,
)
from kame_model.evaluate.judge import LOWEST, Judgement, JudgeRequest, make_rating_request
from kame_model.evaluate.mt_bench.questions import MtBenchQuestion, read_questions
from kame_model.evaluate.mt_bench.report import SCORES, write_results
from kame_model.serve.client.answer_watch import AUDIBLE
from kame_model.serve.parts import ServerParts

VERSION: Final = 4
"""Version of conversations and of what is stored of them; raising it makes every conversation again."""
SCORING: Final = 1
"""Version of the measures computed from stored conversations; raising it computes and judges them again."""
_FAILURES: Final = ("oracle_failed", "listening_failed", "voice_failed")
"""Events that explain why an answer may be bad."""
CONVERSATIONS: Final = "conversations"


@dataclass(frozen=True, slots=True)
class _Conversation:
    """One question in one run."""

    run: int
    question: MtBenchQuestion


def evaluate_mt_bench(
    config: MtBenchConfig,
    out: str,
    *,
    parts: ServerParts | None = None,
    counting: Counting = show_no_progress,
    anew: bool = False,
) -> list[dict[str, Any]]:
    """Asks a server in this process MT-Bench's questions aloud, has the answers rated, and writes the results.

    Running it again with the same folder resumes.

    Args:
        out: folder of report.md, figures.json, items.jsonl, conversations/, asked/, plots/ and sound/.
        parts, counting, anew: as for `run_calls`.

    Returns:
        The rows of figures.json.

    Raises:
        SourceError: the questions cannot be read.
        KameError: as `run_calls`.
    """
    questions = read_questions(config.path, config.categories, config.n_questions)
    recogniser: Recogniser = registry.build("asr", config.recogniser, config.recogniser_options)
    voices = AskingVoices(config.tts, config.tts_options, config.voices, config.serving.cascade, out)
    run = {
        **describe_run("mt-bench", VERSION, config, recogniser),
        "questions": questions.digest,
        "asked_by": voices.describe(),
        "max_answer_s": config.max_answer_s,
        "pause_s": config.pause_s,
    }
    asked = {
        f"run{number}/{question.question_id}": _Conversation(number, question)
        for number in range(config.n_runs)
        for question in questions.questions
    }
    call = partial(_converse, voices=voices, recogniser=recogniser, config=config)
    done = run_calls(
        config,
        out,
        run,
        asked,
        call,
        _make_items,
        parts=parts,
        counting=counting,
        anew=anew,
        calls_folder=CONVERSATIONS,
        scoring=SCORING,
    )
    return write_results(config, questions, done)


def _converse(
    server: CalledServer,
    condition: CallCondition,
    asked: _Conversation,
    *,
    voices: AskingVoices,
    recogniser: Recogniser,
    config: MtBenchConfig,
) -> tuple[dict[str, Any], Call | None]:
    """Asks a question's turns in one call; returns its record, and the call, None if the voice rejects a turn."""
    run, question = asked.run, asked.question
    seed = ids.derive_seed("mt-bench", config.seed, run, question.question_id) % 2**31
    try:
        voice = voices.draw(seed, question.question_id)
        sounds = [voices.say(text, voice) for text in question.spoken]
    except SpeechRefused as refusal:
        return {"refused": str(refusal), "turns": [], "failures": []}, None
    mode, delay_s = condition
    call = server.call(
        sounds, mode=mode, seed=seed, tail_s=config.max_answer_s, pause_s=config.pause_s, delay_s=delay_s
    )
    user, assistant = find_audible_spans(call.user), find_audible_spans(call.assistant, AUDIBLE)
    starts_s = [start_s for start_s, _ in call.turns] + [len(call.user) / SAMPLE_RATE_HZ]
    turns = []
    for index, turn in enumerate(call.turns):
        (start_s, end_s), until_s = turn, starts_s[index + 1]
        delays = measure_delays(user, assistant, turn, until_s)
        sound = call.get_assistant_between(end_s, until_s)
        turns.append(
            {
                "heard": transcribe(sound, recogniser) if find_audible_spans(sound, AUDIBLE) else "",
                "text": " ".join(call.get_text_between(end_s, until_s).split()),
                "oracle": _find_last_oracle(call, start_s, until_s),
                "ttfat_s": delays.ttfat_s,
                "was_speaking": delays.was_speaking,
                "overlap_share": delays.overlap_share,
                "has_ended": call.ends[index] is not None,
            }
        )
    failures = [each.data["reason"] for each in call.events if each.kind in _FAILURES]
    return {"turns": turns, "failures": [each for each in failures if each]}, call


def _find_last_oracle(call: Call, start_s: float, until_s: float) -> str:
    """Returns the fed text of the last oracle that was requested from `start_s` on and started before `until_s`.

    Empty if there is none.
    """
    texts = [
        each.text
        for each in call.get_oracles()
        if each.text and each.asked_s >= start_s and each.asked_s + (each.age_s or 0.0) < until_s
    ]
    return texts[-1] if texts else ""


def _make_items(condition: CallCondition, asked: _Conversation, called: Record) -> Iterator[Item]:
    """Yields an item for each turn of a conversation, with its measures and the judge's requests."""
    question = asked.question
    for index, turn in enumerate(called["turns"]):
        record = {
            "row": {**condition._asdict(), "category": question.category},
            "unit": question.question_id,
            "run": asked.run,
            "turn": index + 1,
            "measures": {
                **dict.fromkeys(SCORES),
                "ttfat_s": turn["ttfat_s"],
                "was_speaking": turn["was_speaking"],
                "overlap_share": turn["overlap_share"],
                "heard_word_errors": _count_word_errors(turn),
                "is_empty": turn["heard"] == "",
                "is_empty_text": not turn["text"],
                "is_degenerate": is_degenerate(turn["heard"] or ""),
                "is_degenerate_text": is_degenerate(turn["text"]),
                "has_ended": turn["has_ended"],
            },
            "question": question.turns[index],
            "answer": {text: turn[text] for text in SCORES.values()},
        }
        judged = {
            measure: _make_judge_request(question, called["turns"][: index + 1], text)
            for measure, text in SCORES.items()
            if condition.mode != "direct" or text != "oracle"  # direct has none
        }
        yield Item(record, judged, f"/turn{index + 1}")


def _count_word_errors(turn: Mapping[str, Any]) -> list[int] | None:
    """Returns [word errors of the transcript, words of the text]; None if it was rejected, or without text."""
    heard = turn["heard"]
    return None if heard is None else count_word_errors(normalise(turn["text"]), normalise(heard))


def _make_judge_request(
    question: MtBenchQuestion, turns: Sequence[Mapping[str, Any]], text: str
) -> JudgeRequest | Judgement:
    """Returns the judge's request for one text of the last turn; without one, the judgement that needs no request.

    An empty text has the lowest rating; None, a transcript that the recogniser rejected, has no rating.
    """
    said = turns[-1][text]
    if said is None:
        return Judgement(None, "unheard")
    if not said:
        return Judgement(LOWEST)
    n = len(turns)
    return make_rating_request(question.turns[:n], [turn[text] or "" for turn in turns], question.references[:n])
