"""The outbox: chunks and events in order, encoded only when they go."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.speech import AudioChunk
from gateway.audio.formats import AudioFormat
from gateway.errors import ErrorCode, WarningCode
from gateway.events import Done, Failed, Flushed, UtteranceMetrics, Warned, Words
from gateway.outbox import Outbox, OutgoingAudio

DONE = Done("u", "complete", 0, 24000, 0, UtteranceMetrics(0.0, None, 0.0, 0))


def outbox(rate_hz: int = 24000) -> Outbox:
    return Outbox(AudioFormat("pcm_s16le", rate_hz), 24000)


def chunk(samples: int, start: int = 0, **flags: bool) -> AudioChunk:
    return AudioChunk(np.full(samples, 0.25, np.float32), start, **flags)


def all_audio(box: Outbox) -> list[OutgoingAudio]:
    frames = []
    while box.head() == "speech":
        frame = box.take_audio()
        if frame is not None:
            frames.append(frame)
    return frames


@given(st.lists(st.integers(0, 9000), min_size=1, max_size=6), st.sampled_from([8000, 24000, 48000]))
def test_frames_are_contiguous_short_and_flagged_whatever_the_chunks(sizes: list[int], rate_hz: int) -> None:
    box, start = outbox(rate_hz), 0
    for index, size in enumerate(sizes):
        box.put_chunk(chunk(size, start, is_segment_end=True, is_final=index == len(sizes) - 1))
        start += size
    frames = all_audio(box)
    place = 0
    for frame in frames:
        assert frame.frame.start_sample == place
        assert frame.frame.sample_count <= rate_hz // 5
        place += frame.frame.sample_count
    assert place == (2 * start * rate_hz + 24000) // 48000
    assert [frame.is_last for frame in frames] == [False] * (len(frames) - 1) + [True] * bool(frames)
    assert box.queued_s == 0


def test_the_last_flag_travels_on_an_empty_frame_when_the_samples_have_left() -> None:
    box = outbox()
    box.put_chunk(chunk(2400))
    assert len(all_audio(box)) == 1
    box.put_chunk(chunk(0, 2400, is_segment_end=True, is_final=True))
    (last,) = all_audio(box)
    assert (last.frame.payload, last.frame.start_sample, last.is_last, last.is_segment_end) == (b"", 2400, True, True)


def test_a_final_chunk_without_any_sound_makes_no_frame() -> None:
    box = outbox()
    box.put_chunk(chunk(0, is_segment_end=True, is_final=True))
    assert box.head() == "nothing"


def test_events_keep_their_place_among_audio() -> None:
    box = outbox()
    box.put_event(Words("u", (), 24000))
    box.put_chunk(chunk(2400, is_segment_end=True))
    box.put_event(Flushed("u", 1))
    assert box.head() == "speech"
    assert isinstance(box.take_event(), Words)
    assert box.take_event() is None
    all_audio(box)
    assert box.head() == "message"
    assert box.take_event() == Flushed("u", 1)


def test_done_stays_the_last_message() -> None:
    box = outbox()
    box.put_event(DONE)
    box.put_event(Failed(ErrorCode.UTTERANCE_ENDED, "m", "u"))
    assert isinstance(box.take_event(), Failed)
    assert box.take_event() is DONE


def test_a_purge_keeps_only_the_answers_still_owed() -> None:
    box = outbox()
    failed, warned = Failed(ErrorCode.UTTERANCE_ENDED, "m", "u"), Warned(WarningCode.UNKNOWN_TAG, "m", "u")
    box.put_chunk(chunk(24000))
    box.put_event(failed)
    box.put_event(Flushed("u", 1))
    box.put_event(warned)
    box.take_audio()
    assert box.purge() == [failed, warned]
    assert box.head() == "nothing"
    assert box.queued_s == pytest.approx(0)
