"""The script stage: makes one or several dialogues of each item, as two people would speak, in one of the forms."""

import math
import random
from collections.abc import Sequence
from typing import Any, ClassVar

from data_schemas import ids
from data_schemas.config import FormsConfig, ScriptConfig
from data_schemas.fingerprint import dump_relevant_fields
from data_schemas.records import Dialogue, Item, Provenance, Reject, Turn
from pipelines.script.exchange import make_exchange
from pipelines.script.forms.table import FORMS, draw_form
from pipelines.script.rejections import NotAskable
from pipelines.stage import StageResult, make_reject
from spoken.lexicon import load_lexicon
from spoken.reader import Reader, Unspeakable, use_reader

METHOD = "rules-13"
"""Name of this way of wording in provenance."""

_MAX_DRAWS = 40
"""Draws for a dialogue unlike the item's others; leads alone give hundreds, so more draws would not help."""


class ScriptStage:
    """Makes the dialogues of an item by rules alone; rejects what cannot be asked and answered aloud.

    Args:
        variants: mean number of dialogues made from an item; the fractional part is decided by seed for each item.

    Raises:
        ConfigError: the lexicon's file is unusable.
    """

    name: ClassVar[str] = "script"
    version: ClassVar[int] = 11
    inputs: ClassVar[tuple[str, ...]] = ("pictures",)
    input_types: ClassVar[tuple[type, ...]] = (Item,)
    output_type: ClassVar[type] = Dialogue

    def __init__(self, config: ScriptConfig, forms: FormsConfig, variants: float, seed: int) -> None:
        self._config = config
        self._forms = forms
        self._variants = variants
        self._seed = seed
        self._lexicon = load_lexicon(config.lexicon)

    def get_fingerprint_fields(self) -> dict[str, Any]:
        """Returns what determines the dialogues besides the inputs; `version` identifies the rules."""
        return {
            "config": dump_relevant_fields(self._config),
            "forms": dump_relevant_fields(self._forms) | {"shares": self._forms.shares.get_relevant_shares()},
            "lexicon": self._lexicon.digest,
            "variants": self._variants,
            "seed": self._seed,
        }

    def run(self, batch: Sequence[tuple[Item]]) -> StageResult[Dialogue]:
        """Returns the dialogues of each item, all with different words, or its reject.

        An item of which one wording is rejected is rejected as a whole. One that yields fewer dialogues than wanted
        (nothing varies: one form, no leads) has a reject for the missing ones, `no_other_variant`.
        """
        with use_reader(Reader(self._lexicon)):
            return self._run(batch)

    def _run(self, batch: Sequence[tuple[Item]]) -> StageResult[Dialogue]:
        """Makes the dialogues and rejects of a batch with the reader in use."""
        outputs: list[Dialogue] = []
        rejects: list[Reject] = []
        for (item,) in batch:
            try:
                made = self._make_dialogues(item)
            except (NotAskable, Unspeakable) as refusal:
                rejects.append(make_reject(item, self.name, refusal.reason, refusal.detail))
                continue
            except Exception as error:
                error.add_note(f"This is a bug, found in the stage {self.name} at item {item.item_id}.")
                raise
            wanted = self._count_variants(item)
            outputs += made
            if not made:
                rejects.append(make_reject(item, self.name, "no_form_fits", "none of the forms with a share fits it"))
            elif len(made) < wanted:
                detail = f"{len(made)} of {wanted} dialogues made: others would say the same words"
                rejects.append(make_reject(item, self.name, "no_other_variant", detail))
        return StageResult(outputs, rejects)

    def _count_variants(self, item: Item) -> int:
        """Returns the number of dialogues wanted of an item; the fractional part of the mean is drawn by seed."""
        whole = math.floor(self._variants)
        draw = random.Random(ids.derive_seed(self._seed, item.item_id, "variants")).random()
        return whole + (draw < self._variants - whole)

    def _make_dialogues(self, item: Item) -> list[Dialogue]:
        """Makes the dialogues of an item, all with different words; there may be fewer than wanted, or none."""
        made: dict[tuple[str, ...], Dialogue] = {}
        for variant in range(self._count_variants(item)):
            for draw in range(_MAX_DRAWS):
                dialogue = self._make_dialogue(item, variant, draw)
                if dialogue is None:
                    break
                words = tuple(turn.spoken_text for turn in dialogue.turns)
                if words not in made:
                    made[words] = dialogue
                    break
        return list(made.values())

    def _make_dialogue(self, item: Item, variant: int, draw: int) -> Dialogue | None:
        """Makes dialogue number `variant` of an item, with other words for each `draw`; None if no form fits."""
        seed = ids.derive_seed(self._seed, item.item_id, self.name, variant, draw)
        exchange, rng = make_exchange(item, self._config, seed), random.Random(ids.derive_seed(seed, "form"))
        form = draw_form(exchange, self._forms, rng)
        if form is None:
            return None
        turns = FORMS[form].write(exchange, self._forms, rng)
        return _make_record(item, variant, form, turns, self._seed)


def _make_record(item: Item, variant: int, form: str, turns: tuple[Turn, ...], seed: int) -> Dialogue:
    """Makes the record of a dialogue from its item, form and turns."""
    return Dialogue.from_item(
        item,
        variant,
        form=form,
        question=item.question,
        answer=item.answer,
        turns=turns,
        provenance=Provenance.from_script(METHOD, seed=seed),
    )
