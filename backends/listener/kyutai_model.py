"""Kyutai's speech-to-text model on moshi: batch slots for callers, one text token per frame of 80 ms."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from backends.engine import Samples
from data_schemas.errors import BackendError, ConfigError
from data_schemas.units import FRAME_N_SAMPLES

if TYPE_CHECKING:
    from moshi.models.loaders import CheckpointInfo

_CONFIG = "config.json"
_HUB_NAMES = {"moshi_name": "model.safetensors", "mimi_name": "mimi-pytorch-e351c8d8@125.safetensors"}
"""Default file names where a `config.json` of Kyutai's has none (moshi/models/loaders.py; huggingface.co/kyutai)."""

_ARGUMENTS = {"moshi_weights": "moshi_name", "mimi_weights": "mimi_name", "mimi_config_path": "mimi_config_name"}
"""moshi's argument for a file, and the key of its name in `config.json`."""


_N_WARM_UP = 3
"""Steps: moshi captures its CUDA graphs in the second call of each function."""


class KyutaiModel:
    """The loaded model; `step` may be called by one thread inside a `streaming` block.

    Raises:
        ConfigError: the folder contains no such model, or the repository holds another kind of model.
        BackendError: the download fails, or the model does not load.
    """

    def __init__(self, path: str, repo: str, revision: str, device: str) -> None:
        import torch
        from moshi.models.lm import LMGen

        info = _load_folder(Path(path)) if path else _fetch_from_hub(repo, revision or None)
        where = path or repo
        try:
            self._mimi = info.get_mimi(device)
            lm = info.get_moshi(device, torch.float32 if device == "cpu" else torch.bfloat16)
            self._text = info.get_text_tokenizer()
            if self._text.get_piece_size() < lm.text_card:
                raise ValueError(f"{info.tokenizer.name} has fewer pieces than the model has ids ({lm.text_card})")
        except (OSError, RuntimeError, TypeError, KeyError, ValueError, AssertionError) as error:
            what = (str(error).splitlines() or [type(error).__name__])[0]
            raise BackendError(f"{where} does not load: {what}", "Download it again.") from error
        self._device = device
        self._gen = LMGen(lm, use_sampling=False, support_out_of_sync=True)
        self._unsaid = {-2, lm.text_padding_token_id, lm.end_of_text_padding_id}  # -2: ungenerated_token_id
        self.delay_s = float(info.stt_config.get("audio_delay_seconds", 0.0))
        self.prefix_s = float(info.stt_config.get("audio_silence_prefix_seconds", 0.0))

    @contextmanager
    def streaming(self, n_slots: int) -> Iterator[None]:
        """Gives the model this many slots for the duration of the block, each in its initial state.

        Work that is done only once and takes seconds, such as capturing CUDA graphs, is done before the block begins.
        """
        import torch

        self._n_slots = n_slots
        self._fresh: set[int] = set()
        with torch.no_grad(), self._skip_compilation(), self._mimi.streaming(n_slots), self._gen.streaming(n_slots):
            self._run_warm_up()
            yield

    def step(self, frames: Mapping[int, Samples], new: Sequence[int]) -> dict[int, int | None]:
        """Processes one frame of some slots, 1,920 samples each at 24 kHz; the other slots do not move.

        Args:
            frames: frames by slot.
            new: slots to reset before the step.

        Returns:
            The text token of each slot of `frames`; None for no word.
        """
        import torch

        if new:
            self._reset(new)
        if not frames:
            return {}
        batch = torch.zeros(self._n_slots, 1, FRAME_N_SAMPLES)
        for slot, frame in frames.items():
            batch[slot, 0] = torch.from_numpy(np.ascontiguousarray(frame))
        active = self._make_mask(frames)
        self._mimi.set_exec_mask(active)
        codes = self._mimi.encode(batch.to(self._device))
        begun = [slot for slot in frames if slot in self._fresh]
        if begun:  # the first step returns the initial ids whatever its input is, so the first frame is processed twice
            self._gen.set_exec_mask(self._make_mask(begun))
            self._gen.step(codes)
            self._fresh -= set(begun)
        self._gen.set_exec_mask(active)
        said = self._gen.step(codes)
        assert said is not None  # support_out_of_sync: never
        tokens = said[:, 0, 0].tolist()
        return {slot: None if tokens[slot] in self._unsaid else tokens[slot] for slot in frames}

    def starts_word(self, token: int) -> bool:
        """Returns whether a token begins a word."""
        return str(self._text.id_to_piece(token)).startswith("▁")

    def decode(self, tokens: Sequence[int]) -> str:
        """Decodes tokens to text."""
        return str(self._text.decode(list(tokens))).strip()

    def _run_warm_up(self) -> None:
        """Runs steps with silence, which capture the CUDA graphs, and resets all slots."""
        silence = np.zeros(FRAME_N_SAMPLES, np.float32)
        slots = range(self._n_slots)
        for number in range(_N_WARM_UP):
            self.step(dict.fromkeys(slots, silence), list(slots) if number == 0 else [])
        self._reset(slots)

    def _reset(self, slots: Sequence[int]) -> None:
        """Resets the streams of some slots."""
        mask = self._make_mask(slots)
        self._mimi.reset_streaming(mask)
        self._gen.reset_streaming(mask)
        self._fresh |= set(slots)

    def _make_mask(self, slots: Any) -> Any:
        """Returns a mask, bool [n_slots], that is True for these slots."""
        import torch

        mask = torch.zeros(self._n_slots, dtype=torch.bool)
        mask[list(slots)] = True
        return mask.to(self._device)

    def _skip_compilation(self) -> AbstractContextManager[None]:
        """Returns a context without moshi's `torch.compile` on a CPU, where it needs a C++ compiler and a minute."""
        from moshi.utils.compile import no_compile

        return no_compile() if self._device == "cpu" else nullcontext()


