"""Run by whisperx's environment: writes a wav2vec2 of random weights with English letters into a folder.

`python make_wav2vec2.py FOLDER` writes what `Wav2Vec2ForCTC.from_pretrained` and its processor read.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import (
    Wav2Vec2Config,
    Wav2Vec2CTCTokenizer,
    Wav2Vec2FeatureExtractor,
    Wav2Vec2ForCTC,
    Wav2Vec2Processor,
)

SYMBOLS = ["<pad>", "<s>", "</s>", "<unk>", "|", "'", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ"]


def main(folder: Path) -> None:
    torch.manual_seed(1)
    config = Wav2Vec2Config(
        vocab_size=len(SYMBOLS),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        conv_dim=(16,) * 7,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=2,
        pad_token_id=0,
    )
    Wav2Vec2ForCTC(config).save_pretrained(folder)
    vocabulary = folder / "vocab.json"
    vocabulary.write_text(json.dumps({symbol: number for number, symbol in enumerate(SYMBOLS)}))
    tokenizer = Wav2Vec2CTCTokenizer(str(vocabulary))
    Wav2Vec2Processor(Wav2Vec2FeatureExtractor(), tokenizer).save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
