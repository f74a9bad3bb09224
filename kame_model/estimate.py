"""Estimates the time and memory of training and serving a front-end, from its shape and from measured rates.

No data, weights or GPU are needed: the model is built on PyTorch's meta device. For a device without measurements of
training, time is computed from operations, at an assumed share of the device's peak (MFU), which is stated.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import torch
from torch import nn

from data_schemas.code_layout import CodeLayout
from data_schemas.config.serving import LimitsConfig
from data_schemas.config.training import TrainConfig
from data_schemas.rates import (
    CPU,
    PlanFigure,
    RateBook,
    StepCost,
    StepTimes,
    is_device,
    make_unknown,
    sum_figures,
)
from data_schemas.units import FRAME_S
from kame_model.model.front_end import FrontEnd
from kame_model.train.model import ForwardPass, build_shape
from kame_model.train.parallel import Processes
from kame_model.train.run_facts import VocabularyAndCodec
from kame_model.train.throughput import (
    GPU_BYTES,
    PEAK_FLOPS,
    PEAK_FLOPS_FP32,
    PassCounts,
    count_pass,
    count_weights,
    find_known_gpu,
)

AIMED_MFU: Final = 0.45
"""Assumed share of a GPU's peak if it was not measured: the project's target."""

TRAINING, SERVING = "training", "serving"
LAUNCH_S: Final = 10e-6
"""Assumed time in which PyTorch launches one operation on a GPU: no device computes a step faster than its launches."""

_BYTES_OF_TRAINED, _BYTES_OF_AVERAGE = 16, 4  # weight, gradient and AdamW's two means in float32; a moving average
_LOGIT_COPIES = 4  # logits, in float32, their softmax, and its gradient

_COUNTED: Final[dict[Hashable, PassCounts]] = {}
"""Counts of passes by what they depend on. A count traces a whole pass, which takes seconds for a large model."""


def get_assumed_codes(codec: str) -> tuple[int, CodeLayout]:
    """Returns the vocabulary size and the layout of the codes that estimates assume for a codec's name.

    They are Moshi's for `mimi`, those of the shipped nano for `codec2-neural`, and those of `codec2-learnt` with two
    stages for it and any other codec.
    """
    if codec == "mimi":
        return 32_000, CodeLayout.make_mimi(8, 2048)
    if codec == "codec2-neural":
        return 1_500, CodeLayout.make_parametric((512, 512, 128), 1, 0.4)
    return 1_500, CodeLayout.make_parametric((512,) * 6, 2, 0.4)


def build_meta_model(config: TrainConfig, text_card: int, layout: CodeLayout) -> FrontEnd:
    """Builds the front-end of a configuration on the meta device, so without memory for weights."""
    speaks_with = VocabularyAndCodec(tokenizer_digest="", text_card=text_card, codec_digest="", layout=layout)
    return build_shape(config, speaks_with, ForwardPass(Processes(torch.device("meta")), config.hardware.precision))


def count_stage(config: TrainConfig, text_card: int, layout: CodeLayout) -> tuple[FrontEnd, PassCounts]:
    """Builds a stage's front-end on the meta device, and counts its pass; counts are cached for later equal shapes."""
    model, with_audio = build_meta_model(config, text_card, layout), _has_audio(config)
    shape = (config.model, config.lora, config.shares.has_sound, with_audio, text_card, layout)
    if shape not in _COUNTED:
        _COUNTED[shape] = count_pass(model, with_audio)
    return model, _COUNTED[shape]


def _has_audio(config: TrainConfig) -> bool:
    """Returns whether the steps of a stage compute the depth transformer too."""
    return config.shares.main != "copying"


