"""Evaluates a server with spoken questions: accuracy of the answer and of the oracle, and latency.

Each question is played into its own session in every mode (`calls.call`), with the measured or a forced delay of the
back-end. The answer is what the assistant says after the question's last audible sound, judged twice: by what a
recogniser hears, and by the front-end's own text. Delays are those of MoshiRAG (arXiv 2604.12928), made precise here:

ttfat_s           time to first audible token: from the question's end to the first sound of the answer; 0 if it had
                  started during the question and continued; speech that ended within 0.3 s after the question's end, or
                  had started before the question, is not the answer
was_speaking      whether the assistant was heard at the question's end, whether that was the answer or not
keyword_delay_s   from there to the first word of an accepted answer in the assistant's own text (in arithmetic the last
                  number, which is scored); only for correct answers
answer_delay_s    the sum of both
has_ended         whether the answer had ended within the time; otherwise it was cut
overlap           time during which both were heard, as a share of the question's length
oracle_age_s      age of the oracle, since its request, at the answer's first word
heard_word_errors  word error rate of the recogniser's words against the assistant's own text
reference_accuracy  whether the last oracle was correct; response_accuracy: of those, whether the answer was

Empty and degenerate answers are wrong, and are counted. Scores are computed from the texts and times of stored calls,
so that other rules need no other calls. The run itself is `calls.run.run_calls`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from backends import registry
from backends.asr.protocol import Recogniser
from backends.engine import Samples
from backends.tts.protocol import SpeechRefused
from data_schemas import ids
from data_schemas.config.questions import QuestionsConfig
from data_schemas.errors import ConfigError
from data_schemas.units import round_s, seconds_to_samples
from kame_model.evaluate.answers.heard_words import count_word_errors
from kame_model.evaluate.answers.scoring import Rule, find_answer_time, is_degenerate, normalise, score_response
from kame_model.evaluate.calls.asking_voices import AskingVoices
from kame_model.evaluate.calls.call import Call, CalledServer
from kame_model.evaluate.calls.delays import find_audible_spans, measure_delays
from kame_model.evaluate.calls.measured import MeasuredTimes
from kame_model.evaluate.calls.run import (
    CallCondition,
    Counting,
    Item,
    Record,
    describe_run,
    find_contents,
    make_rows,
    run_calls,
    show_no_progress,
    transcribe,
)
from kame_model.evaluate.judge import Judgement, JudgeRequest, make_verdict_request
from kame_model.evaluate.questions.report import COUNTED, draw_answers, format_markdown
from kame_model.evaluate.questions.sets import Question, QuestionSet, load_questions
from kame_model.evaluate.report.intervals import compute_figures
from kame_model.serve.client.answer_watch import AUDIBLE
from kame_model.serve.client.client import read_user_audio
from kame_model.serve.parts import ServerParts
from spoken.reader import speak
from spoken.spoken_text import Unspeakable

VERSION: Final = 6
"""Version of calls and of what is stored of them; raising it makes every question be asked again."""
SCORING: Final = 1
"""Version of the scores, which are computed from stored calls; raising it computes and judges them again."""

_JUDGED: Final = {"answer_judged": "heard", "answer_judged_text": "text", "reference_judged": "reference"}
"""Measures of the judge, and the text of a record that each one judges."""


@dataclass(frozen=True, slots=True, eq=False)
class _AskedQuestion:
    """A question, its audio (float32 at 24 kHz), and the voice that asks it; empty for a recording."""

    question: Question
    sound: Samples
    voice: str


def evaluate_questions(
    config: QuestionsConfig,
    out: str,
    *,
    parts: ServerParts | None = None,
    recogniser: Recogniser | None = None,
    counting: Counting = show_no_progress,
    anew: bool = False,
) -> list[dict[str, Any]]:
    """Asks a server in this process questions aloud in each mode, and writes the results; the same folder resumes.

    Args:
        out: folder of report.md, figures.json, items.jsonl, calls/, asked/, plots/ and sound/.
        parts, counting, anew: as for `run_calls`.
        recogniser: used instead of the one that `config` names.

    Returns:
        The rows of figures.json.

    Raises:
        SourceError: the question set cannot be read.
        KameError: as `run_calls`; also a ConfigError if no question can be asked.
    """
    questions = load_questions(config.questions, config.path, config.columns)
    hearer: Recogniser = recogniser or registry.build("asr", config.recogniser, config.recogniser_options)
    voices = None
    if any(question.sound is None for question in questions.questions):
        voices = AskingVoices(config.tts, {}, [], config.serving.cascade, out, config.n_voices)
    chosen, left_out = _choose_questions(questions, config, voices)
    run = {
        **describe_run("questions", VERSION, config, hearer),
        "set": {"name": questions.name, "digest": questions.digest, "rule": questions.rule},
        "asked_by": None if voices is None else voices.describe(),
        **{name: getattr(config, name) for name in ("items_seed", "max_words", "lead_s", "tail_s")},
    }

    def call(server: CalledServer, condition: CallCondition, asked: _AskedQuestion) -> tuple[dict[str, Any], Call]:
        seed = ids.derive_seed("questions", config.seed, asked.question.id) % 2**31
        mode, delay_s = condition
        made = server.call([asked.sound], mode=mode, seed=seed, tail_s=config.tail_s, delay_s=delay_s)
        return _make_call_record(made, asked, condition, hearer), made

    def make_items(condition: CallCondition, asked: _AskedQuestion, called: dict[str, Any]) -> list[Item]:
        record = _make_item_record(called, asked.question, questions.rule, condition)
        return [Item(record, _make_judge_requests(record))]

    asked = {each.question.id: each for each in chosen}
    done = run_calls(
        config,
        out,
        run,
        asked,
        call,
        make_items,
        parts=parts,
        counting=counting,
        anew=anew,
        scoring=SCORING,
    )
    rows = make_rows(done.records, _compute_figures)
    more = {
        "is_trained_on_set": _is_trained_on(config.serving.checkpoint, questions.name),
        "left_out": left_out,
        "n_bad_rows": questions.n_bad_rows,
        "charged": _summarise_charged_times(done.times),
        "costs": done.costs,
    }
    report = format_markdown(config, questions, rows, done.records, more)
    done.folder.write_results(rows, report, {"answers": draw_answers(rows)}, more)
    return rows


def _is_trained_on(checkpoint: str, source: str) -> bool:
    """Returns whether a checkpoint's `kame.json` names the question set among the sources of its training data."""
    contents = find_contents(checkpoint)
    licences = None if contents is None or contents.facts is None else contents.facts.training.licences
    return f"questions of {source}" in (licences or {})


