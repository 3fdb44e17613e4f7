"""Phrases to a block: calls of the net with what is around them, trimmed, paused, joined, and timed word by word.

A block is a row of frames of 300 samples. Each stretch of it comes from one call of the net; where a phrase runs on
into the next, the spectra at the seam and the phase of the pulse train are carried over, so the join is an overlap-add
like any other. Where silence lies between, or the next phrase is not known yet, they start from and end in nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.models.hibari import config
from engine.models.hibari.config import (
    FRAME_S,
    LABEL_LAG_FRAMES,
    LEAD_IN_FRAMES,
    PAUSES,
    RELEASE_FRAMES,
    SEAM_LEAD_FRAMES,
    Voice,
)
from engine.models.hibari.effects import Colouring
from engine.models.hibari.network import AcousticNet, Acoustics, Floats
from engine.models.hibari.overlays import Overlay, overlays
from engine.models.hibari.phonemes import PAUSING, PhonemeWord
from engine.models.hibari.phrases import Break, Ending, Phrase, PhrasePlan, Script, closes_sentence
from engine.models.hibari.prosody import Delivery
from engine.models.hibari.synthesis import (
    HOP,
    LEFT_FRAMES,
    RIGHT_FRAMES,
    VOICING_HZ,
    FrameEdits,
    NoiseSource,
    PhraseSpectra,
    Placement,
    Spectra,
    SpectrumSource,
    StoredSpectra,
    frame_levels_dbfs,
    gathered,
    limit,
    noise_key,
    overlap_add,
)

_MIN_GAP_FRAMES: Final = 3
"""Shorter dips are the closures of stops."""


@dataclass(frozen=True, slots=True)
class Seam:
    """What a block leaves to the next of its utterance."""

    silence_frames: int
    """Frames of silence at its end, counted from its last sound."""
    wanted_frames: int = 0
    """Silence that is wanted before the next sound; what is wanting is the next block's."""
    spectra: Spectra | None = None
    """Where its last phrase runs on: the spectra of its last frame and of two more that the next block speaks,
    complex64 [3, 601]."""
    phase: float = 0.0
    """Of the pulse train two frames after its end, in cycles."""


FRESH: Final = Seam(silence_frames=0)
"""Nothing was said before."""


@dataclass(frozen=True, slots=True)
class SpokenMark:
    """A written word: its place in the script's text, and its samples counted from the block's first."""

    start: int
    end: int
    start_sample: int
    end_sample: int


@dataclass(frozen=True, slots=True)
class Block:
    """The sound of one segment, made window by window."""

    frames: int
    marks: tuple[SpokenMark, ...]
    seam: Seam
    placements: tuple[Placement, ...]
    overlays: tuple[Overlay, ...]

    def samples(self, start: int, end: int) -> Floats:
        """Samples of frames [start, end), float32 [(end - start) · 300]. Windows joined equal the whole."""
        pcm = overlap_add(gathered(self.placements, start - LEFT_FRAMES, end + RIGHT_FRAMES))
        first, last = start * HOP, end * HOP
        for overlay in self.overlays:
            left, right = max(first, overlay.at), min(last, overlay.at + overlay.length)
            if left < right:
                pcm[left - first : right - first] += overlay.pcm()[left - overlay.at : right - overlay.at]
        return limit(pcm * np.float32(config.OUTPUT_GAIN))


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of the net, and where in it the phrase lies."""

    acoustics: Acoustics
    levels: Floats
    """float32 [F], dBFS: estimated."""
    heard_at: NDArray[np.int64]
    """int64 [L + 1]: the frame at which each symbol begins to be heard; the last is where the text ends."""
    offsets: tuple[int, ...]
    """Of each of the phrase's words: its first symbol among the call's."""
    begin: int
    end: int
    """Frames kept: [begin, end)."""
    gap_frames: int | None
    """Silence between the phrase and what follows it in the call; None where it runs on without any."""
    pause_frames: int
    """Silence that is wanted after a phrase that goes on, `silence_frames` and the next one's lead included."""
    fades_in: bool
    """Whether the phrase begins in the midst of sound, of which what comes before was not said by this call."""

    @property
    def lead_frames(self) -> int:
        """Of the frames kept, those before the first that is heard as sound."""
        return _run_length(self.levels[self.begin : self.end] < config.HEARD_DBFS)

    @property
    def silence_frames(self) -> int:
        """Of the frames kept, those after the last that is heard as sound."""
        return _run_length(self.levels[self.begin : self.end][::-1] < config.HEARD_DBFS)


