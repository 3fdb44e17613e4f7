"""The short form for CI: a small recogniser, a few sentences, gates."""

from __future__ import annotations

import sys

from benchmarks.meters.recognition import RECOGNISER_RATE_HZ, Recogniser
from benchmarks.meters.signal import clicks, head_silence_s, resampled
from benchmarks.meters.speech import Speaker
from engine.speech import SpeechRequest

SENTENCES = 24
MAX_WORDS_WRONG_PERCENT = 4.0
"""Whisper tiny.en itself mishears about one word in a hundred of this voice."""
MAX_GAP_POINTS = 2.0
MAX_HEAD_MS = 60.0
"""Of every sentence."""


def run_short(speaker: Speaker, texts: list[str]) -> int:
    """Exit status: 0 where every gate holds."""
    recogniser = Recogniser("tiny.en")
    rate_hz = speaker.model.info.sample_rate_hz
    chosen = [texts[index * len(texts) // SENTENCES] for index in range(SENTENCES)]
    wrong = {"whole": 0, "stream": 0}
    words, heads_ms, clicked = 0, [], 0
    for number, text in enumerate(chosen):
        request = SpeechRequest(speaker.model.info.default_voice, seed=number)
        for way, spoken in (("whole", speaker.whole(text, request)), ("stream", speaker.streamed(text, request))):
            errors = recogniser.errors(text, resampled(spoken.pcm, rate_hz, RECOGNISER_RATE_HZ))
            wrong[way] += errors.wrong
            heads_ms.append(1000 * head_silence_s(spoken.pcm, rate_hz))
            clicked += clicks(spoken, rate_hz)
            if errors.wrong:
                print(f"{way}: {text!r} was heard as {errors.heard!r}")
        words += errors.words
    rates = {way: 100 * count / words for way, count in wrong.items()}
    gates = {
        f"whole: {rates['whole']:.2f} % of words wrong, at most {MAX_WORDS_WRONG_PERCENT}": (
            rates["whole"] <= MAX_WORDS_WRONG_PERCENT
        ),
        f"stream: {rates['stream'] - rates['whole']:+.2f} points, at most {MAX_GAP_POINTS:+}": (
            rates["stream"] - rates["whole"] <= MAX_GAP_POINTS
        ),
        f"head: at most {max(heads_ms):.0f} ms of silence, {MAX_HEAD_MS:.0f} allowed": max(heads_ms) <= MAX_HEAD_MS,
        f"clicks: {clicked}, at most 0": clicked == 0,
    }
    for gate, holds in gates.items():
        print("holds " if holds else "MISSED", gate, file=sys.stdout if holds else sys.stderr)
    return 0 if all(gates.values()) else 1