def _summarise_charged_times(times: MeasuredTimes) -> list[dict[str, Any]]:
    """Summarises the times of requests, recognitions and syntheses: count, median and 90th percentile in seconds.

    Kinds without any are left out.
    """
    times_s = {
        "request, first piece": [each["pieces"][0][0] for each in times.list_records("request") if each["pieces"]],
        "request, whole": [each["took_s"] for each in times.list_records("request")],
        **{kind: [each["took_s"] for each in times.list_records(kind)] for kind in ("recognition", "synthesis")},
    }
    return [
        {"what": what, "n": len(all_s), "median_s": float(np.median(all_s)), "p90_s": float(np.percentile(all_s, 90))}
        for what, all_s in times_s.items()
        if all_s
    ]


def _choose_questions(
    questions: QuestionSet, config: QuestionsConfig, voices: AskingVoices | None
) -> tuple[list[_AskedQuestion], dict[str, int]]:
    """Chooses the first questions, in seeded order, that can be spoken, and makes their audio.

    Args:
        voices: voices for questions without audio; None: all have audio.

    Returns:
        The questions, and the number of those skipped before them by reason.

    Raises:
        ConfigError: no question can be spoken.
        BackendError: the text-to-speech engine fails.
    """
    chosen, left_out = list[_AskedQuestion](), Counter[str]()
    lead = np.zeros(seconds_to_samples(config.lead_s), np.float32)
    for question in questions.draw_questions(config.items_seed):
        if len(chosen) == config.n_questions:
            break
        if question.sound is not None:
            chosen.append(_AskedQuestion(question, np.concatenate([lead, read_user_audio(question.sound)]), ""))
            continue
        assert voices is not None  # as a question needs them
        try:
            text = speak(question.text)
        except Unspeakable as error:
            left_out[error.reason] += 1
            continue
        if len(text.split()) > config.max_words:
            left_out["too_long"] += 1
            continue
        voice = voices.draw(config.items_seed, question.id)
        try:
            chosen.append(_AskedQuestion(question, np.concatenate([lead, voices.say(text, voice)]), voice))
        except SpeechRefused:
            left_out["speech_refused"] += 1
    if not chosen:
        raise ConfigError(
            f"No question of {questions.name} can be spoken ({dict(left_out)}).",
            "Choose another set" + (", or raise max_words." if left_out["too_long"] else "."),
        )
    return chosen, dict(left_out)


def _compute_figures(records: Sequence[Record]) -> dict[str, Any]:
    """Computes the figures of one row, with the number of items for which each measure of `COUNTED` is true."""
    counts = {f"n_{name}": sum(bool(each["measures"][name]) for each in records) for name in COUNTED}
    return {**compute_figures(records), **counts}


