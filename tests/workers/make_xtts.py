"""Run by coqui's environment: writes a small XTTS of random weights into a folder, with the files of a released one.

`python make_xtts.py FOLDER` writes model.pth, config.json, vocab.json (letters) and speakers_xtts.pth (two speakers).
"""

import sys
from pathlib import Path
from typing import Any

import torch

from backends.workers.engines.torchaudio_on_cpu import disable_cuda_library

WIDTH = 64
SYMBOLS = [*"abcdefghijklmnopqrstuvwxyz'.,!?;:", "[STOP]", "[UNK]", "[SPACE]", "[START]", "[en]"]


def config_of(folder: Path) -> Any:
    from TTS.tts.configs.xtts_config import XttsArgs, XttsConfig

    small = XttsArgs(
        tokenizer_file=str(folder / "vocab.json"),
        gpt_layers=1,
        gpt_n_model_channels=WIDTH,
        gpt_n_heads=2,
        gpt_max_audio_tokens=12,  # a random model does not know when to stop
        gpt_num_audio_tokens=66,
        gpt_start_audio_token=64,
        gpt_stop_audio_token=65,
        gpt_use_perceiver_resampler=True,
        decoder_input_dim=WIDTH,
    )
    return XttsConfig(model_args=small, languages=["en", "de"])


def write_letters(file: Path) -> None:
    """A tokenizer that knows one token a letter."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({symbol: at for at, symbol in enumerate(SYMBOLS)}, unk_token="[UNK]"))
    tokenizer.add_special_tokens([symbol for symbol in SYMBOLS if len(symbol) > 1])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.save(str(file))


def main(folder: Path) -> None:
    disable_cuda_library()
    from TTS.tts.layers.xtts.tokenizer import VoiceBpeTokenizer
    from TTS.tts.models.xtts import Xtts

    torch.manual_seed(1)
    write_letters(folder / "vocab.json")
    config = config_of(folder)
    model = Xtts(config)
    model.tokenizer = VoiceBpeTokenizer(vocab_file=str(folder / "vocab.json"))
    model.init_models()
    torch.save({"model": model.state_dict()}, folder / "model.pth")
    config.save_json(folder / "config.json")
    speakers = {
        name: {"gpt_conditioning_latents": torch.randn(1, 32, WIDTH), "speaker_embedding": torch.randn(1, 512, 1)}
        for name in ("Ana", "Bo")
    }
    torch.save(speakers, folder / "speakers_xtts.pth")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
