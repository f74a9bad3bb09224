"""What becomes of guesses: answers of a back-end to a question that the user has not finished.

The server, training and evaluation must treat guesses alike; all three take their rule from here.
"""

from typing import Final, Literal

Guesses = Literal["feed", "withdraw", "hold"]
"""How guesses are treated.

- `feed`: a guess is fed to the front-end whenever it arrives, as in KAME's release.
- `withdraw`: as `feed`, until the user's turn has ended; what has not been fed by then is discarded.
- `hold`: no guess is fed. The newest answer waits until the user's turn has ended, and is fed then if it is an answer
  to the whole question. A small front-end cannot tell a guess from the answer, and says it (docs/evaluation.md).
"""

TURN_END_SILENCE_S: Final = 0.7
"""Silence after which a server takes the user's turn for ended, seconds, unless it is configured otherwise."""
