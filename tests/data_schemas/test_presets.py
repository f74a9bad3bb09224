"""Presets of front-ends: the recipe of a stage of their plan."""

import pytest

from data_schemas.errors import ConfigError
from data_schemas.presets import PRESETS


def test_a_stage_that_a_plan_lacks_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"nano has no stage 'sing'.*speak, copy, dialogues"):
        PRESETS["nano"].make_recipe("sing")