def count_activation_bytes(config: TrainConfig, model: FrontEnd, counts: PassCounts) -> float:
    """Returns the memory of a micro-batch between its forward and its backward pass, in bytes.

    It includes copies of the logits. With activation checkpointing, a share of the layers (`checkpoint_share`) keeps
    only its inputs and, if `checkpoint_keeps` is `products`, the results of its matrix products; the activations of one
    layer are added.
    """
    product_bytes = 2 if config.hardware.precision == "bf16-mixed" else 4
    whole = counts.saved_bytes * product_bytes / 4
    layers, own_codes = whole, model.n_codebooks if _has_audio(config) else 0
    logits = _LOGIT_COPIES * 4 * (model.text_card + own_codes * model.card)
    hardware = config.hardware
    if hardware.activation_checkpointing:
        depth = own_codes * config.model.depformer_dim * config.model.depformer_num_layers
        inputs: float = (config.model.dim * config.model.num_layers + depth) * product_bytes
        if hardware.checkpoint_keeps == "products":
            inputs += counts.product_bytes * product_bytes / 4
        share = hardware.checkpoint_share
        layers = min(whole, (1 - share) * whole + share * inputs + whole / config.model.num_layers)
    return config.data.batch_frames * (layers + logits)


def count_weight_bytes(config: TrainConfig, model: FrontEnd) -> float:
    """Returns the memory of weights, gradients, optimiser and moving average of all processes together, in bytes."""
    n_all, n_trained = count_weights(model)
    of_trained = _BYTES_OF_TRAINED + (0 if config.optim.ema_decay is None else _BYTES_OF_AVERAGE)
    frozen = sum(each.numel() * each.element_size() for each in model.parameters() if not each.requires_grad)
    return n_trained * of_trained + (frozen if n_all > n_trained else 0)


def count_copied_bytes(config: TrainConfig, model: FrontEnd) -> float:
    """Returns the memory of the bf16 copies of float32 matrices that autocast makes for a forward pass in one process.

    It is 0 in other precisions, and embedding tables are not copied. With several processes it does not apply: layers
    are then gathered in bf16 and nothing is copied (`estimate_memory` counts them).
    """
    if config.hardware.precision != "bf16-mixed":
        return 0.0
    tables = {id(each) for one in model.modules() if isinstance(one, nn.Embedding) for each in one.parameters()}
    matrices = [each for each in model.parameters() if each.ndim >= 2 and each.dtype == torch.float32]
    return 2.0 * sum(each.numel() for each in matrices if id(each) not in tables)


def estimate_training(
    stages: Sequence[TrainConfig], text_card: int, layout: CodeLayout, book: RateBook, device: str, n_devices: int = 1
) -> list[PlanFigure]:
    """Estimates hours and memory of the stages of a training, one after the other.

    Args:
        stages: their configurations.
        text_card: size of the vocabulary.
        layout: layout of the codes.
        book: the rates.
        device: cpu, or a GPU's name.
        n_devices: processes that share the weights and the micro-batches of a step; the number of these does not
            change.

    Returns:
        The time of each stage, the sum of these, and the memory of one process in the stage that needs most. A time is
        unknown if the device's speed is not known, or the processes cannot divide a step's micro-batches.
    """
    hours, least = list[PlanFigure](), list[PlanFigure]()
    counted = [count_stage(config, text_card, layout) for config in stages]
    for config, (model, counts) in zip(stages, counted, strict=True):
        n_batches = config.optim.accumulation or 1
        if n_batches % n_devices:
            key, title = _name_time(config, device)
            why = f"{n_devices} processes cannot divide {n_batches} micro-batches a step: set optim.accumulation"
            time = make_unknown(key, TRAINING, title, "s", why)
        else:
            n_frames = config.max_steps * config.data.batch_frames * n_batches
            time = _mark_as_upper_bound(_estimate_time(config, counts, book, device, n_devices, n_frames), config)
        memory = estimate_memory(config, model, counts, book, device, n_devices)
        hours.append(replace(time, title=f"{time.title}{_describe_misfit(memory, device)}"))
        least.append(memory)
    preset = stages[0].model.preset
    where = device if n_devices == 1 else f"{n_devices} × {device}"
    largest = max(range(len(stages)), key=lambda number: least[number].value or 0.0)
    most = least[largest]
    spare = _describe_spare(stages[largest], *counted[largest], device, n_devices)
    misfit, at_most = _describe_misfit(most, device), ", at most" if any(map(_may_end_early, stages)) else ""
    title = f"training of {preset} on {where}{at_most}{misfit}"
    each_device = "" if n_devices == 1 else " each"
    return [
        *hours,
        sum_figures(f"training.{preset}.{device}.s", TRAINING, title, hours),
        replace(
            most,
            key=f"training.{preset}.{device}.bytes",
            title=f"memory of training {preset} on {where}{each_device}{misfit}{spare}",
        ),
    ]


