"""What the family keeps of sequences and their blocks, beside rows and KV memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.models.higgs.config import HiggsGeometry, HiggsSettings
from engine.models.higgs.prompt import TextBlock
from engine.runtime.codec_stream import BlockJoin
from engine.runtime.runaway import RunawayGuard
from engine.runtime.sampling import DrawKey, SamplingParameters
from engine.runtime.word_estimate import SECONDS_PER_WEIGHT, WordEstimator
from engine.speech import Notice, SpeechRequest


class BlockState:
    """Of a block, between its first text and the moment it is forgotten."""

    __slots__ = ("draw_block", "guard", "join", "may_end", "notices", "parameters", "samples", "texts", "words")

    def __init__(
        self,
        parameters: SamplingParameters,
        draw_block: int,
        guard: RunawayGuard,
        join: BlockJoin,
        samples_per_weight: float,
        may_end: bool,
    ) -> None:
        self.parameters = parameters
        self.draw_block = draw_block
        """The block's number within its request."""
        self.guard = guard
        self.join = join
        self.words = WordEstimator((), samples_per_weight)
        self.may_end = may_end
        """False while more of its text may come."""
        self.texts: list[TextBlock] = []
        self.notices: tuple[Notice, ...] = ()
        """Not told yet."""
        self.samples = 0

    def take_text(self, text: TextBlock) -> None:
        """A stretch of its text has been fed: texts come in order, in stretches, and once more after an eviction."""
        if any(known is text for known in self.texts):
            return
        self.texts.append(text)
        self.words.extend(text.words)
        self.guard.allow_silence(text.pause_s)
        self.notices += text.notices

    def draw_key(self, row: int) -> DrawKey:
        return DrawKey(self.parameters, self.draw_block, row)


@dataclass(slots=True)
class SequenceState:
    """Requests by the block from which they hold, in order, and the pace its voice has shown."""

    openings: list[tuple[int, SpeechRequest]]
    samples_per_weight: float
    blocks: dict[int, BlockState] = field(default_factory=dict)

    @classmethod
    def of(cls, request: SpeechRequest, geometry: HiggsGeometry) -> SequenceState:
        return cls([], SECONDS_PER_WEIGHT * geometry.codec.sample_rate_hz / request.speed)

    def open(self, block: int, request: SpeechRequest) -> None:
        """Another utterance begins with `block`."""
        oldest = min(self.blocks, default=block)
        newer = [begun for begun in self.openings if begun[0] > oldest]
        older = [begun for begun in self.openings if begun[0] <= oldest]
        self.openings = [*older[-1:], *newer, (block, request)]

    def begin(self, block: int, geometry: HiggsGeometry, settings: HiggsSettings) -> BlockState:
        """A block's audio is about to begin."""
        first_block, request = next(opening for opening in reversed(self.openings) if opening[0] <= block)
        defaults, own, codec = settings.sampling, request.sampling, geometry.codec
        top_k = defaults.top_k if own.top_k is None else own.top_k
        parameters = SamplingParameters(
            temperature=max(0.0, defaults.temperature if own.temperature is None else own.temperature),
            top_p=defaults.top_p if own.top_p is None else own.top_p,
            top_k=None if top_k is None else min(max(1, top_k), geometry.codes),
            seed=request.seed,
        )
        samples_per_ms = codec.sample_rate_hz / 1000
        state = self.blocks[block] = BlockState(
            parameters,
            block - first_block,
            RunawayGuard(settings.runaway, 1 / codec.frames_per_s, codec.samples_per_frame),
            BlockJoin(
                round(settings.join_fade_ms * samples_per_ms),
                round(settings.join_overlap_ms * samples_per_ms),
                codec.decoder_reach_frames,
            ),
            self.samples_per_weight,
            may_end=not settings.is_token_streaming,
        )
        return state
