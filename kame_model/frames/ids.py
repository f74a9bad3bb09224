"""Ids that stand for no piece of text and no code of sound.

Two more depend on the model's sizes and are written where they are used: the text's initial id, which is the oracle's
start id too, is `text_card`, the audio's initial id is `card` (moshi, `LMModel.text_initial_token_id` and
`initial_token_id`).
"""

from typing import Final

END_OF_PADDING_ID: Final = 0
"""The text's frame before words begin after a silence (moshi, `LMModel`, `existing_text_end_padding_id`)."""

PADDING_ID: Final = 3
"""The text's frame without a token, and the oracle's (moshi, `LMModel`, `existing_text_padding_id`)."""

ZERO_ID: Final = -1
"""No embedding as input, no loss as label (moshi, `LMModel.zero_token_id`)."""
