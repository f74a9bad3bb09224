"""Dialogues mixed from the doubles' speech, without a script stage: a test says itself what lies where."""

from collections.abc import Sequence
from dataclasses import replace

from backends.aligner.double import DoubleAligner
from backends.tts.double import DoubleTts
from data_schemas.config import MixingConfig, SurroundingsConfig
from data_schemas.records import (
    AudioDialogue,
    Dialogue,
    DialogueClips,
    DialogueWords,
    Hearing,
    Placement,
    Turn,
    UtteranceClip,
    UtteranceWords,
    WordTiming,
)
from data_schemas.units import SAMPLE_RATE_HZ, seconds_to_samples
from pipelines.audio import Sound, decode_flac, scale_to_level, to_flac
from pipelines.mixing.stage import MixingStage
from pipelines.mixing.timing import CHANNEL
from pipelines.stage import StageResult
from spoken.spoken_text import split_words
from tests.support.builders import make_dialogue, make_turn, make_utterance

CLEAN = SurroundingsConfig(
    level_min_dbfs=-27.0, level_max_dbfs=-27.0, noise_share=0.0, room_share=0.0, telephone_share=0.0
)
LEAD = "Good question let me see now"
ANSWER = "It is as blue as the sky."


def after(seconds: float | None = None) -> Placement:
    """Returns the placement `after`: some seconds after all speech before it; None: the mixing draws the pause."""
    return Placement(rule="after", seconds=seconds, turn_index=None, word_index=None)


def early(seconds: float) -> Placement:
    """Returns the placement `early`: the assistant starts at most so many seconds before the user's turn ends."""
    return Placement(rule="early", seconds=seconds, turn_index=None, word_index=None)


def interrupt(word_index: int, seconds: float) -> Placement:
    """Returns the placement `interrupt`: at the end of a word of the other's last turn, which stops `seconds` later."""
    return Placement(rule="interrupt", seconds=seconds, turn_index=None, word_index=word_index)


def over(turn_index: int, word_index: int, seconds: float) -> Placement:
    """Returns the placement `over`: some seconds after the end of a word of the other's turn, which goes on."""
    return Placement(rule="over", seconds=seconds, turn_index=turn_index, word_index=word_index)


def question(text: str = "What colour has the flag of that old town?", starts: Placement | None = None) -> Turn:
    """Makes turn 0, in which the user asks."""
    return make_turn(0, "B", [make_utterance(text, placement=starts or after())])


def answer(starts: Placement | None = None, lead: str | None = None) -> Turn:
    """Makes turn 1, in which the assistant says `ANSWER`, after a lead if there is one."""
    said = f"{lead} {ANSWER}" if lead else ANSWER
    return make_turn(1, "A", [make_utterance(said, placement=starts or after())], lead=lead, body=ANSWER)


def plain() -> Dialogue:
    """Makes a dialogue of a question and its answer."""
    return make_dialogue(question(), answer())


def early_start(seconds: float = 0.4, lead: str = LEAD) -> Dialogue:
    """The assistant starts before the question ends; the lead's six words last 1.8 s at speed 1."""
    return make_dialogue(question(), answer(early(seconds), lead))


def interrupted(word_index: int = 3, seconds: float = 0.25, answer_word_index: int | None = 3) -> Dialogue:
    """Makes a dialogue in which the user comes in at the end of a word of the answer, which stops `seconds` later.

    The answer has seven words.
    """
    cut = replace(answer(), answer_word_index=answer_word_index)
    stop = make_utterance("Wait, which town do you mean?", placement=interrupt(word_index, seconds))
    last = make_turn(3, "A", [make_utterance("The one by the river.")])
    return make_dialogue(question(), cut, make_turn(2, "B", [stop]), last)