def _describe_misfit(memory: PlanFigure, device: str) -> str:
    """Returns a remark for a title if the memory is more than the device has; empty if it fits or is unknown."""
    known = find_known_gpu(device)
    if known is None or memory.value is None or memory.value <= GPU_BYTES[known]:
        return ""
    return f", does not fit into {GPU_BYTES[known] / 1e9:,.0f} GB"


def _describe_spare(config: TrainConfig, model: FrontEnd, counts: PassCounts, device: str, n_devices: int) -> str:
    """Returns a remark for a title if a training that recomputes activations fits the device without doing so too."""
    known = find_known_gpu(device)
    if known is None or not config.hardware.activation_checkpointing:
        return ""
    whole = config.model_copy(
        update={"hardware": config.hardware.model_copy(update={"activation_checkpointing": False})}
    )
    needed = estimate_memory(whole, model, counts, RateBook([]), device, n_devices).value
    if needed is None or needed > GPU_BYTES[known]:
        return ""
    return f", {needed / 1e9:,.0f} of {GPU_BYTES[known] / 1e9:,.0f} GB with hardware.activation_checkpointing=false"


def _may_end_early(config: TrainConfig) -> bool:
    """Returns whether a stage ends as soon as it reaches an accuracy, before its last step."""
    return config.shares.main == "copying" and config.accuracy is not None


def _mark_as_upper_bound(time: PlanFigure, config: TrainConfig) -> PlanFigure:
    """Returns a stage's time, called an upper bound in its texts if the stage may end before its last step."""
    if not _may_end_early(config) or time.value is None:
        return time
    ends = f"the stage ends at an accuracy of {config.accuracy:.0%}, usually before its last step"
    return replace(
        time, title=f"{time.title}, at most", formula=f"at most {time.formula}", basis=f"{time.basis}; {ends}"
    )


def _name_time(config: TrainConfig, device: str) -> tuple[str, str]:
    """Returns key and title of a stage's time."""
    preset = config.model.preset
    return f"training.{preset}.{device}.{config.stage}.s", f"stage {config.stage} of {preset} on {device}"


def _estimate_time(
    config: TrainConfig, counts: PassCounts, book: RateBook, device: str, n_devices: int, n_frames: float
) -> PlanFigure:
    """Estimates the time of one stage: frames times a measured rate, or operations divided by the device's speed.

    On a GPU without a measured rate, it is at least the time to launch the operations. It is limited to the stage's
    `max_hours`, and unknown if the device's speed is not known.
    """
    key, title = _name_time(config, device)
    if (found := book.find_cost("train", name_training(config), device)) is not None:
        cost, origin = found
        formula = f"{config.max_steps:,} steps, {n_frames:,.0f} frames × {cost.seconds:.4g} s / {n_devices}"
        return _limit_hours(
            PlanFigure(key, TRAINING, title, n_frames * cost.seconds / n_devices, "s", formula, str(origin)), config
        )
    peak, mfu, basis = _get_speed(book, device, config)
    if peak is None:
        return make_unknown(key, TRAINING, title, "s", basis)
    n_batches = n_frames / config.data.batch_frames / n_devices
    flops = counts.flops
    launches_s = LAUNCH_S * counts.n_operations if find_known_gpu(device) is not None else 0.0
    if n_frames * flops / (n_devices * peak * mfu) < n_batches * launches_s:
        formula = f"{n_batches:,.0f} micro-batches × {launches_s * 1e3:,.3g} ms to launch the operations"
        basis = f"{LAUNCH_S * 1e6:.0f} µs per launch are assumed; the launches take longer than the computation"
        return _limit_hours(PlanFigure(key, TRAINING, title, n_batches * launches_s, "s", formula, basis), config)
    formula = (
        f"{n_frames:,.0f} frames × {flops / 1e9:,.3g} GFLOP / ({n_devices} × {peak / 1e12:,.4g} TFLOP/s × {mfu:.0%})"
    )
    return _limit_hours(
        PlanFigure(key, TRAINING, title, n_frames * flops / (n_devices * peak * mfu), "s", formula, basis), config
    )


