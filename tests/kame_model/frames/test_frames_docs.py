"""The table of `docs/frames.md` is what the code lays out."""

from pathlib import Path

import numpy as np
import sentencepiece

from data_schemas.code_layout import CodeLayout
from data_schemas.records import WordTiming
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID, ZERO_ID
from kame_model.frames.inner_monologue import place_text
from kame_model.frames.oracle_stream import make_oracle_stream
from kame_model.frames.sequence import make_columns, make_labels
from kame_model.text.tokenizer import Tokenizer
from tests.support.vocabularies import make_vocabulary

DOCS = Path(__file__).resolve().parents[3] / "docs" / "frames.md"
N_FRAMES, CARD = 10, 64
WORDS = (("It's", 0.24, 0.4), ("sixty", 0.4, 0.6), ("litres", 0.6, 0.8))


def table(tokenizer: Tokenizer) -> str:
    pieces = sentencepiece.SentencePieceProcessor(str(tokenizer.path))
    names = {PADDING_ID: "3", END_OF_PADDING_ID: "0", ZERO_ID: "-1", tokenizer.text_card: "`text_card`"}

    def text_name(token: int) -> str:
        return names.get(token) or str(pieces.id_to_piece(token))

    def code_name(code: int, codebook: str) -> str:
        return {CARD: "`card`", ZERO_ID: "-1"}.get(code) or f"{codebook}{code}"

    words = [
        WordTiming(word=word, start_s=start_s, end_s=end_s, score=1.0, method="") for word, start_s, end_s in WORDS
    ]
    codes = np.tile(np.arange(N_FRAMES, dtype=np.int32), (2, 1))
    text = place_text(words, tokenizer, N_FRAMES).tokens
    columns = make_columns(text, codes, codes, tokenizer.text_card, CodeLayout.make_mimi(2, CARD))
    events = [(1, tokenizer.encode("Nine litres.")), (3, tokenizer.encode("Sixty litres."))]
    oracle = make_oracle_stream(events, N_FRAMES + 1, tokenizer.text_card)
    text, audio = make_labels(columns, tokenizer.text_card, CARD)
    lines = [
        "| p | reads | text | oracle | first code | second code | is to say | first code | second code |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for p in range(N_FRAMES + 1):
        cells = (
            str(p),
            f"frame {p - 1}" if p else "initial",
            text_name(int(columns[0, p])),
            text_name(int(oracle[p])),
            code_name(int(columns[1, p]), "a"),
            code_name(int(columns[2, p]), "b"),
            text_name(int(text[p])),
            code_name(int(audio[0, p]), "a"),
            code_name(int(audio[1, p]), "b"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def test_the_table_of_the_docs_is_what_the_code_lays_out(tmp_path: Path) -> None:
    assert table(make_vocabulary(tmp_path)) in DOCS.read_text(encoding="utf-8")