def backchannelled(word_index: int = 2, seconds: float = 0.05) -> Dialogue:
    """The user says "right" over the answer, and speaks again after it."""
    aside = make_utterance("Right.", kind="backchannel", placement=over(1, word_index, seconds))
    asked = make_turn(0, "B", [*question().utterances, aside])
    return make_dialogue(asked, answer(), make_turn(2, "B", [make_utterance("Thank you.")]))


def clips_of(dialogue: Dialogue, hearings: Sequence[Hearing | None] = (), speed: float = 1.0) -> DialogueClips:
    """Returns the double's speech of every utterance, at -27 dBFS.

    Args:
        hearings: what a recogniser heard in each utterance, in order; missing ones are None.
    """
    tts = DoubleTts()
    heard = iter(hearings)
    clips = []
    for turn in dialogue.turns:
        voice = "double_a" if turn.speaker == "A" else "double_b"
        for index, utterance in enumerate(turn.utterances):
            sound = scale_to_level(tts.synthesise(utterance.spoken_text, voice, speed).samples, -27.0)
            clips.append(
                UtteranceClip(
                    turn_index=turn.turn_index,
                    utterance_index=index,
                    voice=voice,
                    speed=speed,
                    n_samples=len(sound),
                    flac=to_flac(sound),
                    words=(),
                    hearing=next(heard, None),
                )
            )
    return DialogueClips(
        dialogue_id=dialogue.dialogue_id,
        tts=tts.name,
        tts_digest=tts.digest,
        asr="double" if hearings else None,
        asr_digest="heard" if hearings else None,
        clips=tuple(clips),
    )


def words_of(dialogue: Dialogue, clips: DialogueClips) -> DialogueWords:
    """Returns the double's own times of every word."""
    aligner = DoubleAligner()
    timed = tuple(
        UtteranceWords(
            turn_index=clip.turn_index,
            utterance_index=clip.utterance_index,
            words=tuple(aligner.align(decode_flac(clip.flac), SAMPLE_RATE_HZ, split_words(_text(dialogue, clip)))),
        )
        for clip in clips.clips
    )
    return DialogueWords(
        dialogue_id=dialogue.dialogue_id, aligner=aligner.name, aligner_digest=aligner.digest, utterances=timed
    )


def _text(dialogue: Dialogue, clip: UtteranceClip) -> str:
    return dialogue.turns[clip.turn_index].utterances[clip.utterance_index].spoken_text


def mix(
    dialogue: Dialogue,
    mixing: MixingConfig | None = None,
    surroundings: SurroundingsConfig = CLEAN,
    seed: int = 0,
    clips: DialogueClips | None = None,
) -> StageResult[AudioDialogue]:
    """Returns what the mixing stage makes of one dialogue."""
    clips = clips or clips_of(dialogue)
    stage = MixingStage(mixing or MixingConfig(), surroundings, seed)
    return stage.run([(dialogue, clips, words_of(dialogue, clips))])


def mixed(dialogue: Dialogue, surroundings: SurroundingsConfig = CLEAN, seed: int = 0) -> AudioDialogue:
    """Returns the row of a dialogue; asserts that it is not rejected."""
    result = mix(dialogue, surroundings=surroundings, seed=seed)
    assert result.rejects == []
    return result.outputs[0]


def span(turn: Turn) -> slice:
    """Returns the samples of a row's sound in which a turn lies."""
    assert turn.start_s is not None
    assert turn.end_s is not None
    return slice(seconds_to_samples(turn.start_s), seconds_to_samples(turn.end_s))


def at(*times_s: float | None) -> list[float]:
    """Returns times as they are; asserts that none of them is None."""
    assert None not in times_s
    return [each for each in times_s if each is not None]


def spoken(turn: Turn) -> list[WordTiming]:
    """The words of a turn's speech, without backchannels."""
    return [word for said in turn.utterances if said.kind == "speech" for word in said.words]


def channel(row: AudioDialogue, speaker: str) -> Sound:
    """What is heard of one speaker, [n_samples]."""
    return decode_flac(row.flac)[:, CHANNEL[speaker]]
