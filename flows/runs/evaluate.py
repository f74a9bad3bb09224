"""Runs an evaluation of any kind, for its command and for the Prefect flow `evaluate`."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_schemas.config.evaluate import EvaluateConfig, Kind
from flows.runs.tasks import Task, Tasks
from flows.settings import build, make_chat_settings, parse_settings
from kame_model.evaluate.calls.run import Counting

if TYPE_CHECKING:
    from data_schemas.config.recall import RecallConfig
    from data_schemas.config.serving import ServeConfig

Rows = list[dict[str, Any]]


def make_evaluation_tasks(config: EvaluateConfig, counting: Counting) -> Tasks[Rows]:
    """Yields the single task of an evaluation, which resumes by itself."""
    task = Task(config.kind, config.out, lambda: evaluate(config, counting))
    yield [task]
    return task.made


def evaluate(config: EvaluateConfig, counting: Counting) -> Rows:
    """Runs an evaluation of the configured kind, and writes its results to `config.out`; the same folder resumes.

    Args:
        counting: shows progress.

    Returns:
        The rows of figures.json.

    Raises:
        KameError: a setting is unknown, or the evaluation failed.
    """
    if config.kind == "recall":
        return _evaluate_recall(config, counting)
    typed = {
        "delays_s": config.delays_s or None,
        "seed": config.seed,
        "path": config.path,
        "modes": config.modes or None,
        "n_items" if config.kind == "duplex" else "n_questions": config.n_items or None,
        **make_chat_settings("judge.chat", config.judge_url, config.judge_model, config.judge_provider),
        **({"questions": config.questions} if config.kind == "questions" else {}),
    }
    return evaluate_served(
        config.kind,
        make_server_config(config),
        typed,
        config.settings,
        config.out,
        counting,
        anew=config.anew,
        register=config.register_folder or None,
        again=config.again,
    )


def make_recall_delays(delays_s: Sequence[float]) -> dict[str, Any]:
    """Makes the settings `delays_s` and `delay_s` of a recall evaluation; one that is None keeps its default.

    `delays_s` is None without delays. `delay_s`, for the wrong and the corrected oracle and for channels, is the single
    delay, and None if there are none or several.
    """
    return {"delays_s": list(delays_s) or None, "delay_s": delays_s[0] if len(delays_s) == 1 else None}


def evaluate_served(
    kind: Kind,
    serving: "ServeConfig",
    typed: Mapping[str, Any],
    settings: Sequence[str],
    out: str,
    counting: Counting,
    *,
    anew: bool,
    register: str | None = None,
    again: bool = False,
) -> Rows:
    """Runs an evaluation that calls a server in this process, and returns the rows of its figures.

    Args:
        kind: any except recall, which calls no server.
        serving: configuration of that server.
        out: folder of the evaluation; the same folder resumes.
        typed: settings of the kind by dotted name; those that are None are ignored. For kind mt-bench, `path` is
            required, and `judge.prompts` is by default FastChat's file beside the questions, if there is one.
        settings: further settings, as given by --set.
        anew: whether results of another evaluation in `out` are replaced; otherwise they are an error.
        register, again: as in `record_test_evaluation`; ignored for other kinds than duplex.

    Raises:
        KameError: a setting is unknown, or the evaluation failed.
    """
    from data_schemas.config.duplex import DuplexConfig
    from data_schemas.config.mt_bench import MtBenchConfig
    from data_schemas.config.questions import QuestionsConfig
    from kame_model.evaluate.duplex.evaluate import evaluate_duplex
    from kame_model.evaluate.mt_bench.evaluate import evaluate_mt_bench
    from kame_model.evaluate.questions.evaluate import evaluate_questions

    start, further = {"serving": serving.model_dump(exclude_unset=True)}, parse_settings(settings)
    if kind == "duplex":
        asked = build(DuplexConfig, start, typed, further)
        return evaluate_duplex(asked, out, counting=counting, anew=anew, register=register, again=again)
    if kind == "mt-bench":
        default = {"judge.prompts": _find_prompts_beside(str(further.get("path", typed["path"])))}
        judged = build(MtBenchConfig, start, default, typed, further)
        return evaluate_mt_bench(judged, out, counting=counting, anew=anew)
    return evaluate_questions(build(QuestionsConfig, start, typed, further), out, counting=counting, anew=anew)


def _find_prompts_beside(path: str) -> str | None:
    """Finds FastChat's judge prompts in the folder of its questions or the one above; None if neither has them."""
    places = (Path(path) / "judge_prompts.jsonl", Path(path).parent / "judge_prompts.jsonl")
    return next((str(place) for place in places if place.is_file()), None)


def make_server_config(config: EvaluateConfig) -> "ServeConfig":
    """Builds the configuration of the server that is called, as `kame serve` does.

    Raises:
        ConfigError: a value is out of bounds.
    """
    from data_schemas.config.serving import ServeConfig

    typed = {
        "checkpoint": config.checkpoint,
        "device": config.device,
        **make_chat_settings("back_ends.0.chat", config.llm_url, config.llm_model, config.llm_provider),
    }
    return build(ServeConfig, {"back_ends": [{}]}, typed, parse_settings(config.server_settings))


def _evaluate_recall(config: EvaluateConfig, counting: Counting) -> Rows:
    """Runs the evaluation of recall with the settings of `config`, and returns the rows of its figures."""
    from data_schemas.config.recall import RecallConfig

    typed = {**make_recall_delays(config.delays_s), "seed": config.seed, "n_items": config.n_items or None}
    return run_recall(
        config.checkpoint,
        config.path,
        build(RecallConfig, {}, typed, parse_settings(config.settings)),
        config.out,
        counting,
        voices=config.voices or None,
        listens=config.listen,
        register=config.register_folder or None,
        again=config.again,
        anew=config.anew,
        device=config.device,
    )


def run_recall(
    checkpoint: str,
    tokens: str,
    config: "RecallConfig",
    out: str,
    counting: Counting,
    *,
    voices: str | None,
    listens: bool,
    register: str | None,
    again: bool,
    anew: bool,
    device: str,
) -> Rows:
    """Runs the evaluation of recall, and returns the rows of its figures.

    Args:
        checkpoint: a checkpoint's folder, owner/name on the Hub, or the folder of a training run, whose best weights
            are exported to a temporary folder; its own folder is then the register, if none is given.
        tokens: folder of token rows.
        out: folder of the evaluation; the same folder resumes.
        voices: folder of token rows of the same dialogues with other user voices.
        listens: whether a recogniser transcribes the decoded audio.
        register, again, anew: as in `evaluate_recall`.

    Raises:
        KameError: the evaluation failed.
    """
    from flows.runs.train import make_hearing
    from kame_model.checkpoint.export import open_run
    from kame_model.checkpoint.load import load_checkpoint
    from kame_model.encode.token_dataset import TokenDataset
    from kame_model.evaluate.recall.evaluate import count_dialogues, evaluate_recall
    from kame_model.train.parallel import find_device
    from kame_model.train.run_folder import find_run

    run, where = find_run(checkpoint), find_device(device)
    with nullcontext(load_checkpoint(checkpoint, where)) if run is None else open_run(run.folder, where) as loaded:
        dataset = TokenDataset(tokens)
        others = None if voices is None else TokenDataset(voices)
        with counting("running", count_dialogues(dataset, config, others)) as advance:
            rows = evaluate_recall(
                loaded,
                dataset,
                config,
                out,
                hear=make_hearing() if listens else None,
                voices=others,
                register=register or (None if run is None else str(run.folder)),
                again=again,
                anew=anew,
                on_batch=advance,
            )
    return [dict(row) for row in rows]
