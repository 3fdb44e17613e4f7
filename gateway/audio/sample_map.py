"""Engine samples to output samples and back: the one rounding rule that words, ledger, resampler and header share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SampleMap:
    """Positions in one utterance, at the engine's rate and at the rate that is sent. Exact integer arithmetic."""

    engine_rate_hz: int
    output_rate_hz: int

    def to_output(self, engine_samples: int) -> int:
        """floor(n · out / in + 0.5): the length of n engine samples once resampled, and the place of sample n."""
        return (2 * engine_samples * self.output_rate_hz + self.engine_rate_hz) // (2 * self.engine_rate_hz)

    def to_engine(self, output_samples: int) -> int:
        """How many engine samples the first `output_samples` stand for, rounded to the nearest."""
        return (2 * output_samples * self.engine_rate_hz + self.output_rate_hz) // (2 * self.output_rate_hz)
