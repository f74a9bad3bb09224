"""Run by coqui's environment: writes a VITS of random weights into a folder, as coqui-tts would have trained it.

`python make_vits.py FOLDER N_SPEAKERS` writes model.pth, config.json and, for several speakers, speakers.pth.
"""

import sys
from pathlib import Path
from typing import Any

import torch

from backends.workers.engines.torchaudio_on_cpu import disable_cuda_library

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'"


def config_of(folder: Path, n_speakers: int) -> Any:
    from TTS.tts.configs.shared_configs import CharactersConfig
    from TTS.tts.configs.vits_config import VitsConfig
    from TTS.tts.models.vits import VitsArgs

    small = VitsArgs(
        hidden_channels=32,
        hidden_channels_ffn_text_encoder=64,
        num_heads_text_encoder=2,
        num_layers_text_encoder=2,
        num_layers_posterior_encoder=2,
        num_layers_flow=2,
        upsample_initial_channel_decoder=32,
        use_speaker_embedding=n_speakers > 1,
        speaker_embedding_channels=16,
        speakers_file=str(folder / "speakers.pth") if n_speakers > 1 else None,
        init_discriminator=False,
    )
    letters = CharactersConfig(
        characters_class="TTS.tts.models.vits.VitsCharacters",
        pad="_",
        eos="",
        bos="",
        blank="<BLNK>",
        characters=LETTERS,
        punctuations=" ,.?!;:",
        phonemes="",
    )
    return VitsConfig(model_args=small, characters=letters, use_phonemes=False, text_cleaner="no_cleaners")


def main(folder: Path, n_speakers: int) -> None:
    disable_cuda_library()
    from TTS.tts.models.vits import Vits

    torch.manual_seed(1)
    config = config_of(folder, n_speakers)
    if n_speakers > 1:
        torch.save({f"speaker_{number}": number for number in range(n_speakers)}, folder / "speakers.pth")
    model = Vits(config)
    torch.save({"model": model.state_dict()}, folder / "model.pth")
    config.save_json(folder / "config.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