class Composer:
    """Makes blocks of one loaded net. Thread-safe."""

    def __init__(self, net: AcousticNet) -> None:
        self._net = net
        self._noise = NoiseSource()

    def compose(
        self, script: Script, plan: PhrasePlan, voice: Voice, seam: Seam, noise_stream: tuple[int, ...]
    ) -> Block:
        """Speak a planned segment after `seam`; runs the net once a phrase. `noise_stream` (seed, place) names the
        noise it is given."""
        layout = _Layout(seam)
        for number, step in enumerate(plan.steps):
            if isinstance(step, Break):
                layout.rest(step.duration_s)
                continue
            colouring = _colouring(step.deliveries[0], voice)
            call = self._call(script, step, layout.runs_on and colouring.is_plain)
            source = PhraseSpectra(call.acoustics, _edits(call, step), self._noise, noise_key(*noise_stream, number))
            for piece, words, ending in _pieces(call, step, script.words[step.first : step.last]):
                if colouring.is_plain:
                    layout.speak(piece, source)
                else:
                    layout.speak_coloured(piece, source, colouring)
                layout.mark(piece, words)
                layout.rest_after(ending, piece, step.deliveries[-1].pause_ratio)
        if script.own.stop == len(script.words):
            # Nothing is known to follow: a listener may have to wait for it, and should not hear the speech cut off.
            layout.release()
        return layout.block()

    def _call(self, script: Script, phrase: Phrase, runs_on: bool) -> _Call:
        """Run the net on the phrase with what is around it, and find the phrase's frames.

        `runs_on`: the sound before it goes on without a gap, so the cut falls between the words, silent or not.
        """
        left = _left_context(script, phrase.first)
        symbols, offsets = left, []
        for word in script.words[phrase.first : phrase.last]:
            offsets.append(len(symbols))
            symbols += f"{word.symbols} " if word.symbols else ""
        symbols = symbols.rstrip(" ") + _added_punctuation(script.words[phrase.last - 1], phrase.ending)
        own_end = len(symbols)
        right = _right_context(script, phrase)
        symbols += right
        acoustics = self._net(symbols, phrase.pace, phrase.vowel_ratio)
        count = len(acoustics.f0)
        heard_at = np.clip(np.cumsum(acoustics.frames)[: len(symbols) + 1] - LABEL_LAG_FRAMES, 0, count - RIGHT_FRAMES)
        levels = frame_levels_dbfs(acoustics)
        is_silent = levels < config.AUDIBLE_DBFS

        begin, fades_in = max(int(heard_at[len(left)]) - (SEAM_LEAD_FRAMES if runs_on else 0), 0), False
        if not left:
            begin = max(_run_length(is_silent) - LEAD_IN_FRAMES, _plain_start(levels) - config.MAX_ONSET_FRAMES, 0)
        elif not runs_on:
            gap = _gap(is_silent, int(heard_at[max(len(left) - 3, 0)]), begin + LABEL_LAG_FRAMES)
            fades_in = gap is None
            begin = max(begin - 1, 0) if gap is None else max(gap[1] - LEAD_IN_FRAMES, gap[0])

        end, gap_frames, pause_frames = count - RIGHT_FRAMES, None, 0
        if right:
            # The last frames before the next word are left to the next phrase, so that nothing of a stand-in is heard.
            end = int(heard_at[own_end + 1]) - RIGHT_FRAMES - SEAM_LEAD_FRAMES
            gap = _gap(is_silent, int(heard_at[max(own_end - 2, 0)]), int(heard_at[own_end + 1]) + LABEL_LAG_FRAMES)
        else:
            last = len(is_silent) - _run_length(is_silent[::-1])
            gap = (last, len(is_silent))
        if gap is not None and gap[0] > begin:
            gap_frames = gap[1] - gap[0]
            end = min(gap[0] + min(RELEASE_FRAMES, gap_frames), count - RIGHT_FRAMES)
            pause_frames = min(gap_frames, _frames(PAUSES.clause_max_s))
            ratio = phrase.deliveries[-1].pause_ratio
            if phrase.ending == "flow" and ratio != 1.0 and script.words[phrase.last - 1].closing:
                pause = _Pause.at(levels, gap, ratio)
                end, pause_frames = min(end, pause.end), pause.wanted_frames
        end = max(end, begin + 1)
        return _Call(acoustics, levels, heard_at, tuple(offsets), begin, end, gap_frames, pause_frames, fades_in)


