"""Spoken MT-Bench: both turns of a question in a call into a real session, and each answer judged from 1 to 10.

As KAME's paper has it (arXiv 2510.02327): MT-Bench's reasoning, STEM and humanities, made speakable and spoken, six
runs, a chat model as judge. What the paper does not tell is ours: voices, judge, and that an answer is all that the
assistant says from the beginning of the question's sound to the next question's. Three texts of each answer are judged
apart:

score         what a recogniser writes down of its sound
score_text    its own text: the inner monologue, or the cascade's words
score_oracle  the last oracle of the turn, as far as it was told, as text: the ceiling (the paper's 7.79)

An answer of which there is nothing (no word was heard; no text) has the lowest rating, 1, and the judge is not asked.
Where the judge gives no rating an answer has none: it counts in no mean, and its fault is counted.

A conversation is finished, and kept, before it is judged: another judge asks for no new conversations.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from backends import registry
from backends.asr.protocol import Recogniser
from backends.tts.protocol import SpeechRefused
from data_schemas import ids
from data_schemas.config.mt_bench import MtBenchConfig
from data_schemas.config.serving import Mode
from data_schemas.units import SAMPLE_RATE_HZ
from kame_model.evaluate.asking_voices import AskingVoices
from kame_model.evaluate.call import Call, CalledServer, MeasuredTimes
from kame_model.evaluate.delays import audible_spans, measure_delays
from kame_model.evaluate.judge import LOWEST, Exchange, Judge, Rating, as_asked, open_judge
from kame_model.evaluate.mt_bench_questions import MtBenchQuestion, MtBenchQuestions, read_questions
from kame_model.evaluate.mt_bench_report import write_results
from kame_model.evaluate.report import EvaluationFolder, write_sound
from kame_model.evaluate.served import (
    Condition,
    Counting,
    add_up_costs,
    describe_run,
    list_conditions,
    open_server,
    transcribe,
    uncounted,
)
from kame_model.serve.client.answer_watch import AUDIBLE
from kame_model.serve.parts import Parts

VERSION: Final = 1
"""Of what a conversation and its judgement come to; raising it has every one made anew."""
_FAILURES: Final = ("oracle_failed", "listening_failed", "voice_failed")
"""Events that tell why an answer is not what it might be."""

SCORES: Final = {"score": "heard", "score_text": "text", "score_oracle": "oracle"}
"""Measures, and the text of an answer that is judged for each."""
CONVERSATIONS: Final = "conversations"


@dataclass(frozen=True, slots=True)
class _Conversation:
    """One question in one mode, with one delay, in one run."""

    condition: Condition
    run: int
    question: MtBenchQuestion

    @property
    def name(self) -> str:
        return f"{self.condition.name}/run{self.run}/{self.question.question_id}"


def evaluate_mt_bench(
    config: MtBenchConfig,
    out: str,
    *,
    parts: Parts | None = None,
    counting: Counting = uncounted,
) -> list[dict[str, Any]]:
    """Asks a server MT-Bench's questions, has the answers judged, and writes what came of them.

    Run again with the same `out` it goes on where it was stopped, and gives the same figures.

    Args:
        out: folder of report.md, figures.json, items.jsonl, conversations/, plots/ and sound/.
        parts: of the server, in place of those that `config.serving` names.
        counting: shows progress.

    Returns:
        The rows of figures.json.

    Raises:
        SourceError: the questions cannot be read.
        ConfigError: the configuration names what there is not.
        BackendError: an engine does not work, or a chat model is not there.
        BudgetError: the judge's budget is used up.
        StoreError: a file cannot be read or written.
    """
    questions = read_questions(config.path, config.categories, config.n_questions)
    recogniser: Recogniser = registry.build("asr", config.recogniser, config.recogniser_options)
    voices = AskingVoices(config.tts, config.tts_options, config.voices, config.serving.cascade, out)
    run = {
        **describe_run("mt-bench", VERSION, config, recogniser),
        "questions": questions.digest,
        "asked_by": voices.about(),
        "max_answer_s": config.max_answer_s,
        "pause_s": config.pause_s,
    }
    wanted = list(_wanted(config, questions))
    conversations = EvaluationFolder(str(Path(out) / CONVERSATIONS), run)
    missing = [each for each in wanted if each.name not in conversations]
    times = MeasuredTimes(out)
    if missing:
        with open_server(config, parts, times) as server, counting("calling", len(missing)) as advance:
            for each in missing:
                record, call = _converse(each, server, voices, recogniser, config)
                if call is not None and _is_first(each, wanted, config.n_sounds):
                    write_sound(out, each.name, call.assistant, call.user)
                conversations.keep(each.name, record)
                advance(1)
    with open_judge(config.judge, out) as judge:
        folder = EvaluationFolder(out, {**run, "judge": judge.about()})
        records = _judge_all(wanted, conversations, folder, judge, counting)
    judgements = [each for record in records for each in record["judged"].values()]
    costs = add_up_costs(config.serving, times, config.judge, judgements)
    called = {each.name: conversations[each.name] for each in wanted}
    return write_results(folder, config, questions, records, called, {**run, "judge": judge.about()}, costs)


def _wanted(config: MtBenchConfig, questions: MtBenchQuestions) -> Iterator[_Conversation]:
    """All conversations: run after run, so that one that is stopped has something of everything."""
    for run in range(config.n_runs):
        for question in questions.questions:
            for condition in list_conditions(config):
                yield _Conversation(condition, run, question)


def _is_first(conversation: _Conversation, wanted: Sequence[_Conversation], n: int) -> bool:
    return conversation in [each for each in wanted if each.condition == conversation.condition][:n]


def _converse(
    conversation: _Conversation,
    server: CalledServer,
    voices: AskingVoices,
    recogniser: Recogniser,
    config: MtBenchConfig,
) -> tuple[dict[str, Any], Call | None]:
    """One call, and what of it is kept."""
    seed = ids.seed_for("mt-bench", config.seed, conversation.run, conversation.question.question_id) % 2**31
    try:
        voice = voices.draw(seed, conversation.question.question_id)
        sounds = [voices.say(text, voice) for text in conversation.question.spoken]
    except SpeechRefused as refusal:
        return {"refused": str(refusal), "turns": [], "failures": []}, None
    call = server.call(
        sounds,
        mode=conversation.condition.mode,
        seed=seed,
        tail_s=config.max_answer_s,
        pause_s=config.pause_s,
        delay_s=conversation.condition.delay_s,
    )
    user, assistant = audible_spans(call.user), audible_spans(call.assistant, AUDIBLE)
    starts_s = [start_s for start_s, _ in call.turns] + [len(call.user) / SAMPLE_RATE_HZ]
    turns = []
    for index, turn in enumerate(call.turns):
        start_s, until_s = starts_s[index : index + 2]
        delays = measure_delays(user, assistant, turn, until_s)
        sound = call.assistant_between(start_s, until_s)
        turns.append(
            {
                "heard": transcribe(sound, recogniser) if audible_spans(sound, AUDIBLE) else "",
                "text": " ".join(call.text_between(start_s, until_s).split()),
                "oracle": _last_oracle(call, start_s, until_s),
                "ttfat_s": None if delays.first_sound_s is None else max(0.0, delays.first_sound_s),
                "overlap_share": delays.overlap_share,
                "has_ended": call.ends[index] is not None,
            }
        )
    failures = [each.data["reason"] for each in call.events if each.kind in _FAILURES]
    return {"turns": turns, "failures": [each for each in failures if each]}, call


def _last_oracle(call: Call, start_s: float, until_s: float) -> str:
    """What was told of the last oracle that was asked for and begun between two times."""
    told = [
        each.text
        for each in call.oracles()
        if each.text and each.asked_s >= start_s and each.asked_s + (each.age_s or 0.0) < until_s
    ]
    return told[-1] if told else ""


def _judged(mode: Mode) -> dict[str, str]:
    """What is judged in a mode: direct has no oracle."""
    return {name: text for name, text in SCORES.items() if mode != "direct" or text != "oracle"}


def _judge_all(
    wanted: Sequence[_Conversation],
    conversations: EvaluationFolder,
    folder: EvaluationFolder,
    judge: Judge,
    counting: Counting,
) -> list[dict[str, Any]]:
    """The records of all answers; those that were judged before are taken, but for judgements that failed."""
    asked: list[tuple[_Conversation, int, str, Exchange]] = []
    kept = {name for each in wanted for name in _names(each) if name in folder and not _has_failed(folder[name])}
    ratings: dict[tuple[str, str], Rating] = {}
    for each in wanted:
        turns = conversations[each.name]["turns"]
        for index, name in enumerate(_names(each)[: len(turns)]):
            for measure, text in _judged(each.condition.mode).items():
                if name in kept:
                    continue
                if not turns[index][text]:
                    is_unknown = turns[index][text] is None
                    ratings[name, measure] = Rating(None, "unheard") if is_unknown else Rating(LOWEST)
                else:
                    answers = tuple(turn[text] or "" for turn in turns[: index + 1])
                    questions, references = each.question.turns[: index + 1], each.question.references[: index + 1]
                    asked.append((each, index, measure, Exchange(questions, answers, references)))
    with counting("judging", len(asked)) as advance:
        judged = judge.rate([exchange for *_, exchange in asked], lambda: advance(1))
    ratings |= {
        (_names(each)[index], measure): rating for (each, index, measure, _), rating in zip(asked, judged, strict=True)
    }
    records = []
    for each in wanted:
        turns = conversations[each.name]["turns"]
        for index, name in enumerate(_names(each)[: len(turns)]):
            if name not in kept:
                own = {measure: ratings[name, measure] for measure in _judged(each.condition.mode)}
                folder.keep(name, _record(each, index, turns[index], own))
            records.append(folder[name])
    return records


def _names(conversation: _Conversation) -> list[str]:
    return [f"{conversation.name}/turn{number}" for number, _ in enumerate(conversation.question.turns, start=1)]


def _has_failed(record: Mapping[str, Any]) -> bool:
    return "failed" in record["faults"].values()


def _record(
    conversation: _Conversation, index: int, turn: Mapping[str, Any], ratings: Mapping[str, Rating]
) -> dict[str, Any]:
    measures = {name: ratings[name].value if name in ratings else None for name in SCORES}
    return {
        "row": {**conversation.condition._asdict(), "category": conversation.question.category},
        "unit": conversation.question.question_id,
        "run": conversation.run,
        "turn": index + 1,
        "measures": {
            **measures,
            "ttfat_s": turn["ttfat_s"],
            "overlap_share": turn["overlap_share"],
            "is_empty": turn["heard"] == "",
            "is_empty_text": not turn["text"],
            "has_ended": turn["has_ended"],
        },
        "question": conversation.question.turns[index],
        "answer": {text: turn[text] for text in SCORES.values()},
        "faults": {name: rating.fault for name, rating in ratings.items() if rating.fault},
        "judged": {name: as_asked(rating.reply) for name, rating in ratings.items() if rating.reply is not None},
    }
