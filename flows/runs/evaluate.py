"""Runs an evaluation of any kind, for its command and for the Prefect flow `evaluate`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from data_schemas.config.evaluate import EvaluateConfig, Kind
from flows.runs.tasks import Task, Tasks
from flows.settings import build, make_chat_settings, parse_settings
from kame_model.evaluate.served import Counting

if TYPE_CHECKING:
    from data_schemas.config.serving import ServeConfig

Rows = list[dict[str, Any]]


def make_evaluation_tasks(config: EvaluateConfig, counting: Counting) -> Tasks[Rows]:
    """Yields the single task of an evaluation, which resumes by itself."""
    task = Task(config.kind, config.out, lambda: evaluate(config, counting))
    yield [task]
    return task.made


def evaluate(config: EvaluateConfig, counting: Counting) -> Rows:
    """Evaluates, and writes the results to `config.out`.

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
    """Makes settings of kind recall from delays; a single one is also used for the wrong and the corrected oracle."""
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
    """Runs an evaluation that calls a server, and returns the rows of its figures.

    Args:
        typed: settings of the kind by dotted name; None: not given.
        settings: further settings, as given by --set.
        anew: whether results of another evaluation in `out` are replaced.
        register, again: for kind duplex, as in `note_look_at_test`.

    Raises:
        KameError: a setting is unknown, or the evaluation failed.
    """
    from data_schemas.config.duplex import DuplexConfig
    from data_schemas.config.mt_bench import MtBenchConfig
    from data_schemas.config.questions import QuestionsConfig
    from kame_model.evaluate.duplex import evaluate_duplex
    from kame_model.evaluate.mt_bench import evaluate_mt_bench
    from kame_model.evaluate.questions import evaluate_questions

    layers = ({"serving": serving.model_dump(exclude_unset=True)}, typed, parse_settings(settings))
    if kind == "duplex":
        asked = build(DuplexConfig, *layers)
        return evaluate_duplex(asked, out, counting=counting, anew=anew, register=register, again=again)
    if kind == "mt-bench":
        return evaluate_mt_bench(build(MtBenchConfig, *layers), out, counting=counting, anew=anew)
    return evaluate_questions(build(QuestionsConfig, *layers), out, counting=counting, anew=anew)


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
    from data_schemas.config.recall import RecallConfig
    from flows.runs.train import make_hearing
    from kame_model.checkpoint.load import load_checkpoint
    from kame_model.encode.token_dataset import TokenDataset
    from kame_model.evaluate.recall import count_dialogues, evaluate_recall
    from kame_model.train.parallel import find_device

    typed = {**make_recall_delays(config.delays_s), "seed": config.seed, "n_items": config.n_items or None}
    asked = build(RecallConfig, {}, typed, parse_settings(config.settings))
    dataset = TokenDataset(config.path)
    checkpoint = load_checkpoint(config.checkpoint, find_device(config.device))
    voices = TokenDataset(config.voices) if config.voices else None
    with counting("running", count_dialogues(dataset, asked, voices)) as advance:
        rows = evaluate_recall(
            checkpoint,
            dataset,
            asked,
            config.out,
            hear=make_hearing() if config.listen else None,
            voices=voices,
            register=config.register_folder or None,
            again=config.again,
            anew=config.anew,
            on_batch=advance,
        )
    return [dict(row) for row in rows]