@dataclass(frozen=True, slots=True)
class _Pause:
    """A pause inside a call that is to be longer or shorter than the net made it."""

    end: int
    """The frame at which what is kept of the sound before it ends."""
    begin: int
    """And that at which the sound after it begins."""
    wanted_frames: int

    @classmethod
    def at(cls, levels: Floats, gap: tuple[int, int], ratio: float) -> _Pause:
        """Of the faint frames around `gap` some are left out, or all are kept for silence to be put among them."""
        first, last = _widened(levels < config.HEARD_DBFS, gap)
        wanted = round(ratio * min(last - first, _frames(PAUSES.long_clause_max_s)))
        begin = max(last - LEAD_IN_FRAMES, first)
        return cls(min(first + max(RELEASE_FRAMES, wanted - LEAD_IN_FRAMES), begin), begin, wanted)


def _pieces(
    call: _Call, phrase: Phrase, words: Sequence[PhonemeWord]
) -> Iterator[tuple[_Call, Sequence[PhonemeWord], Ending]]:
    """A call, its words and its ending; cut in its pauses where the delivery makes those longer or shorter."""
    begin, first = call.begin, 0
    is_silent = call.levels < config.AUDIBLE_DBFS
    for number, (word, delivery) in enumerate(zip(words[:-1], phrase.deliveries, strict=False), 1):
        if delivery.pause_ratio == 1.0 or word.closing not in PAUSING or not word.closing:
            continue
        after = int(call.heard_at[call.offsets[number]])
        gap = _gap(is_silent, int(call.heard_at[max(call.offsets[number] - 3, 0)]), after + LABEL_LAG_FRAMES)
        if gap is None:
            continue
        pause = _Pause.at(call.levels, gap, delivery.pause_ratio)
        if pause.end <= begin or pause.begin >= call.end:
            continue
        piece = replace(
            call,
            begin=begin,
            end=pause.end,
            offsets=call.offsets[first:number],
            gap_frames=gap[1] - gap[0],
            pause_frames=pause.wanted_frames,
        )
        yield piece, words[first:number], "flow"
        begin, first = pause.begin, number
    yield replace(call, begin=begin, offsets=call.offsets[first:]), words[first:], phrase.ending