def _limit_hours(figure: PlanFigure, config: TrainConfig) -> PlanFigure:
    """Returns the time of a stage, limited to the stage's `max_hours` if it has any."""
    if config.max_hours is None or figure.value is None or figure.value <= config.max_hours * 3600:
        return figure
    formula = f"max_hours {config.max_hours:g}, which is less than {figure.formula}"
    return replace(figure, value=config.max_hours * 3600, formula=formula)


def name_training(config: TrainConfig) -> str:
    """Returns the name under which rates of a stage of training are stored: model/stage/precision."""
    return f"{name_model(config)}/{config.stage}/{config.hardware.precision}"


def name_model(config: TrainConfig) -> str:
    """Returns the name of what is trained, under which its MFU is stored: the preset, with /lora for adapters alone."""
    return config.model.preset if config.lora is None else f"{config.model.preset}/lora"


def _get_speed(book: RateBook, device: str, config: TrainConfig) -> tuple[float | None, float, str]:
    """Returns a device's operations per second, the share that a training reaches, and the source of both.

    If the speed is not known it is None, and the source says why.
    """
    part = find_known_gpu(device)
    if part is None:
        found = book.find(lambda rates: rates.costs, lambda row: _is_flop_cost(row, device))
        if found is None:
            known = ", ".join(PEAK_FLOPS)
            return None, 0.0, f"{device} has no known speed, and this training was not measured on it (known: {known})"
        return 1 / found[0].seconds, 1.0, f"operations per second as measured with another preset: {found[1]}"
    peak, model = get_peak_flops(part, config), name_model(config)
    own = book.find(lambda rates: rates.mfu, lambda row: row.model in ("", model) and is_device(row.device, device))
    if own is not None:
        return peak, own[0].share, f"data sheet; MFU {own[1]}"
    others = [f"{row.share:.1%} by {row.model} on {row.device}" for rates in book.rates for row in rates.mfu]
    measured = f"; measured were {', '.join(others)}" if others else ""
    basis = f"{AIMED_MFU:.0%} is assumed, the aim, because no training of {model} was measured on {part}{measured}"
    return peak, AIMED_MFU, f"data sheet; a model FLOPs utilisation (MFU) of {basis}"


def get_peak_flops(part: str, config: TrainConfig) -> float:
    """Returns the operations per second of a known GPU in the precision of a training, from its data sheet."""
    return (PEAK_FLOPS if config.hardware.precision == "bf16-mixed" else PEAK_FLOPS_FP32)[part]


def _is_flop_cost(row: StepCost, device: str) -> bool:
    """Returns whether a cost is the measured time of one floating-point operation on a device.

    The cost's device may be a part of the device's name.
    """
    return row.step == "flop" and is_device(row.device, device)


