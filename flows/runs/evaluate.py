"""An evaluation of any kind, as its command and the Prefect flow `evaluate` run it."""

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
    """An evaluation as a run: one task, which goes on by itself where it was stopped."""
    task = Task(config.kind, config.out, lambda: evaluate(config, counting))
    yield [task]
    return task.made


def evaluate(config: EvaluateConfig, counting: Counting) -> Rows:
    """Evaluates, and writes what came of it into `config.out`.

    Args:
        counting: shows progress.

    Returns:
        The rows of its figures.json.

    Raises:
        KameError: as the evaluation of that kind does; or a setting that it does not have.
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
    """Typed delays as settings of kind recall: one alone is that of the wrong and the corrected oracle, too."""
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
    """An evaluation that calls a server.

    Args:
        typed: settings of the kind by dotted name; None: not typed.
        settings: more of them, as typed behind --set.
        anew: replace what another evaluation left in `out`.
        register, again: of kind duplex, as of `note_look_at_test`.

    Raises:
        KameError: as the evaluation of that kind does; or a setting that it does not have.
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
    """The server that is called, as `kame serve` would be told.

    Raises:
        ConfigError: a value out of bounds, with its name.
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