class _Layout:
    """The block being laid out: a cursor over its frames, and what the sound at the cursor allows."""

    def __init__(self, seam: Seam) -> None:
        self._cursor = 0
        self._silence = seam.silence_frames
        self._wanted = seam.wanted_frames
        self._phase = seam.phase
        self._carried = 0
        """Frames at the cursor that the phrase before has already filled."""
        self._running: tuple[SpectrumSource, int] | None = None
        """The phrase that runs on, and its frame at the cursor."""
        self._placements: list[Placement] = []
        self._overlays: list[Overlay] = []
        self._marks: list[SpokenMark] = []
        self._shift = 0
        """From frames of the present call to frames of the block."""
        if seam.spectra is not None:
            stored = StoredSpectra(seam.spectra)
            self._placements.append(Placement(-LEFT_FRAMES, LEFT_FRAMES + RIGHT_FRAMES, stored, 0))
            self._carried, self._running = RIGHT_FRAMES, (stored, LEFT_FRAMES)

    @property
    def runs_on(self) -> bool:
        """Whether the sound before the cursor goes on without a gap."""
        return self._running is not None

    def speak(self, call: _Call, source: PhraseSpectra) -> None:
        """Lay the phrase down at the cursor, after the carried frames of the one before."""
        if not self.runs_on:
            self._pad(call.lead_frames)
        at = self._cursor + self._carried
        if self.runs_on:
            source.shift_phase(self._phase - source.phase_at(call.begin))
        self._shift = at - call.begin
        count = call.end - call.begin
        looks_ahead = RIGHT_FRAMES if call.gap_frames is None else 0
        self._placements.append(Placement(at, count + looks_ahead, source, call.begin))
        self._cursor = at + count
        self._silence, self._wanted = call.silence_frames, 0
        self._carried, self._running = looks_ahead, None
        if looks_ahead:
            self._running = (source, call.end)
            self._phase = source.phase_at(call.end + RIGHT_FRAMES)

    def speak_coloured(self, call: _Call, source: PhraseSpectra, colouring: Colouring) -> None:
        """Lay the phrase down as samples that have been through WORLD; it neither runs on nor continues another."""
        self.release()
        self._pad(call.lead_frames)
        self._overlays.extend(overlays(self._cursor, source, call.begin, call.end, colouring))
        self._shift = self._cursor - call.begin
        self._cursor += call.end - call.begin
        self._silence, self._wanted = call.silence_frames, 0

    def mark(self, call: _Call, words: Sequence[PhonemeWord]) -> None:
        """Note where each written word of the phrase just laid down is heard."""
        for word, offset in zip(words, call.offsets, strict=True):
            for mark in word.marks:
                first = min(max(int(call.heard_at[offset + mark.first]), call.begin), call.end - 1)
                last = min(max(int(call.heard_at[offset + mark.last]), first + 1), call.end)
                self._marks.append(
                    SpokenMark(mark.start, mark.end, (first + self._shift) * HOP, (last + self._shift) * HOP)
                )

    def rest_after(self, ending: Ending, call: _Call, ratio: float) -> None:
        """The silence that a phrase's ending asks for, `ratio` times as long as usual."""
        if ending == "flow":
            if call.gap_frames is not None:
                self._rest_frames(call.pause_frames)
        elif ending == "end":
            self.rest(PAUSES.end_s)
        elif ending != "break":
            self.rest(ratio * {"sentence": PAUSES.sentence_s, "paragraph": PAUSES.paragraph_s}[ending])

    def rest(self, duration_s: float) -> None:
        """Silence of `duration_s` between the last sound and the next, what is silent already included."""
        self.release()
        self._rest_frames(_frames(duration_s))

    def _rest_frames(self, frames: int) -> None:
        """All but what the head of the next phrase will probably bring."""
        self._wanted = frames
        self._pad(LEAD_IN_FRAMES)

    def _pad(self, coming: int) -> None:
        """As much silence as is wanting, where `coming` frames of it are still to come."""
        added = max(self._wanted - self._silence - coming, 0)
        self._cursor += added
        self._silence += added

    def release(self) -> None:
        """Let a phrase that runs on die away: nothing will continue it."""
        if self._running is not None:
            self._cursor += self._carried + LEFT_FRAMES
            self._carried, self._running, self._silence = 0, None, LEFT_FRAMES

    def block(self) -> Block:
        """The finished block; where it runs on, its last frames are the seam."""
        if self._running is None:
            seam = Seam(self._silence, self._wanted)
        else:
            source, end = self._running
            seam = Seam(0, 0, source.spectra(end - LEFT_FRAMES, end + RIGHT_FRAMES), self._phase)
        return Block(self._cursor, tuple(self._marks), seam, tuple(self._placements), tuple(self._overlays))


def _frames(duration_s: float) -> int:
    return round(duration_s / FRAME_S)


def _left_context(script: Script, first: int) -> str:
    """Symbols of the words of the same sentence before word `first`, nearest last, with a space at the end."""
    context = ""
    for index in range(first - 1, -1, -1):
        word = script.words[index]
        if not word.symbols:
            continue
        if closes_sentence(script, index, first) or len(context) + len(word.symbols) > config.LEFT_CONTEXT_SYMBOLS:
            break
        context = f"{word.symbols} {context}"
        first = index
    return context


def _right_context(script: Script, phrase: Phrase) -> str:
    """Symbols to come in the same sentence, with a space before them; a stand-in where they are not known yet."""
    if phrase.ending in ("sentence", "paragraph", "end"):
        return ""
    context = ""
    previous = phrase.last - 1
    for index in range(phrase.last, len(script.words)):
        word = script.words[index]
        if not word.symbols:
            continue
        if closes_sentence(script, previous, index):
            return context
        if len(context) + len(word.symbols) > config.RIGHT_CONTEXT_SYMBOLS:
            break
        context += f" {word.symbols}"
        previous = index
    is_closed = closes_sentence(script, previous, None) and (context or phrase.ending == "break")
    if is_closed or len(context) >= config.SHORT_CONTEXT_SYMBOLS:
        return context
    pauses = script.words[previous].closing or (phrase.ending == "break" and not context)
    return context + (config.CONTINUATION_AFTER_PAUSE if pauses else config.CONTINUATION_IN_PHRASE)


