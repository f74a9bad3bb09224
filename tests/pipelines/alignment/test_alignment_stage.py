"""Speech to words: every one timed inside its utterance, by whom the row says, or a reject; on doubles."""

from dataclasses import replace
from typing import Any

import pytest

from backends import registry
from backends.aligner.double import DoubleAligner
from backends.aligner.protocol import AlignmentRefused
from data_schemas.config import AlignmentConfig
from data_schemas.records import Dialogue, DialogueClips, DialogueWords, WordTiming
from pipelines.alignment.stage import AlignmentStage
from tests.support.spoken_dialogues import dialogues, spoken


def alignment(aligner: Any = None, **config: Any) -> AlignmentStage:
    return AlignmentStage(AlignmentConfig(aligner="double", **config), aligner or DoubleAligner())


def timed(batch: list[Dialogue], clips: list[DialogueClips]) -> list[DialogueWords]:
    return alignment().run(list(zip(batch, clips, strict=True))).outputs


class LosingWords(DoubleAligner):
    """Loses the last word of questions, and finds nothing in the second dialogue's."""

    def align(self, samples: Any, sample_rate_hz: int, words: Any) -> list[WordTiming]:
        if "one" in words:
            raise AlignmentRefused("nothing is heard")
        found = super().align(samples, sample_rate_hz, words)
        return found[:-1] if "zero" in words else found


def test_dialogues_whose_words_are_not_all_found_are_rejects() -> None:
    batch = dialogues(3)
    result = alignment(LosingWords()).run(list(zip(batch, spoken(batch), strict=True)))
    assert [each.dialogue_id for each in result.outputs] == ["mine-2-v0"]
    rejects = [(each.item_id, each.reason) for each in result.rejects]
    assert rejects == [("mine-0", "words_not_found"), ("mine-1", "words_not_found")]
    assert "words timed in turn 0" in result.rejects[0].detail
    assert result.rejects[1].detail == "nothing is heard"


def moved(timings: list[WordTiming], by_s: float) -> list[WordTiming]:
    return [replace(each, start_s=each.start_s + by_s, end_s=each.end_s + by_s) for each in timings]


class Moving(DoubleAligner):
    """Tells times that lie elsewhere than the sound, or scores of its own."""

    def __init__(self, by_s: float = 0.0, score: float = 0.0) -> None:
        self.by_s = by_s
        self.score = score

    def align(self, samples: Any, sample_rate_hz: int, words: Any) -> list[WordTiming]:
        found = moved(super().align(samples, sample_rate_hz, words), self.by_s)
        return [replace(each, score=self.score) for each in found]


@pytest.mark.parametrize(
    ("aligner", "config", "reasons"),
    [
        (Moving(), {}, []),
        (Moving(by_s=-0.01), {}, ["word_outside"]),
        (Moving(by_s=0.01), {}, ["word_outside"]),
        (Moving(score=-5), {}, []),
        (Moving(score=-5), {"min_mean_score": {"double": -6.0}}, []),
        (Moving(score=-5), {"min_mean_score": {"double": -4.0}}, ["score_low"]),
    ],
)
def test_words_found_badly_or_elsewhere_are_rejects(aligner: Any, config: dict[str, Any], reasons: list[str]) -> None:
    batch = dialogues()
    result = alignment(aligner, **config).run(list(zip(batch, spoken(batch), strict=True)))
    assert [each.reason for each in result.rejects] == reasons
    assert len(result.outputs) == 1 - len(reasons)


def speak_one() -> tuple[Dialogue, DialogueClips]:
    (one,) = dialogues()
    return one, spoken([one])[0]


def own_times(dialogue: Dialogue, clips: DialogueClips) -> DialogueClips:
    """The clips as an engine gives them that tells when each word is said."""
    (found,) = timed([dialogue], [clips])

    def told(words: tuple[WordTiming, ...]) -> tuple[WordTiming, ...]:
        return tuple(replace(word, method="mouth") for word in words)

    pairs = zip(clips.clips, found.utterances, strict=True)
    return replace(clips, clips=tuple(replace(clip, words=told(each.words)) for clip, each in pairs))


def methods(words: DialogueWords) -> list[set[str]]:
    return [{word.method for word in each.words} for each in words.utterances]


OWN = registry.build("aligner", "synthesiser", {"aligner": "double"})


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        (lambda a, b: (a, replace(b, start_s=a.end_s - 0.01)), "word_outside"),
        (lambda a, b: (a, replace(b, start_s=b.end_s)), "word_outside"),
        (lambda a, b: (replace(a, start_s=float("nan")), b), "word_outside"),
        (lambda a, b: (a, replace(b, start_s=a.end_s)), None),
    ],
    ids=["one over another", "no length", "no number", "one after another"],
)
def test_own_times_are_held_to_the_same_order(own: Any, reason: str | None) -> None:
    one, clips = speak_one()
    asked, answer = own_times(one, clips).clips
    first, second, *others = asked.words
    told = replace(clips, clips=(replace(asked, words=(*own(first, second), *others)), answer))
    assert [each.reason for each in alignment(OWN).run([(one, told)]).rejects] == ([reason] if reason else [])


class Trusting(DoubleAligner):
    """An aligner of somebody else's that leaves the synthesiser's own times as they are."""

    prefers_own_times = True


@pytest.mark.parametrize(("aligner", "method"), [(OWN, "mouth"), (Trusting(), "mouth"), (DoubleAligner(), "double")])
def test_any_aligner_may_prefer_the_synthesisers_own_times(aligner: Any, method: str) -> None:
    one, clips = speak_one()
    told = own_times(one, clips)
    (words,) = alignment(aligner).run([(one, told)]).outputs
    assert methods(words) == [{method}, {method}]
    assert ([each.words for each in words.utterances] == [clip.words for clip in told.clips]) == (method == "mouth")


@pytest.mark.parametrize("n_told", [0, 3])
def test_an_utterance_without_all_own_times_is_aligned_and_its_words_say_by_whom(n_told: int) -> None:
    one, clips = speak_one()
    asked, answer = own_times(one, clips).clips
    partly = replace(clips, clips=(replace(asked, words=asked.words[:n_told]), answer))
    (words,) = alignment(OWN).run([(one, partly)]).outputs
    assert methods(words) == [{"double"}, {"mouth"}]
    assert words.aligner == "synthesiser"


def test_the_limit_of_scores_is_that_of_who_timed_the_utterance() -> None:
    one, clips = speak_one()
    strict = {"min_mean_score": {"mouth": 0.5}}
    assert len(alignment(OWN, **strict).run([(one, clips)]).outputs) == 1, "the double's words are not the mouth's"
    told = alignment(OWN, **strict).run([(one, own_times(one, clips))])
    assert [each.reason for each in told.rejects] == ["score_low"]
