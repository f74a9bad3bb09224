"""Simulates a caller's surroundings: level, noise floor, room echo and telephone band; word timings stay valid."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backends.acoustics import Room, filter_telephone_band, make_coloured_noise, put_in_room
from data_schemas.config import SurroundingsConfig
from data_schemas.records import Surroundings
from pipelines.audio import PEAK_LIMIT, Sound, measure_rms_dbfs


@dataclass(frozen=True, slots=True, kw_only=True)
class SurroundingsPlan:
    """What is applied to a channel. The noise's power falls as frequency to the power of `noise_slope` (1: pink)."""

    level_dbfs: float
    snr_db: float | None
    noise_slope: float
    noise_seed: int
    room: Room | None
    is_telephone: bool


def draw_plan(config: SurroundingsConfig, draw: random.Random) -> SurroundingsPlan:
    """Draws level, noise, room and telephone band of a channel by the configured shares and ranges.

    A change of one share does not change what is drawn for the others.
    """
    has_noise, has_room, is_telephone = (
        draw.random() < share for share in (config.noise_share, config.room_share, config.telephone_share)
    )
    level_dbfs = draw.uniform(config.level_min_dbfs, config.level_max_dbfs)
    snr_db = draw.uniform(config.snr_min_db, config.snr_max_db)
    noise_slope, noise_seed = draw.uniform(0, 2), draw.getrandbits(63)
    room = _draw_room(round(draw.uniform(config.rt60_min_s, config.rt60_max_s), 3), draw)
    return SurroundingsPlan(
        level_dbfs=level_dbfs,
        snr_db=snr_db if has_noise else None,
        noise_slope=noise_slope,
        noise_seed=noise_seed,
        room=room if has_room else None,
        is_telephone=is_telephone,
    )


def _draw_room(rt60_s: float, draw: random.Random) -> Room:
    """Draws a room of a home or office, with a microphone 0.3 to 0.9 m from the caller, and both off the walls."""
    size = (draw.uniform(3.5, 6.5), draw.uniform(3.0, 5.0), draw.uniform(2.4, 3.0))
    caller = (draw.uniform(1.2, size[0] - 1.2), draw.uniform(1.2, size[1] - 1.2), draw.uniform(1.1, 1.6))
    away_m, angle = draw.uniform(0.3, 0.9), draw.uniform(0, 2 * np.pi)
    microphone = (
        caller[0] + away_m * float(np.cos(angle)),
        caller[1] + away_m * float(np.sin(angle)),
        caller[2] - draw.uniform(0.1, 0.4),
    )
    return Room(size_m=size, caller_m=caller, microphone_m=microphone, rt60_s=rt60_s)


def apply_surroundings(speech: Sound, spoken: Sequence[slice], plan: SurroundingsPlan) -> tuple[Sound, Surroundings]:
    """Returns a channel as it is heard in the planned surroundings, of the same length, and a description of these.

    The levels are below the planned ones if the peak would exceed `PEAK_LIMIT`; the description has the actual ones.

    Args:
        speech: clean speech, [n_samples].
        spoken: the slices in which somebody speaks; the level is measured there. Empty if nobody does.
    """
    is_telephone = plan.is_telephone
    heard = speech if plan.room is None else put_in_room(speech, plan.room)
    heard = filter_telephone_band(heard) if is_telephone else heard
    said_dbfs = measure_rms_dbfs(np.concatenate([heard[each] for each in spoken])) if spoken else plan.level_dbfs
    heard = heard * 10 ** ((plan.level_dbfs - said_dbfs) / 20)
    if plan.snr_db is not None:
        noise = make_coloured_noise(len(speech), plan.noise_slope, plan.noise_seed)
        noise = filter_telephone_band(noise) if is_telephone else noise
        heard = heard + noise * 10 ** ((plan.level_dbfs - plan.snr_db - measure_rms_dbfs(noise)) / 20)
    gain = min(1.0, PEAK_LIMIT / max(float(np.abs(heard).max(initial=0.0)), 1e-9))
    level_dbfs = plan.level_dbfs + 20 * float(np.log10(gain))
    return (heard * gain).astype(np.float32), Surroundings(
        level_dbfs=round(level_dbfs, 3),
        noise_dbfs=None if plan.snr_db is None else round(level_dbfs - plan.snr_db, 3),
        room_rt60_s=None if plan.room is None else plan.room.rt60_s,
        is_telephone=is_telephone,
    )
