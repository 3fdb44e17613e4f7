"""G.711 against libsndfile's coder for every sample value, and against the values of the recommendation."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile

from gateway.audio import mulaw
from gateway.audio.mulaw import Law

EVERY_SAMPLE = np.arange(-32768, 32768).astype(np.int16)
EVERY_CODE = np.arange(256).astype(np.uint8)
SUBTYPES: dict[Law, str] = {"mulaw": "ULAW", "alaw": "ALAW"}


@pytest.mark.parametrize("law", ["mulaw", "alaw"])
def test_every_sample_is_coded_as_an_independent_coder_does(law: Law) -> None:
    stored = io.BytesIO()
    soundfile.write(stored, EVERY_SAMPLE, 8000, format="RAW", subtype=SUBTYPES[law])
    ours, theirs = mulaw.encode(law, EVERY_SAMPLE), np.frombuffer(stored.getvalue(), dtype=np.uint8)
    # Nothing but the sign of zero may differ: values that decode alike are the same value.
    assert np.array_equal(np.abs(mulaw.decode(law, ours)), np.abs(mulaw.decode(law, theirs)))


@pytest.mark.parametrize("law", ["mulaw", "alaw"])
def test_every_code_is_decoded_as_an_independent_decoder_does(law: Law) -> None:
    theirs, _ = soundfile.read(
        io.BytesIO(EVERY_CODE.tobytes()),
        dtype="int16",
        samplerate=8000,
        channels=1,
        format="RAW",
        subtype=SUBTYPES[law],
    )
    assert np.array_equal(mulaw.decode(law, EVERY_CODE), theirs)


@pytest.mark.parametrize("law", ["mulaw", "alaw"])
def test_what_was_decoded_is_coded_as_the_same_byte(law: Law) -> None:
    again = mulaw.encode(law, mulaw.decode(law, EVERY_CODE))
    is_negative_zero = (EVERY_CODE == 0x7F) & (law == "mulaw")
    assert np.array_equal(again[~is_negative_zero], EVERY_CODE[~is_negative_zero])


def test_the_values_of_the_recommendation() -> None:
    samples = np.array([0, 32767, -32768, 8, -8], dtype=np.int16)
    assert mulaw.encode("mulaw", samples).tolist() == [0xFF, 0x80, 0x00, 0xFE, 0x7E]
    assert mulaw.encode("alaw", samples).tolist() == [0xD5, 0xAA, 0x2A, 0xD5, 0x55]
    assert mulaw.decode("mulaw", np.array([0x80, 0x00], dtype=np.uint8)).tolist() == [32124, -32124]
    assert mulaw.decode("alaw", np.array([0xAA, 0x2A], dtype=np.uint8)).tolist() == [32256, -32256]


@pytest.mark.parametrize("law", ["mulaw", "alaw"])
def test_the_error_is_at_most_half_a_step_of_the_segment(law: Law) -> None:
    samples = EVERY_SAMPLE.astype(np.int32)
    error = np.abs(mulaw.decode(law, mulaw.encode(law, EVERY_SAMPLE)).astype(np.int32) - samples)
    is_clipped = np.abs(samples) > 32124
    allowed = (np.abs(samples) + 132) / 32 + 8
    assert np.all(error[~is_clipped] <= allowed[~is_clipped])
