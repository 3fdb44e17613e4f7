"""The rounding rule of sample positions."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from gateway.audio.sample_map import SampleMap

RATES = st.sampled_from([8000, 11025, 16000, 22050, 24000, 44100, 48000])


@given(st.integers(0, 10**10), RATES, RATES)
def test_a_length_is_the_exact_quotient_rounded_half_up(samples: int, engine_hz: int, output_hz: int) -> None:
    exact = math.floor(Fraction(samples * output_hz, engine_hz) + Fraction(1, 2))
    assert SampleMap(engine_hz, output_hz).to_output(samples) == exact


@given(st.integers(0, 10**8), RATES, RATES)
def test_going_there_and_back_stays_within_one_sample_of_the_coarser_rate(
    samples: int, engine_hz: int, output_hz: int
) -> None:
    sample_map = SampleMap(engine_hz, output_hz)
    there_and_back = sample_map.to_engine(sample_map.to_output(samples))
    assert abs(there_and_back - samples) <= max(1, math.ceil(engine_hz / output_hz / 2))
