"""One utterance's queue of chunks and events that are not yet written. Nothing is encoded before it may go."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, Literal

from engine.speech import AudioChunk, Pcm
from gateway.audio.encoder import EncodedFrame, StreamEncoder
from gateway.audio.formats import AudioFormat
from gateway.events import Done, Failed, ServerEvent, Warned, Words

FRAME_S: Final = 0.1
"""Audio encoded at once: short, so that a cancel finds little on its way; the wire allows 200 ms."""


@dataclass(frozen=True, slots=True)
class OutgoingAudio:
    """An encoded frame on its way, with the flags of its place in the utterance."""

    frame: EncodedFrame
    is_last: bool
    is_segment_end: bool


Head = Literal["speech", "message", "nothing"]
"""speech: audio, or the words that go just before it; both wait for their turn in the lane and for send-ahead."""


class Outbox:
    """FIFO of an utterance. `engine_rate_hz` is the chunks' rate, `audio_format` what they are encoded to."""

    def __init__(self, audio_format: AudioFormat, engine_rate_hz: int) -> None:
        self._encoder = StreamEncoder(audio_format, engine_rate_hz)
        self._engine_rate_hz = engine_rate_hz
        self._piece_samples = max(1, int(FRAME_S * engine_rate_hz))
        self._queue: deque[AudioChunk | ServerEvent] = deque()
        self._chunk_samples_taken = 0
        self._output_samples = 0
        self._encoded: deque[OutgoingAudio] = deque()
        self._queued_samples = 0
        self._has_samples = False
        self.queued_events = 0
        """Events among what is queued."""
        self._has_pending_segment_end = False

    def put_chunk(self, chunk: AudioChunk) -> None:
        """Queue a chunk. Before the first sample there is no frame whose flags an empty chunk could set."""
        self._has_samples |= len(chunk.pcm) > 0
        if self._has_samples:
            self._queue.append(chunk)
            self._queued_samples += len(chunk.pcm)

    def put_event(self, event: ServerEvent) -> None:
        """Queue an event behind everything but a `Done`, which stays the last."""
        self.queued_events += 1
        if self._queue and isinstance(self._queue[-1], Done):
            self._queue.insert(len(self._queue) - 1, event)
        else:
            self._queue.append(event)

    @property
    def pre_skip_samples(self) -> int | None:
        return self._encoder.pre_skip_samples

    @property
    def queued_s(self) -> float:
        """Seconds of audio not yet encoded."""
        return self._queued_samples / self._engine_rate_hz

    def head(self) -> Head:
        """What would go next."""
        if self._encoded:
            return "speech"
        if not self._queue:
            return "nothing"
        return "speech" if isinstance(self._queue[0], AudioChunk | Words) else "message"

    def take_event(self) -> ServerEvent | None:
        """The event that stands at the head; None where audio does."""
        if self._encoded or not self._queue or isinstance(self._queue[0], AudioChunk):
            return None
        event = self._queue.popleft()
        self.queued_events -= 1
        assert not isinstance(event, AudioChunk)
        return event

    def take_audio(self) -> OutgoingAudio | None:
        """The next frame; None where the encoder needs more samples first (call `head` again)."""
        while not self._encoded and self._queue and isinstance(self._queue[0], AudioChunk):
            self._encode_piece(self._queue[0])
        return self._encoded.popleft() if self._encoded else None

    def purge(self) -> list[ServerEvent]:
        """Forget everything not yet written; returns the errors and warnings among it, which are still owed."""
        owed: list[ServerEvent] = [item for item in self._queue if isinstance(item, Failed | Warned)]
        self._queue.clear()
        self.queued_events = 0
        self._encoded.clear()
        self._queued_samples = 0
        return owed

    def _encode_piece(self, chunk: AudioChunk) -> None:
        start = self._chunk_samples_taken
        piece: Pcm = chunk.pcm[start : start + self._piece_samples]
        self._chunk_samples_taken += len(piece)
        self._queued_samples -= len(piece)
        is_chunk_done = self._chunk_samples_taken == len(chunk.pcm)
        is_last = chunk.is_final and is_chunk_done
        self._has_pending_segment_end |= chunk.is_segment_end and is_chunk_done
        frames = self._encoder.encode(piece, is_last, is_segment_end=chunk.is_segment_end and is_chunk_done)
        if is_chunk_done:
            self._queue.popleft()
            self._chunk_samples_taken = 0
        if is_last and not frames and self._output_samples:
            # The last samples had left already: an empty frame carries the flag.
            frames = [EncodedFrame(b"", 0, self._output_samples)]
        for frame in frames:
            self._output_samples = frame.start_sample + frame.sample_count
            is_batch_end = frame is frames[-1]
            self._encoded.append(
                OutgoingAudio(
                    frame,
                    is_last=is_last and is_batch_end,
                    is_segment_end=self._has_pending_segment_end and is_batch_end,
                )
            )
            if is_batch_end:
                self._has_pending_segment_end = False
