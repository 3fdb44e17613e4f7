"""Characters with times, as ElevenLabs clients want them: words, each followed by the space that completes it."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.events import Word, Words


@dataclass(slots=True)
class Alignment:
    """Characters not yet sent, and where the last ones sent ended. Times are whole milliseconds of the context."""

    is_absolute: bool
    """Times count from the context's start; else each message's restart at the end of the message before."""
    _characters: list[str] = field(default_factory=list)
    _starts_ms: list[int] = field(default_factory=list)
    _durations_ms: list[int] = field(default_factory=list)
    _sent_until_ms: int = 0

    def add(self, words: Words) -> None:
        for word in words.words:
            self._add(word, words.sample_rate_hz)

    def _add(self, word: Word, rate_hz: int) -> None:
        last_ms = self._starts_ms[-1] + self._durations_ms[-1] if self._starts_ms else self._sent_until_ms
        start_ms = max(last_ms, round(word.start_sample * 1000 / rate_hz))
        end_ms = max(start_ms, round(word.end_sample * 1000 / rate_hz))
        count = max(1, len(word.text))
        edges = [start_ms + (end_ms - start_ms) * index // count for index in range(count + 1)]
        for index, character in enumerate(word.text):
            self._put(character, edges[index], edges[index + 1])
        for character in f"{word.closing} ":
            self._put(character, end_ms, end_ms)

    def _put(self, character: str, start_ms: int, end_ms: int) -> None:
        self._characters.append(character)
        self._starts_ms.append(start_ms)
        self._durations_ms.append(end_ms - start_ms)

    def take(self) -> tuple[list[str], list[int], list[int]] | None:
        """Characters, their starts and durations in ms; None where there are none. They are gone afterwards."""
        if not self._characters:
            return None
        base_ms = 0 if self.is_absolute else self._sent_until_ms
        taken = (self._characters, [start - base_ms for start in self._starts_ms], self._durations_ms)
        self._sent_until_ms = self._starts_ms[-1] + self._durations_ms[-1]
        self._characters, self._starts_ms, self._durations_ms = [], [], []
        return taken
