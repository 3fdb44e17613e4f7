"""HiggsModel: a loaded checkpoint as the engine's SpeechModel. One forward pass a tick for all sequences."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.core.step import (
    DecodeItem,
    Forget,
    ModelSpec,
    Opening,
    Piece,
    PrefillItem,
    PreparedPrompt,
    PreparedText,
    RowOutcome,
    SequenceFailure,
    StepPlan,
    StepResult,
    VocodeItem,
    Window,
)
from engine.errors import CapacityError, ModelLoadError, TooLongError, VoiceNotFoundError
from engine.models.higgs.codebooks import RowStore
from engine.models.higgs.config import LICENCE_NOTICE, HiggsGeometry, HiggsSettings, model_spec, read_geometry
from engine.models.higgs.prompt import PromptTokenizer, PromptWriter, TextBlock, VoicePrompt
from engine.models.higgs.tiny_checkpoint import write_tiny_checkpoint
from engine.models.higgs.weights import HiggsParts, load_parts, memory_plan, with_kv_that_fits
from engine.runtime.attention import Span
from engine.runtime.codec_stream import BlockJoin, CodecWindow, DecodedWindow, decode_windows
from engine.runtime.delay_rows import DelayPattern
from engine.runtime.isolation import isolated
from engine.runtime.kv_cache import PagedKvCache
from engine.runtime.memory import MemoryPlan
from engine.runtime.runaway import RunawayGuard
from engine.runtime.sampling import DrawKey, SamplingParameters, sample_rows
from engine.runtime.step_runner import FixedBatches, StepRunner
from engine.runtime.weights import Checkpoint, Progress, checkpoint_folder
from engine.runtime.word_estimate import SECONDS_PER_WEIGHT, WordEstimator
from engine.speech import ModelInfo, Notice, Segment, SpeechRequest, VoiceInfo

if TYPE_CHECKING:
    from engine.voice_store import Reference, VoiceLibrary

_LOG = logging.getLogger(__name__)
TINY = "tiny"
"""The checkpoint name that stands for a freshly written random one."""
DEFAULT_VOICE = "default"
ENCODE_RETRY_S = 5.0
"""By then some of the speech that fills the device's memory is likely to be over."""

BlockKey = tuple[int, int]
"""(sequence, block)."""


@dataclass(slots=True)
class _Block:
    """What the family keeps of a block between its first row and the moment it is forgotten."""

    text: TextBlock
    parameters: SamplingParameters
    draw_block: int
    guard: RunawayGuard
    join: BlockJoin
    words: WordEstimator
    notices: tuple[Notice, ...]
    samples: int = 0


@dataclass(slots=True)
class _Sequence:
    """Requests by the block from which they hold, in order, and the pace its voice has shown."""

    openings: list[tuple[int, SpeechRequest]]
    samples_per_weight: float
    blocks: dict[int, _Block] = field(default_factory=dict)

    def request_of(self, block: int) -> tuple[int, SpeechRequest]:
        return next(opening for opening in reversed(self.openings) if opening[0] <= block)


@dataclass(frozen=True, slots=True)
class _Task:
    """One item of a plan: rows to feed at `span`, and the row to sample after its last one, if any."""

    span: Span
    text_offsets: tuple[int, ...]
    ids: tuple[int, ...]
    audio_offsets: tuple[int, ...]
    codes: Tensor | None
    key: BlockKey
    row: int | None
    is_decode: bool