def _make_call_record(
    call: Call,
    asked: _AskedQuestion,
    condition: CallCondition,
    recogniser: Recogniser,
) -> dict[str, Any]:
    """Transcribes a call and makes its record: what was said and when, and the measures that need no rule."""
    question, turn = asked.question, call.turns[0]
    end_s = turn[1]
    assistant = find_audible_spans(call.assistant, AUDIBLE)
    delays = measure_delays(find_audible_spans(call.user), assistant, turn)
    text = call.get_text_between(end_s)
    is_audible = any(span[1] > end_s for span in assistant)
    transcript = transcribe(call.get_assistant_between(end_s), recogniser) if is_audible else ""
    pieces = [piece for piece in call.pieces if piece[0] >= end_s]
    first_word_s = next((at_s for at_s, piece in pieces if piece.strip()), None)
    oracles = [each for each in call.get_oracles() if each.text]
    oracle = None if first_word_s is None else call.find_oracle_at(first_word_s)
    asks = condition.mode != "direct"
    measures: dict[str, Any] = {
        "ttfat_s": delays.ttfat_s,
        "was_speaking": delays.was_speaking,
        "first_word_s": None if first_word_s is None else round_s(first_word_s - end_s),
        "oracle_age_s": None if oracle is None or first_word_s is None else round_s(first_word_s - oracle.asked_s),
        "overlap": delays.overlap_share,
        "heard_word_errors": None if transcript is None else count_word_errors(normalise(text), normalise(transcript)),
        "hearing_refused": transcript is None,
        "listening_failed": any(each.kind == "listening_failed" and each.data["reason"] for each in call.events),
        "missed": delays.ttfat_s is None and first_word_s is None,
        "failed_requests": sum(each.kind == "oracle_failed" for each in call.events) if asks else None,
    }
    category = {"category": question.category} if question.category else {}
    return {
        "row": {**condition._asdict(), **category},
        "unit": question.id,
        "measures": measures,
        "question": question.text,
        "answers": list(question.answers),
        "voice": asked.voice,
        "understood": next((each.data["text"] for each in reversed(call.events) if each.kind == "heard"), ""),
        "reference": oracles[-1].text if oracles else None,
        "text": text,
        "heard": transcript or "",
        "pieces": [(round_s(at_s - end_s), piece) for at_s, piece in pieces],
        "first_sound_s": delays.first_sound_s,
        "has_ended": call.ends[0] is not None,
    }


def _make_item_record(called: Record, question: Question, rule: Rule, condition: CallCondition) -> dict[str, Any]:
    """Scores the texts of a call, and makes the record for `items.jsonl` from that of the call."""
    own, reference = called["measures"], called["reference"]
    by_ear, by_text, by_reference = (
        score_response(said or "", question.answers, rule, question.options)
        for said in (called["heard"], called["text"], reference)
    )
    is_reference_right = by_reference.is_right
    ttfat_s = own["ttfat_s"]
    answer_delay_s = _find_answer_delay(called, question, rule, ttfat_s) if by_text.is_right else None
    scored = {
        "answer_accuracy": by_ear.is_right,
        "answer_accuracy_text": by_text.is_right,
        "answer_exact": by_ear.is_exact,
        "answer_exact_text": by_text.is_exact,
        "reference_accuracy": None if condition.mode == "direct" else is_reference_right,
        "response_accuracy": by_ear.is_right if is_reference_right else None,
        "response_accuracy_text": by_text.is_right if is_reference_right else None,
        "ttfat_s": ttfat_s,
        "was_speaking": own["was_speaking"],
        "keyword_delay_s": None if answer_delay_s is None or ttfat_s is None else round_s(answer_delay_s - ttfat_s),
        "answer_delay_s": answer_delay_s,
        "empty": by_ear.is_empty,
        "empty_text": by_text.is_empty,
        "degenerate": by_ear.is_degenerate,
        "degenerate_text": by_text.is_degenerate,
        "has_ended": called["has_ended"],
    }
    rest = {name: value for name, value in own.items() if name not in scored}
    record = {name: value for name, value in called.items() if name not in ("pieces", "has_ended")}
    return {**record, "measures": {**scored, **rest}}


def _find_answer_delay(called: Record, question: Question, rule: Rule, ttfat_s: float | None) -> float | None:
    """Returns the seconds from the question's end to a right answer, which is not before the first sound.

    None if the answer had no sound, or the text has no right answer.
    """
    answer_s = find_answer_time(called["pieces"], question.answers, rule, question.options)
    return None if answer_s is None or ttfat_s is None else round_s(max(ttfat_s, answer_s))


def _make_judge_requests(record: Record) -> dict[str, JudgeRequest | Judgement]:
    """Returns the judge's request for each of the three texts, by measure.

    An empty or degenerate text is wrong without a request. There is no judgement if there was no oracle (None).
    """
    texts = {name: record[text] for name, text in _JUDGED.items()}
    return {
        name: make_verdict_request(record["question"], " or ".join(record["answers"]), said)
        if said and not is_degenerate(said)
        else Judgement(None if said is None else False)
        for name, said in texts.items()
    }
