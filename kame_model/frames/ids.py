"""Special ids, which are neither pieces of text nor audio codes.

Two more depend on the model's sizes and are computed where they are used: the initial id of the text, which is also
the start id of the oracle, is `text_card`, and the initial id of the audio is `card` (moshi,
`LMModel.text_initial_token_id` and `initial_token_id`).
"""

from typing import Final

END_OF_PADDING_ID: Final = 0
"""Text id of the last frame before words begin after a silence (moshi, `LMModel`, `existing_text_end_padding_id`)."""

PADDING_ID: Final = 3
"""Text and oracle id of a frame without a token (moshi, `LMModel`, `existing_text_padding_id`)."""

ZERO_ID: Final = -1
"""As input: no embedding; as label: no loss (moshi, `LMModel.zero_token_id`)."""
