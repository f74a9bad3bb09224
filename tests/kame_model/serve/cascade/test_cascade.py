"""The cascade on a simulated clock: when an answer is said, and what an interruption leaves."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from backends.tts.double import DoubleTts
from backends.tts.protocol import Speech
from data_schemas.units import FRAME_S
from kame_model.serve.voice.speaker import AHEAD_S
from tests.support.cascade_talk import ANSWER, SlowChat, Talk, is_loud


def test_an_answer_is_said_while_it_is_being_written() -> None:
    talk = Talk(SlowChat(ANSWER, gap_s=0.5))
    talk.plays("How many eggs are left?", 200)
    first_loud = next(at for at, frame in enumerate(talk.frames) if is_loud(frame))
    written = talk.told("oracle")
    assert first_loud * FRAME_S < 1.0 + 2 * FRAME_S  # the first sentence was whole after 1 s, the last after 2.5 s
    assert " ".join(each["text"] for each in written) == "".join(ANSWER)  # as those who show it join it
    assert written[-1]["age_s"] == 2.5
    assert talk.text == " It is eighteen eggs. She sells nine of them. That makes eighteen dollars."
    assert talk.told("oracle_done") == [{"oracle": "cascade-1", "n_tokens": len(ANSWER)}]
    assert not is_loud(talk.frames[-1])


def test_who_speaks_in_is_heard_within_two_frames_and_the_rest_is_neither_said_nor_told() -> None:
    chat = SlowChat(ANSWER, ["Yes."], gap_s=0.5)
    talk = Talk(chat)
    n_open: list[int] = []
    interrupt = talk.cascade.on_speech_started
    talk.plays("How many eggs are left?", 18, interrupt, 30, lambda: n_open.append(chat.n_open), "Are you sure?", 40)
    spoken, fading, *after = talk.frames[17:48]
    assert is_loud(spoken)
    assert is_loud(fading)
    assert abs(float(fading[0][-1])) < 1e-3  # faded, not chopped
    assert not any(is_loud(each) or each[1] for each in after)
    assert n_open == [0]
    assert "eighteen" in talk.text
    assert "nine of them" not in talk.text
    assert talk.text.endswith(" Yes.")
    assert "nine of them" not in str(chat.asked[1]["messages"])
    assert talk.told("oracle_done") == [{"oracle": "cascade-2", "n_tokens": 1}]


def test_a_reset_leaves_nothing_to_say() -> None:
    chat = SlowChat(ANSWER, gap_s=0.1)
    talk = Talk(chat)
    n_open: list[int] = []
    talk.plays("How many eggs are left?", 10, talk.cascade.reset, 30, lambda: n_open.append(chat.n_open))
    assert is_loud(talk.frames[9])
    assert not any(is_loud(each) or each[1] for each in talk.frames[10:])
    assert n_open == [0]


def test_a_sentence_that_cannot_be_said_is_left_out_and_told() -> None:
    talk = Talk(SlowChat(["Here it is. <br/><table> Good luck.\n", "Bye."]))
    talk.plays("Show me.", 60)
    assert talk.text == " Here it is. Bye."
    assert "cannot be read out" in talk.told("sentence_left_out")[0]["reason"]


def test_no_more_is_synthesised_than_will_soon_be_said() -> None:
    n_said = 0

    class Counting(DoubleTts):
        def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
            nonlocal n_said
            n_said += 1
            return super().synthesise(text, voice, speed, take)

    talk = Talk(SlowChat(["One and two and three and four. "] * 100, gap_s=0.0), Counting())
    talk.plays("Count.", 20)
    assert n_said <= AHEAD_S / 2 + 3  # each lasts two seconds and a half


def test_a_slow_voice_holds_nobody_up_and_what_it_says_too_late_is_thrown_away() -> None:
    may_speak, has_begun = threading.Event(), threading.Event()

    class Slow(DoubleTts):
        def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
            has_begun.set()
            may_speak.wait(30)
            return super().synthesise(text, voice, speed, take)

    async def course() -> None:
        running = asyncio.create_task(talk.cascade.run())
        talk.ask("How many?")
        while not has_begun.is_set():
            await asyncio.sleep(0)
        silent = [talk.cascade.take_frame() for _ in range(5)]  # while the thread speaks
        talk.cascade.on_speech_started()
        may_speak.set()
        await asyncio.get_running_loop().run_in_executor(threads, lambda: None)  # the thread is done
        silent += [talk.cascade.take_frame() for _ in range(5)]
        assert not any(is_loud(each) for each in silent)
        running.cancel()
        await talk.cascade.aclose()

    with ThreadPoolExecutor(1) as threads:
        talk = Talk(SlowChat(["Nine. "], gap_s=0.0), Slow(), threads)
        asyncio.run(course())
