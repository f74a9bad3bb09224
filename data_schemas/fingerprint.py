"""Fingerprints of outputs for caching: same fingerprint, same content, across runs and machines.

A fingerprint is a pure function of the stage's name and version, the configuration that matters, the digests of
prompts, models and voices, and the inputs' fingerprints. It does not depend on paths, time, ports or workers. It
assumes that a model's digest determines its output, although two processors may round a sample differently.
"""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from data_schemas import ids
from data_schemas.config import Config

SCHEME = 1
"""Version of this scheme; increasing it invalidates every existing output."""

DOES_NOT_MATTER: Mapping[str, Mapping[str, str]] = {
    "ChatConfig": {
        "base_url": "where a model is served does not change what it says; endpoint, model and digest stand for it",
        "api_key_env": "names a secret's place, not its effect",
        "serve_args": "how a model is served; where that changes what it says the endpoint is to be named anew",
        "extra": "the endpoint's digest stands for it",
        "thinks": "what is said live; of whole answers the thought is always parted",
        "port": "where a model is served does not change what it says",
        "n_slots": "how many are answered at once; answers are cached one by one",
        "max_in_flight": "how many are asked at once",
        "max_attempts": "how often a failed request is tried; a failure is recorded as such, never as an answer",
        "timeout_s": "how long an answer may take, not what it is",
        "max_wait_s": "how long is waited, not what is asked",
        "transport": "how a request travels; the same payload is asked either way and answers share their cache",
        "max_requests_per_minute": "how fast is asked, not what is asked",
        "max_tokens_per_minute": "how fast is asked, not what is asked",
        "price": "what an answer costs, not what it is",
    },
    "OracleConfig": {
        "prompt": "a name or path; the prompts' text is digested instead",
    },
    "ScriptConfig": {
        "lexicon": "a path; the entries are digested instead",
    },
    "SpeechConfig": {
        "voice_a": "resolved to a voice that is there, whose digest counts",
        "voices_b": "resolved to voices that are there, whose digests count",
        "tts_options": "the back-end's digest stands for those that change the sound; paths, keys and devices do not",
        "tts_b": "the digest of the user's back-end stands for it, where there is one",
        "tts_b_options": "the digest of the user's back-end stands for those that change the sound",
    },
    "GateConfig": {
        "asr": "the recogniser's digest stands for it",
        "asr_options": "the recogniser's digest stands for those that change what it hears; paths and devices do not",
    },
    "AlignmentConfig": {
        "aligner_options": "the back-end's digest stands for those that change the times; paths and devices do not",
    },
    "DataConfig": {
        "datasets": "paths; the datasets' fingerprints and weights count instead",
        "workers": "who makes a batch does not change it",
    },
}
"""Fields of a stage's configuration that do not count for the fingerprint, with the reason. All others count."""


def dump_relevant_fields(config: Config) -> dict[str, Any]:
    """Returns a configuration as a dictionary without the fields that `DOES_NOT_MATTER` lists for its class."""
    left_out = DOES_NOT_MATTER.get(type(config).__name__, {})
    return {name: value for name, value in config.model_dump(mode="json").items() if name not in left_out}


def get_versions(*packages: str) -> dict[str, str]:
    """Returns the installed versions of libraries that affect the output of a stage or a back-end."""
    return {package: version(package) for package in packages}


def compute_fingerprint(name: str, stage_version: int, matters: Mapping[str, Any], inputs: Sequence[str]) -> str:
    """Returns the fingerprint of one stage's output for one part: 16 hexadecimal digits.

    Args:
        name, stage_version: of the stage.
        matters: `dump_relevant_fields` of its configuration, and digests of the models and files that it uses.
        inputs: fingerprints of its inputs, in the order of the stage's inputs.
    """
    return ids.digest("fingerprint", SCHEME, name, stage_version, dict(matters), list(inputs))