class HiggsModel:
    """See engine.speech_model.SpeechModel. Construct with `load`."""

    def __init__(
        self,
        geometry: HiggsGeometry,
        settings: HiggsSettings,
        tokenizer: PromptTokenizer,
        parts: HiggsParts,
        memory: MemoryPlan,
        is_untrained: bool,
    ) -> None:
        self.memory = memory
        self.licence = LICENCE_NOTICE
        self._geometry, self._settings, self._parts = geometry, settings, parts
        self._is_untrained = is_untrained
        self._device = torch.device(settings.device)
        codec = geometry.codec
        self._pattern = DelayPattern(
            geometry.codebooks, geometry.begin_code, geometry.end_code, settings.has_eoc_staircase
        )
        self._writer = PromptWriter(tokenizer, geometry.codebooks, codec.frames_per_s, settings.max_block_rows)
        self._spec = model_spec(geometry, settings)
        self._cache = PagedKvCache(settings.kv_geometry(geometry.backbone), self._spec.page_count, self._device)
        self._rows = RowStore(self._pattern, settings.max_block_rows, settings.row_slots, self._device)
        self._runner = StepRunner(
            lambda x, batch: parts.backbone(x, batch, self._cache),
            settings.page_tokens,
            self._cache.scrap_page,
            self._device,
            FixedBatches(settings.max_decode_batch, settings.split_tokens) if settings.is_deterministic else None,
        )
        self._sequences: dict[int, _Sequence] = {}
        self._default_prompt = _prepared(self._writer.voice_prompt(None, None, b""))
        self._prompts: WeakKeyDictionary[Reference, PreparedPrompt] = WeakKeyDictionary()
        self.voices: VoiceLibrary | None = None
        if settings.voices is not None and parts.encoder is not None:
            from engine.voice_store import VoiceLibrary, VoiceStore  # who does not clone needs no audio library

            self.voices = VoiceLibrary(
                VoiceStore(settings.voices), self._encode, codec.sample_rate_hz, _codec_key(parts), settings.max_voice_s
            )

    @classmethod
    def load(
        cls, checkpoint: str | Path | None, settings: HiggsSettings | None = None, on_progress: Progress | None = None
    ) -> HiggsModel:
        """`checkpoint`: a folder, the name of a repository that a hub's client has or can fetch, or "tiny".

        Raises ModelLoadError before any large allocation where the memory plan does not fit the device."""
        settings = settings or HiggsSettings()
        if checkpoint is None:
            raise ModelLoadError(f"model 'higgs' needs a checkpoint: a folder, a repository, or {TINY!r} for noise")
        if str(checkpoint) == TINY:
            with tempfile.TemporaryDirectory() as folder:
                write_tiny_checkpoint(Path(folder))
                return cls._load(Path(folder), settings, on_progress, is_untrained=True)
        return cls._load(checkpoint_folder(checkpoint), settings, on_progress, is_untrained=False)

    @classmethod
    def _load(
        cls, folder: Path, settings: HiggsSettings, on_progress: Progress | None, is_untrained: bool
    ) -> HiggsModel:
        geometry = read_geometry(folder)
        settings = with_kv_that_fits(geometry, settings)
        memory = memory_plan(geometry, settings)
        memory.check()
        if not is_untrained:
            _LOG.info("%s", LICENCE_NOTICE)
        _LOG.info("memory of %s: %s", memory.device, "; ".join(memory.lines()))
        tokenizer = PromptTokenizer(folder / "tokenizer.json")
        if tokenizer.vocabulary > geometry.backbone.vocabulary:
            raise ModelLoadError(
                f"{folder}: the tokenizer has {tokenizer.vocabulary} ids, "
                f"the text embedding {geometry.backbone.vocabulary} rows"
            )
        progress = on_progress or _LoggedProgress()
        parts = load_parts(Checkpoint(folder), geometry, settings, settings.voices is not None, progress)
        return cls(geometry, settings, tokenizer, parts, memory, is_untrained)

    @property
    def info(self) -> ModelInfo:
        description = "The model's own choice of voice." + (
            " Untrained: it speaks noise." if self._is_untrained else ""
        )
        voices = (VoiceInfo(DEFAULT_VOICE, "Default", "mul", description),)
        return ModelInfo(
            name="higgs-tiny-untrained" if self._is_untrained else "higgs-audio-v3",
            sample_rate_hz=self._geometry.codec.sample_rate_hz,
            voices=voices,
            default_voice=DEFAULT_VOICE,
            languages=frozenset(),
            word_timing="estimated",
            tags=self._writer.tag_support,
            parameters=frozenset(("speed", "seed", "temperature", "top_p", "top_k")),
            can_clone=self.voices is not None,
            has_text_normalizer=True,
        )

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    def prepare(self, segment: Segment, request: SpeechRequest) -> PreparedText:
        """Raises TooLongError where the segment has more tokens than a text block may have."""
        block = self._writer.text_block(segment, request)
        if len(block.ids) > self._settings.max_text_tokens:
            limit = self._settings.max_text_tokens
            raise TooLongError(f"the segment has {len(block.ids)} tokens, at most {limit}")
        return PreparedText(len(block.ids), block.max_rows, 0.0, block)

    def prepare_prompt(self, request: SpeechRequest) -> PreparedPrompt:
        """Made once for a voice (about a millisecond) and kept as long as it. Raises VoiceNotFoundError where the voice
        is neither the default one nor in the store."""
        if request.voice == DEFAULT_VOICE:
            return self._default_prompt
        reference = self.voices.reference(request.voice) if self.voices is not None else None
        if reference is None:
            raise VoiceNotFoundError(request.voice, tuple(voice.id for voice in self.info.voices))
        prepared = self._prompts.get(reference)
        if prepared is None:
            frames = torch.from_numpy(reference.codes.astype(np.int64))
            key = blake2b(reference.codes.astype("<i2").tobytes(), digest_size=16)
            key.update((reference.transcript or "").encode())
            rows = self._pattern.staggered(frames).numpy()
            prepared = _prepared(self._writer.voice_prompt(rows, reference.transcript, key.digest()))
            self._prompts[reference] = prepared
        return prepared

    @torch.inference_mode()
    def warm_up(self) -> None:
        """Run a prefill, a decode and a window, away from any sequence's state."""
        hidden = torch.zeros(1, self._geometry.backbone.channels, dtype=self._settings.torch_dtype, device=self._device)
        span = Span(0, 1, (self._cache.scrap_page,))
        for prefill, decode in (([span], []), ([], [span])):
            out = self._runner.run(hidden, prefill, decode, [0])
            self._runner.by_row(out, self._parts.codebooks.logits)
        if self.voices is not None:
            self.voices.load()
        frames = self._spec.first_window_frames + self._spec.right_context_frames
        self._parts.decoder(torch.zeros(1, frames, self._geometry.codebooks, dtype=torch.int64, device=self._device))

    @torch.inference_mode()
    def execute(self, plan: StepPlan) -> StepResult:
        for opening in plan.openings:
            self._open(opening)
        for forget in plan.forgets:
            self._forget(forget)
        failures: list[SequenceFailure] = []
        rows = self._speak(plan.prefill, plan.decode, failures)
        windows = self._vocode(plan.vocode, failures)
        return StepResult(plan.tick, rows=tuple(rows), windows=tuple(windows), failures=tuple(failures))

    def close(self) -> None:
        """Let go of every sequence."""
        self._sequences.clear()

    # ---- openings and forgets ----------------------------------------------------------------------------------------

    def _open(self, opening: Opening) -> None:
        request = opening.request
        assert isinstance(request, SpeechRequest)
        sequence = self._sequences.get(opening.sequence)
        if sequence is None:
            rate = SECONDS_PER_WEIGHT * self._geometry.codec.sample_rate_hz / request.speed
            sequence = self._sequences[opening.sequence] = _Sequence([], rate)
        oldest = min(sequence.blocks, default=opening.block)
        newer = [begun for begun in sequence.openings if begun[0] > oldest]
        older = [begun for begun in sequence.openings if begun[0] <= oldest]
        sequence.openings = [*older[-1:], *newer, (opening.block, request)]

    def _forget(self, forget: Forget) -> None:
        sequence = self._sequences.get(forget.sequence)
        if forget.block is None:
            self._rows.close_sequence(forget.sequence)
            self._sequences.pop(forget.sequence, None)
        elif sequence is not None and (forget.sequence, forget.block) in self._rows:
            if forget.kept_frames:
                self._rows.cut((forget.sequence, forget.block), forget.kept_frames)
            else:
                self._rows.close((forget.sequence, forget.block))
                sequence.blocks.pop(forget.block, None)

    def _begin(self, key: BlockKey, text: TextBlock) -> None:
        """A block's audio is about to begin."""
        sequence = self._sequences[key[0]]
        first_block, request = sequence.request_of(key[1])
        defaults, own, codec = self._settings.sampling, request.sampling, self._geometry.codec
        top_k = defaults.top_k if own.top_k is None else own.top_k
        parameters = SamplingParameters(
            temperature=max(0.0, defaults.temperature if own.temperature is None else own.temperature),
            top_p=defaults.top_p if own.top_p is None else own.top_p,
            top_k=None if top_k is None else min(max(1, top_k), self._geometry.codes),
            seed=request.seed,
        )
        samples_per_ms = codec.sample_rate_hz / 1000
        sequence.blocks[key[1]] = _Block(
            text,
            parameters,
            key[1] - first_block,
            RunawayGuard(self._settings.runaway, 1 / codec.frames_per_s, codec.samples_per_frame),
            BlockJoin(
                round(self._settings.join_fade_ms * samples_per_ms),
                round(self._settings.join_overlap_ms * samples_per_ms),
                codec.decoder_reach_frames,
            ),
            WordEstimator(text.words, sequence.samples_per_weight),
            text.notices,
        )
        self._rows.open(key)

    # ---- prefill and decode ------------------------------------------------------------------------------------------

    def _speak(
        self, prefill: Sequence[PrefillItem], decode: Sequence[DecodeItem], failures: list[SequenceFailure]
    ) -> list[RowOutcome]:
        tasks: list[_Task] = []
        items: list[PrefillItem | DecodeItem] = [*prefill, *decode]
        for item in items:
            try:
                tasks.append(self._prefill_task(item) if isinstance(item, PrefillItem) else self._decode_task(item))
            except (LookupError, ValueError) as error:
                failures.append(SequenceFailure(item.sequence, _block_of(item), f"the plan does not fit: {error!r}"))
        outcomes: list[RowOutcome] = []
        for group, result in isolated(tasks, self._sample):
            if result is None:
                message = "the device ran out of memory"
                failures.extend(SequenceFailure(*task.key, message) for task in group)
                continue
            sampled = [task for task in group if task.row is not None]
            for task, (is_finished, is_finite, is_repeat) in zip(sampled, result.tolist(), strict=True):
                assert task.row is not None
                if not is_finite:
                    failures.append(SequenceFailure(*task.key, f"row {task.row} came out as no number"))
                    continue
                self._rows.note_rows(task.key, task.row + 1)
                guard = self._sequences[task.key[0]].blocks[task.key[1]].guard
                guard.observe_row(is_repeat)
                is_runaway = guard.is_runaway and not is_finished
                outcomes.append(RowOutcome(*task.key, 1, is_finished, is_runaway))
        return outcomes

    def _prefill_task(self, item: PrefillItem) -> _Task:
        ids: list[int] = []
        text_offsets: list[int] = []
        audio_offsets: list[int] = []
        codes: list[Tensor] = []
        offset = 0
        for piece in item.pieces:
            text, rows = self._piece(item.sequence, piece)
            text_offsets += range(offset, offset + len(text))
            ids += text
            offset += len(text)
            if rows is not None:
                audio_offsets += range(offset, offset + len(rows))
                codes.append(rows)
                offset += len(rows)
        block = _block_of(item)
        if item.samples_block is not None:
            last = item.pieces[-1].payload
            assert isinstance(last, TextBlock)
            self._begin((item.sequence, item.samples_block), last)
        return _Task(
            Span(item.first_position, offset, item.page_table),
            tuple(text_offsets),
            tuple(ids),
            tuple(audio_offsets),
            torch.cat(codes) if codes else None,
            (item.sequence, block),
            None if item.samples_block is None else 0,
            is_decode=False,
        )

    def _decode_task(self, item: DecodeItem) -> _Task:
        key = (item.sequence, item.block)
        if self._rows.row_count(key) < item.row:
            raise ValueError(f"row {item.row} of a block with {self._rows.row_count(key)} rows")
        if item.row >= self._rows.block_rows:
            raise ValueError(f"row {item.row}, at most {self._rows.block_rows}")
        return _Task(Span(item.position, 1, item.page_table), (), (), (0,), None, key, item.row, is_decode=True)

    def _piece(self, sequence: int, piece: Piece) -> tuple[tuple[int, ...], Tensor | None]:
        """A piece's text ids, then its audio rows."""
        if piece.kind == "audio":
            return (), self._rows.rows((sequence, piece.block), piece.start, piece.end)
        if piece.kind == "text":
            assert isinstance(piece.payload, TextBlock)
            return piece.payload.ids[piece.start : piece.end], None
        prompt = piece.payload
        assert isinstance(prompt, VoicePrompt)
        start, end = (max(0, place - len(prompt.ids)) for place in (piece.start, piece.end))
        rows = torch.from_numpy(prompt.rows[start:end]).to(self._device) if end > start else None
        return prompt.ids[piece.start : piece.end], rows

    def _sample(self, tasks: Sequence[_Task]) -> Tensor:
        """Run tasks (prefills first) and sample their rows: bool [sampled tasks, 3] on the host, whether each row
        finished its block, came of finite numbers, and repeats the row before. This is the tick's one read-back.

        Safe to run again for some of the tasks: it writes the same cells."""
        sampled = [task for task in tasks if task.row is not None]
        places = [task.row or 0 for task in sampled]
        rows = torch.tensor(places, dtype=torch.int64).to(self._device, non_blocking=True)
        slots = self._rows.slots([task.key for task in sampled])
        hidden = self._forward(tasks, rows, slots)
        if not sampled:
            return torch.zeros(0, 3, dtype=torch.bool)
        keys = []
        for task, place in zip(sampled, places, strict=True):
            block = self._sequences[task.key[0]].blocks[task.key[1]]
            keys.append(DrawKey(block.parameters, block.draw_block, place))
        logits = self._runner.by_row(hidden, self._parts.codebooks.logits)
        is_finite = torch.isfinite(logits.sum(dim=(1, 2)))  # one that is not makes the sum so
        end_rows = self._rows.end_rows(slots)
        drawn = sample_rows(self._pattern.restrict(logits, rows, end_rows), keys)
        codes, end_rows, is_finished = self._pattern.complete(drawn, rows, end_rows)
        is_repeat = self._rows.append(slots, rows, codes, end_rows)
        return torch.stack((is_finished, is_finite, is_repeat), dim=1).cpu()

    def _forward(self, tasks: Sequence[_Task], rows: Tensor, slots: Tensor) -> Tensor:
        """Hidden states [sampled tasks, channels] after each sampled task's last row; rows, slots int64 [sampled]."""
        starts = [0, *accumulate(task.span.length for task in tasks)]
        prefill = [task.span for task in tasks if not task.is_decode]
        decode = [task.span for task in tasks if task.is_decode]
        first_decode = len(rows) - len(decode)
        x = self._embed(tasks, starts, self._rows.at(slots[first_decode:], rows[first_decode:] - 1))
        last = [
            start + task.span.length - 1 for task, start in zip(tasks, starts, strict=False) if task.row is not None
        ]
        return self._runner.run(x, prefill, decode, last)

    def _embed(self, tasks: Sequence[_Task], starts: Sequence[int], fed: Tensor) -> Tensor:
        """Embedded rows [T, channels]; `fed`: the rows that the decodes feed, int64 [decodes, K]."""
        ids = [number for task in tasks for number in task.ids]
        text_rows = [start + at for task, start in zip(tasks, starts, strict=False) for at in task.text_offsets]
        audio_rows = [start + at for task, start in zip(tasks, starts, strict=False) for at in task.audio_offsets]
        codes = [task.codes for task in tasks if task.codes is not None]
        if len(fed):
            codes.append(fed)
        settings, channels = self._settings, self._geometry.backbone.channels
        x = torch.empty(starts[-1], channels, dtype=settings.torch_dtype, device=self._device)
        if ids:
            numbers = torch.tensor(ids, dtype=torch.int64).to(self._device, non_blocking=True)
            x[text_rows] = self._parts.backbone.embed_text(numbers)
        if codes:
            x[audio_rows] = self._parts.codebooks.embed(torch.cat(codes))
        return x

    # ---- vocode ------------------------------------------------------------------------------------------------------

    def _vocode(self, items: Sequence[VocodeItem], failures: list[SequenceFailure]) -> list[Window]:
        ready: list[tuple[VocodeItem, CodecWindow]] = []
        for item in items:
            try:
                first = item.start_frame - item.left_context_frames
                codes = self._rows.frames(
                    (item.sequence, item.block), first, item.end_frame + item.right_context_frames
                )
                ready.append((item, CodecWindow(codes, item.left_context_frames, item.right_context_frames)))
            except (LookupError, ValueError) as error:
                failures.append(SequenceFailure(item.sequence, item.block, f"the plan does not fit: {error!r}"))

        def decode(group: Sequence[tuple[VocodeItem, CodecWindow]]) -> list[DecodedWindow]:
            spf = self._geometry.codec.samples_per_frame
            return decode_windows(
                self._parts.decoder, [window for _, window in group], spf, self._settings.max_codec_batch_frames
            )

        windows: list[Window] = []
        for group, result in isolated(ready, decode):
            if result is None:
                message = "the device ran out of memory"
                failures.extend(SequenceFailure(item.sequence, item.block, message) for item, _ in group)
                continue
            windows += [self._window(item, decoded) for (item, _), decoded in zip(group, result, strict=True)]
        return windows

    def _window(self, item: VocodeItem, decoded: DecodedWindow) -> Window:
        sequence = self._sequences[item.sequence]
        block = sequence.blocks[item.block]
        block.guard.observe_pcm(decoded.pcm)
        pcm = block.join.join(decoded, item.right_context_frames, item.is_block_end)
        block.samples += len(pcm)
        words = block.words.advance(block.samples, item.is_block_end)
        if item.is_block_end:
            sequence.samples_per_weight = block.words.learned_rate(block.samples)
        notices, block.notices = block.notices, ()
        return Window(item.sequence, item.block, pcm, len(pcm), words, notices)

    # ---- voices ------------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def _encode(self, samples: NDArray[np.float32]) -> NDArray[np.int16]:
        """Reference samples float32 [S] at the codec's rate -> codes [T, K]. Raises CapacityError where the device has
        no memory for it now."""
        encoder = self._parts.encoder
        assert encoder is not None
        try:
            codes: Tensor = encoder(torch.from_numpy(samples).to(self._device)[None])
        except torch.OutOfMemoryError as error:
            raise CapacityError("the device has no memory for the recording just now", ENCODE_RETRY_S) from error
        result: NDArray[np.int16] = codes[0].short().cpu().numpy()
        return result


class _LoggedProgress:
    """Says every tenth of the loading."""

    def __init__(self) -> None:
        self._tenths = 0

    def __call__(self, done_bytes: int, total_bytes: int) -> None:
        if 10 * done_bytes >= (self._tenths + 1) * total_bytes:
            self._tenths = 10 * done_bytes // total_bytes
            _LOG.info("weights loaded: %d of %d MiB", done_bytes >> 20, total_bytes >> 20)


def _prepared(prompt: VoicePrompt) -> PreparedPrompt:
    return PreparedPrompt(prompt.tokens, prompt.key, prompt)


def _block_of(item: PrefillItem | DecodeItem) -> int:
    if isinstance(item, DecodeItem):
        return item.block
    return item.pieces[-1].block if item.samples_block is None else item.samples_block


def _codec_key(parts: HiggsParts) -> str:
    """Names the codec by its weights, so that stored codes are never read by another one."""
    digest = blake2b(digest_size=8)
    for name, parameter in sorted(parts.decoder.quantizer.named_parameters()):
        digest.update(name.encode())
        digest.update(parameter.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()
