"""The wording stage: a chat model rewords dialogues; wordings that fail the checks are replaced by the rules' words."""
