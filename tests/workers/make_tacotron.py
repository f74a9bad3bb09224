"""Run by coqui's environment: writes a Tacotron 2 of random weights, a model without a speed, into a folder.

`python make_tacotron.py FOLDER` writes model.pth and config.json.
"""

import sys
from pathlib import Path

import torch

from backends.workers.engines.torchaudio_on_cpu import disable_cuda_library
from tests.workers.make_vits import LETTERS


def main(folder: Path) -> None:
    disable_cuda_library()
    from TTS.tts.configs.shared_configs import CharactersConfig
    from TTS.tts.configs.tacotron2_config import Tacotron2Config
    from TTS.tts.models.tacotron2 import Tacotron2

    torch.manual_seed(1)
    letters = CharactersConfig(
        characters_class="TTS.tts.utils.text.characters.Graphemes",
        pad="_",
        eos="~",
        bos="^",
        characters=LETTERS,
        punctuations=" ,.?!;:",
    )
    config = Tacotron2Config(
        characters=letters, use_phonemes=False, text_cleaner="no_cleaners", max_decoder_steps=30, r=2
    )
    model = Tacotron2(config)
    torch.save({"model": model.state_dict()}, folder / "model.pth")
    config.save_json(folder / "config.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