def estimate_memory(
    config: TrainConfig, model: FrontEnd, counts: PassCounts, book: RateBook, device: str, n_devices: int
) -> PlanFigure:
    """Estimates the memory of one process: its share of the weights, all activations of its micro-batch, and copies.

    Copies are those of `count_copied_bytes`, or with several shards two gathered layers and all weights outside the
    layers. On a CPU, the measured memory of a process is added if it is known. Key and title of the figure are empty.

    Args:
        config: configuration of the training.
        model: on the meta device.
        counts: of its pass.
        book: the rates.
        device: cpu, or a GPU's name.
        n_devices: number of processes; those of one replica share the weights.
    """
    weights = count_weight_bytes(config, model)
    activations = count_activation_bytes(config, model, counts)
    n_shards = n_devices // config.hardware.replicas if n_devices % config.hardware.replicas == 0 else n_devices
    if n_shards == 1:
        beside, what = count_copied_bytes(config, model), "bf16 copies"
    else:  # two layers in the type of products, because FSDP2 gathers the next one while one computes
        of_layers = sum(each.numel() for each in model.lm.transformer.parameters())
        of_depth = sum(each.numel() for each in model.lm.depformer.parameters())
        outside = sum(each.numel() for each in model.parameters()) - of_layers - of_depth
        product_bytes = 2 if config.hardware.precision == "bf16-mixed" else 4
        beside, what = 2 * of_layers / config.model.num_layers * product_bytes + 8 * outside, "gathered"
    known = [(rates.training_bytes, rates.origin) for rates in book.rates if rates.training_bytes is not None]
    base, origin = known[0] if known and device == CPU else (0.0, None)
    formula = f"weights {weights:,.0f} / {n_shards} + activations {activations:,.0f} + {what} {beside:,.0f}"
    value = weights / n_shards + activations + beside + base
    if origin is not None:
        return PlanFigure(
            "", TRAINING, "", value, "bytes", f"{formula} + process {base:,.0f}", f"calculated; process: {origin}"
        )
    return PlanFigure(
        "", TRAINING, "", value, "bytes", formula, "calculated; memory of the device's driver is not included"
    )


def estimate_callers(preset: str, book: RateBook, device: str) -> PlanFigure:
    """Estimates the number of concurrent callers in real time on one device; unknown if no step was measured there.

    Callers are in time if a step takes at most the share `LimitsConfig.budget_share` of a frame. Above the largest
    number that was measured, times are extrapolated linearly, if that number is in time. They are fewer than those with
    which a server was seen to be late (`StepTimes.late_from`).
    """
    key, title = f"callers.{preset}.{device}", f"concurrent callers of {preset} on one {device}"

    def fits(row: StepTimes) -> bool:
        return row.preset == preset and is_device(row.device, device)

    found = book.find(lambda rates: rates.steps, fits)
    if found is None:
        how = "kame bench --checkpoint …" if device == CPU else "kame bench --device cuda --checkpoint …"
        why = f"a step of {preset} on {device} was not measured: run `{how}` there with a checkpoint of it"
        return make_unknown(key, SERVING, title, "callers", why)
    times = dict(sorted(found[0].step_s.items()))
    share = float(LimitsConfig.model_fields["budget_share"].default)
    budget_s = share * FRAME_S
    growth_s, begin_s = (
        np.polyfit(list(times), list(times.values()), 1) if len(times) > 1 else (0.0, next(iter(times.values())))
    )
    in_time = [n for n, step_s in times.items() if step_s <= budget_s]
    beyond = int((budget_s - begin_s) / growth_s) if growth_s > 0 else 0
    most = max(in_time, default=0)
    if most == max(times):  # all measured numbers are in time: extrapolate linearly
        most = max(most, beyond)
    formula = (
        f"a step of n callers takes {begin_s * 1e3:.3g} + n × {growth_s * 1e3:.3g} ms; at most {share:.0%} of 80 ms "
        "are used; "
        "a server considers its slow steps and admits somewhat fewer callers"
    )
    if (late_from := found[0].late_from) is not None and most >= late_from:
        most, formula = late_from - 1, f"{formula}; with {late_from} callers, frames were late"
    return PlanFigure(key, SERVING, title, float(most), "callers", formula, str(found[1]))