def _added_punctuation(word: PhonemeWord, ending: Ending) -> str:
    """What the net needs to hear an ending in, where the text does not write it."""
    if word.closing or ending == "flow":
        return ""
    return "," if ending == "break" else "."


def _colouring(delivery: Delivery, voice: Voice) -> Colouring:
    return Colouring(delivery.effect, voice.pitch_ratio, voice.formant_ratio)


def _edits(call: _Call, phrase: Phrase) -> FrameEdits:
    """The deliveries of the phrase's words, frame by frame; frames around it are edited like its first and last."""
    count = len(call.acoustics.f0)
    edges = [int(call.heard_at[offset]) for offset in call.offsets[1:]]
    starts, ends = [0, *edges], [*edges, count]
    f0 = call.acoustics.f0.copy()
    gain, tilt_db, breath = np.ones(count, np.float32), np.zeros(count, np.float32), np.zeros(count, np.float32)
    for delivery, start, end in zip(phrase.deliveries, starts, ends, strict=True):
        frames = slice(start, end)
        gain[frames], tilt_db[frames], breath[frames] = delivery.gain, delivery.tilt_db, delivery.breath
        if delivery.pitch_semitones or delivery.range_ratio != 1.0:
            ratio = np.maximum(f0[frames], VOICING_HZ) / config.VOICE_F0_HZ
            moved = config.VOICE_F0_HZ * ratio**delivery.range_ratio * 2 ** (delivery.pitch_semitones / 12)
            f0[frames] = np.where(f0[frames] > VOICING_HZ, np.maximum(moved, 1.2 * VOICING_HZ), f0[frames])
    final = phrase.deliveries[-1].final_semitones
    if final and phrase.ending in ("sentence", "paragraph", "end"):
        f0 *= _final_bend(f0, call.begin, call.end, final)
    if call.fades_in:
        gain[call.begin : call.begin + len(config.FADE_IN)] *= np.asarray(config.FADE_IN, np.float32)[
            : count - call.begin
        ]
    furthest = max(
        abs(delivery.pitch_semitones) + config.VOICE_SPREAD_SEMITONES * max(delivery.range_ratio - 1.0, 0.0)
        for delivery in phrase.deliveries
    )
    return FrameEdits(f0, gain, tilt_db, breath, furthest > config.MOVED_HARMONICS_SEMITONES)


def _final_bend(f0: Floats, begin: int, end: int, semitones: float) -> Floats:
    """Ratio for each frame's pitch: from 1 to `semitones` at the last voiced frame of [begin, end), by a straight line
    over the last FINAL_BEND_FRAMES of them: float32 [F]."""
    voiced = begin + np.flatnonzero(f0[begin:end] > VOICING_HZ)
    last = int(voiced[-1]) if len(voiced) else begin
    length = max(min(config.FINAL_BEND_FRAMES, last - begin), 1)
    bend = np.clip((np.arange(len(f0)) - (last - length)) / length, 0.0, 1.0) * (f0 > VOICING_HZ)
    ratio: Floats = (2 ** (semitones * bend / 12)).astype(np.float32)
    return ratio


def _run_length(flags: NDArray[np.bool_]) -> int:
    """How many of the first flags are set."""
    return len(flags) if flags.all() else int(np.argmin(flags))


def _plain_start(levels: Floats) -> int:
    """The first frame at which no one misses the sound; 0 where there is none."""
    return int(np.argmax(levels >= config.PLAIN_DBFS))


def _widened(is_faint: NDArray[np.bool_], gap: tuple[int, int]) -> tuple[int, int]:
    """The whole stretch of faint frames around a gap."""
    first, last = gap
    while first > 0 and is_faint[first - 1]:
        first -= 1
    while last < len(is_faint) and is_faint[last]:
        last += 1
    return first, last


def _gap(is_silent: NDArray[np.bool_], low: int, high: int) -> tuple[int, int] | None:
    """The last silence that touches frames [low, high), whole; None where there is none of _MIN_GAP_FRAMES."""
    for frame in range(min(high, len(is_silent)) - 1, low - 1, -1):
        if is_silent[frame]:
            start, end = frame, frame + 1
            while start > 0 and is_silent[start - 1]:
                start -= 1
            while end < len(is_silent) and is_silent[end]:
                end += 1
            if end - start >= _MIN_GAP_FRAMES:
                return start, end
    return None