def _load_folder(folder: Path) -> "CheckpointInfo":
    """Returns moshi's description of a model in a folder; its `config.json` has the names of the files.

    Raises:
        ConfigError: a file is missing, `config.json` cannot be read, or the model is not a recogniser.
    """
    from moshi.models.loaders import CheckpointInfo

    try:
        config = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
        names = _HUB_NAMES | {key: value for key, value in config.items() if key.endswith("_name")}
        wanted = {argument: folder / names[key] for argument, key in _ARGUMENTS.items() if key in names}
        tokenizer = folder / config["tokenizer_name"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{folder} contains no model of Kyutai's: {error!r}.", f"It needs {_CONFIG} and the files that it names."
        ) from error
    missing = [file.name for file in (*wanted.values(), tokenizer) if not file.is_file()]
    if missing:
        raise ConfigError(f"{folder} lacks {', '.join(missing)}.", "Copy the whole model.")
    _check_type(config, str(folder))
    return CheckpointInfo.from_hf_repo("", tokenizer=tokenizer, config_path=folder / _CONFIG, **wanted)


def _fetch_from_hub(repo: str, revision: str | None) -> "CheckpointInfo":
    """Downloads a model from the Hub, unless it is not a recogniser, and returns moshi's description of it.

    `revision` None: the newest. Files that are in the Hub's cache are not downloaded again.

    Raises:
        ConfigError: the model is not a recogniser.
        BackendError: the download fails.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    from moshi.models.loaders import CheckpointInfo

    try:
        config = hf_hub_download(repo, _CONFIG, revision=revision)  # without a config, moshi assumes Moshi 7B
        _check_type(json.loads(Path(config).read_text(encoding="utf-8")), repo)
        return CheckpointInfo.from_hf_repo(repo, config_path=config, revision=revision)
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise BackendError(
            f"Cannot download {repo} from the Hub: {str(error).splitlines()[0]}",
            "Check the network, or download the model and set its folder: path=DIR.",
        ) from error


def _check_type(config: dict[str, Any], where: str) -> None:
    """Raises ConfigError if a model's `config.json` is not of a recogniser."""
    kind = config.get("model_type", "moshi")  # as moshi has it
    if kind != "stt":
        raise ConfigError(f"{where} is a {kind} model, not a speech recogniser.", "Name a speech-to-text model.")
