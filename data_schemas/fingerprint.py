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
        "base_url": "the address of a server does not change its answers; endpoint, model and digest are included",
        "api_key_env": "the name of a variable, which does not change answers",
        "serve_args": "arguments of a server; if they change its answers, the endpoint must get another name",
        "extra": "included in the endpoint's digest",
        "thinks": "only affects live answers; thoughts are always removed from complete answers",
        "port": "the address of a server does not change its answers",
        "n_slots": "number of concurrent requests; answers are cached one by one",
        "max_in_flight": "number of concurrent requests",
        "max_attempts": "number of retries; a failure is recorded as such, never as an answer",
        "timeout_s": "a timeout, which does not change answers",
        "max_wait_s": "a timeout, which does not change requests",
        "transport": "how requests are sent; their payload is the same, and answers share their cache",
        "max_requests_per_minute": "a rate limit, which does not change requests",
        "max_tokens_per_minute": "a rate limit, which does not change requests",
        "price": "the cost of an answer, not its content",
    },
    "OracleConfig": {
        "prompt": "a name or path; the text of the prompts is included instead",
    },
    "ScriptConfig": {
        "lexicon": "a path; the entries are included instead",
    },
    "SpeechConfig": {
        "voice_a": "resolved to an existing voice, whose digest is included",
        "voices_b": "resolved to existing voices, whose digests are included",
        "tts_options": "the back-end's digest includes those that change the audio, not paths, keys and devices",
        "tts_b": "the digest of the user's back-end is included, if there is one",
        "tts_b_options": "the digest of the user's back-end includes those that change the audio",
    },
    "GateConfig": {
        "asr": "the recogniser's digest is included",
        "asr_options": "the recogniser's digest includes those that change its results, not paths and devices",
    },
    "AlignmentConfig": {
        "aligner_options": "the back-end's digest includes those that change the times, not paths and devices",
    },
    "DataConfig": {
        "datasets": "paths; the fingerprints and weights of the datasets are included instead",
        "workers": "the process that makes a batch does not change it",
    },
}
"""Fields of a stage's configuration that do not count for the fingerprint, with the reason. All others count."""


def dump_relevant_fields(config: Config) -> dict[str, Any]:
    """Returns a configuration as a dictionary without the fields that `DOES_NOT_MATTER` lists for its class.

    Nested configurations keep all their fields.
    """
    left_out = DOES_NOT_MATTER.get(type(config).__name__, {})
    return {name: value for name, value in config.model_dump(mode="json").items() if name not in left_out}


def get_versions(*packages: str) -> dict[str, str]:
    """Returns the installed versions of packages by name, for fingerprints and digests.

    Raises:
        importlib.metadata.PackageNotFoundError: if one is not installed.
    """
    return {package: version(package) for package in packages}


def compute_fingerprint(name: str, stage_version: int, matters: Mapping[str, Any], inputs: Sequence[str]) -> str:
    """Returns the fingerprint of one stage's output for one part: 16 hexadecimal digits.

    Args:
        name, stage_version: of the stage.
        matters: `dump_relevant_fields` of its configuration, and digests of the models and files that it uses.
        inputs: fingerprints of its inputs, in the order of the stage's inputs.
    """
    return ids.digest("fingerprint", SCHEME, name, stage_version, dict(matters), list(inputs))
