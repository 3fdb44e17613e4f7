"""HiggsModel: a loaded checkpoint as the engine's SpeechModel. One forward pass a tick for all sequences."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
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
    AudioDecision,
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
from engine.models.higgs.blocks import SequenceState
from engine.models.higgs.checkpoint_config import is_untrained, read_geometry
from engine.models.higgs.codebooks import RowStore
from engine.models.higgs.config import LICENCE_NOTICE, HiggsGeometry, HiggsSettings, model_spec
from engine.models.higgs.options import check_settings, voice_problem
from engine.models.higgs.prompt import MARKS, PromptTokenizer, PromptWriter, TextBlock, VoicePrompt
from engine.models.higgs.tiny_checkpoint import write_tiny_checkpoint
from engine.models.higgs.weights import HiggsParts, load_parts, memory_plan, with_kv_that_fits
from engine.runtime.attention import Span
from engine.runtime.codec_stream import CodecWindow, DecodedWindow, decode_windows
from engine.runtime.delay_rows import DelayPattern
from engine.runtime.isolation import OUT_OF_MEMORY, is_out_of_memory, isolated
from engine.runtime.kv_cache import PagedKvCache
from engine.runtime.memory import MemoryPlan
from engine.runtime.sampling import sample_rows
from engine.runtime.step_runner import FixedBatches, StepRunner
from engine.runtime.weights import Checkpoint, Progress, checkpoint_folder
from engine.speech import ModelInfo, Segment, SpeechRequest, VoiceInfo

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


@dataclass(frozen=True, slots=True)
class _Task:
    """One item of a plan: rows to feed at `span`, and after the last one a row to sample, or a question, or nothing."""

    span: Span
    text_offsets: tuple[int, ...]
    ids: tuple[int, ...]
    audio_offsets: tuple[int, ...]
    codes: Tensor | None
    key: BlockKey
    row: int | None
    is_decode: bool
    has_question: bool = False
    """Whether the block's audio may begin."""

    @property
    def is_answered(self) -> bool:
        return self.row is not None or self.has_question


@dataclass(frozen=True, slots=True)
class _Answers:
    """A step's one read-back, on the host: of each sampled row whether it finished its block, came of finite numbers,
    and repeats the row before; of each question whether audio may begin."""

    rows: list[list[bool]]
    decisions: list[bool]


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
        self._spec = model_spec(geometry, settings)
        self._writer = PromptWriter(
            tokenizer, geometry.codebooks, codec.frames_per_s, settings.max_block_rows, self._spec.text_cadence
        )
        self._cache = PagedKvCache(settings.kv_geometry(geometry.backbone), self._spec.page_count, self._device)
        self._rows = RowStore(self._pattern, settings.max_block_rows, settings.row_slots, self._device)
        self._runner = StepRunner(
            lambda x, batch: parts.backbone(x, batch, self._cache),
            settings.page_tokens,
            self._cache.scrap_page,
            self._device,
            FixedBatches(settings.max_decode_batch, settings.split_tokens) if settings.is_deterministic else None,
        )
        self._sequences: dict[int, SequenceState] = {}
        self._default_prompt = _prepared(self._writer.voice_prompt(None, None, b""))
        self._prompts: WeakKeyDictionary[Reference, PreparedPrompt] = WeakKeyDictionary()
        self.voices: VoiceLibrary | None = None
        if settings.voices is not None and parts.encoder is not None:
            from engine.voice_store import (  # who does not clone needs no audio library
                CodeFormat,
                VoiceLibrary,
                VoiceStore,
            )

            code_format = CodeFormat(_codec_key(parts), geometry.codebooks, codec.entries)
            self.voices = VoiceLibrary(
                VoiceStore(settings.voices),
                self._encode,
                codec.sample_rate_hz,
                code_format,
                settings.max_voice_s,
                self._voice_problem,
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
                return cls._load(Path(folder), settings, on_progress)
        return cls._load(checkpoint_folder(checkpoint), settings, on_progress)

    @classmethod
    def _load(cls, folder: Path, settings: HiggsSettings, on_progress: Progress | None) -> HiggsModel:
        geometry = read_geometry(folder)
        check_settings(geometry, settings)
        settings = with_kv_that_fits(geometry, settings)
        memory = memory_plan(geometry, settings)
        memory.check()
        has_noise = is_untrained(folder)
        if not has_noise:
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
        return cls(geometry, settings, tokenizer, parts, memory, has_noise)

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
            text_unit="clause" if self._spec.text_cadence is None else "word",
        )

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    def prepare(self, segment: Segment, request: SpeechRequest) -> PreparedText:
        """Raises TooLongError where the segment has more tokens than a text block may have."""
        block, limit = self._writer.text_block(segment, request), self._settings.max_text_tokens
        if len(block.ids) > limit:
            raise TooLongError(f"the segment has {len(block.ids)} tokens, at most {limit}")
        notices = () if block.ids else block.notices
        return PreparedText(len(block.ids), block.max_rows, 0.0, block, block.least_rows, notices)

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
        rows, decisions = self._speak(plan.prefill, plan.decode, failures)
        windows = self._vocode(plan.vocode, failures)
        return StepResult(
            plan.tick,
            rows=tuple(rows),
            windows=tuple(windows),
            failures=tuple(failures),
            decisions=tuple(decisions),
        )

    def close(self) -> None:
        """Let go of every sequence."""
        self._sequences.clear()

    # ---- openings and forgets ----------------------------------------------------------------------------------------

    def _open(self, opening: Opening) -> None:
        request = opening.request
        assert isinstance(request, SpeechRequest)
        sequence = self._sequences.get(opening.sequence)
        if sequence is None:
            sequence = self._sequences[opening.sequence] = SequenceState.of(request, self._geometry)
        sequence.open(opening.block, request)

    def _forget(self, forget: Forget) -> None:
        sequence = self._sequences.get(forget.sequence)
        if forget.block is None:
            self._rows.close_sequence(forget.sequence)
            self._sequences.pop(forget.sequence, None)
        elif sequence is not None and (forget.sequence, forget.block) in self._rows:
            is_kept = bool(forget.kept_frames) and self._cut((forget.sequence, forget.block), forget.kept_frames)
            if not is_kept:
                self._rows.close((forget.sequence, forget.block))
                sequence.blocks.pop(forget.block, None)

    def _cut(self, key: BlockKey, frames: int) -> bool:
        """Keep a block's first frames. False where the device has no memory for that now: it is lost then, and whoever
        is to be spoken after it fails alone."""
        try:
            self._rows.cut(key, frames)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            return False
        return True

    def _take_text(self, item: PrefillItem, key: BlockKey) -> None:
        """What an item gives of its block's text; with the first of it, or before row 0 where text comes whole, the
        block begins."""
        blocks = self._sequences[key[0]].blocks
        own = [piece for piece in item.pieces if piece.block == key[1]]
        texts = [piece.payload for piece in own if piece.kind == "text"]
        if key[1] not in blocks or self._spec.text_cadence is None:
            self._sequences[key[0]].begin(key[1], self._geometry, self._settings)
            self._rows.open(key)
        for text in texts:
            assert isinstance(text, TextBlock)
            blocks[key[1]].take_text(text)
        blocks[key[1]].may_end |= any(piece.kind == "end_text" for piece in own)

    # ---- prefill and decode ------------------------------------------------------------------------------------------

    def _speak(
        self, prefill: Sequence[PrefillItem], decode: Sequence[DecodeItem], failures: list[SequenceFailure]
    ) -> tuple[list[RowOutcome], list[AudioDecision]]:
        tasks: list[_Task] = []
        items: list[PrefillItem | DecodeItem] = [*sorted(prefill, key=_positions_of), *decode]
        for item in items:
            try:
                tasks.append(self._prefill_task(item) if isinstance(item, PrefillItem) else self._decode_task(item))
            except (LookupError, ValueError, RuntimeError) as error:
                failures.append(SequenceFailure(item.sequence, _block_of(item), _reason(error)))
        outcomes: list[RowOutcome] = []
        decisions: list[AudioDecision] = []
        for group, result in isolated(tasks, self._sample):
            if result is None:
                failures.extend(SequenceFailure(*task.key, OUT_OF_MEMORY) for task in group)
                continue
            sampled = [task for task in group if task.row is not None]
            for task, (is_finished, is_finite, is_repeat) in zip(sampled, result.rows, strict=True):
                assert task.row is not None
                if not is_finite:
                    failures.append(SequenceFailure(*task.key, f"row {task.row} came out as no number"))
                    continue
                self._rows.note_rows(task.key, task.row + 1)
                guard = self._sequences[task.key[0]].blocks[task.key[1]].guard
                guard.observe_row(is_repeat)
                is_runaway = guard.is_runaway and not is_finished
                outcomes.append(RowOutcome(*task.key, 1, is_finished, is_runaway))
            asking = [task for task in group if task.has_question]
            decisions += [AudioDecision(*task.key, may) for task, may in zip(asking, result.decisions, strict=True)]
        return outcomes, decisions

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
        key = (item.sequence, _block_of(item))
        is_streamed = self._spec.text_cadence is not None
        if item.samples_block is not None or (is_streamed and any(p.kind in ("text", "end_text") for p in item.pieces)):
            self._take_text(item, key)
        return _Task(
            Span(item.first_position, offset, item.page_table),
            tuple(text_offsets),
            tuple(ids),
            tuple(audio_offsets),
            torch.cat(codes) if codes else None,
            key,
            None if item.samples_block is None else item.row,
            is_decode=False,
            has_question=item.asks_block is not None,
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
        if piece.kind in MARKS:
            return (self._writer.mark(piece.kind),), None
        prompt = piece.payload
        assert isinstance(prompt, VoicePrompt)
        start, end = (max(0, place - len(prompt.ids)) for place in (piece.start, piece.end))
        rows = torch.from_numpy(prompt.rows[start:end]).to(self._device) if end > start else None
        return prompt.ids[piece.start : piece.end], rows

    def _sample(self, tasks: Sequence[_Task]) -> _Answers:
        """Run tasks (prefills first), sample their rows and answer their questions. Here is the tick's one read-back.

        Safe to run again for some of the tasks: it writes the same cells."""
        sampled = [task for task in tasks if task.row is not None]
        places = [task.row or 0 for task in sampled]
        rows = torch.tensor(places, dtype=torch.int64).to(self._device, non_blocking=True)
        slots = self._rows.slots([task.key for task in sampled])
        hidden = self._forward(tasks, rows, slots)
        is_row = [task.row is not None for task in tasks if task.is_answered]
        if all(is_row):
            decisions = torch.zeros(0, dtype=torch.bool, device=self._device)
        else:
            decisions = self._decide(hidden[[index for index, is_one in enumerate(is_row) if not is_one]])
            hidden = hidden[[index for index, is_one in enumerate(is_row) if is_one]]
        flags = self._sample_rows(hidden, sampled, rows, slots) if sampled else decisions.new_zeros(0, 3)
        answers = torch.cat((flags.flatten(), decisions)).cpu()
        count = flags.numel()
        return _Answers(answers[:count].view(-1, 3).tolist(), answers[count:].tolist())

    def _sample_rows(self, hidden: Tensor, tasks: Sequence[_Task], rows: Tensor, slots: Tensor) -> Tensor:
        """Draw and store the row of each task after its hidden state [B, channels]: the flags of _Answers, bool
        [B, 3]."""
        blocks = [self._sequences[task.key[0]].blocks[task.key[1]] for task in tasks]
        keys = [block.draw_key(task.row or 0) for block, task in zip(blocks, tasks, strict=True)]
        may_end = None
        if not all(block.may_end for block in blocks):
            may_end = torch.tensor([block.may_end for block in blocks]).to(self._device, non_blocking=True)
        logits = self._runner.by_row(hidden, self._parts.codebooks.logits)
        is_finite = torch.isfinite(logits.sum(dim=(1, 2)))  # one that is not makes the sum so
        end_rows = self._rows.end_rows(slots)
        drawn = sample_rows(self._pattern.restrict(logits, rows, end_rows, may_end), keys)
        codes, end_rows, is_finished = self._pattern.complete(drawn, rows, end_rows)
        is_repeat = self._rows.append(slots, rows, codes, end_rows)
        return torch.stack((is_finished, is_finite, is_repeat), dim=1)

    def _decide(self, hidden: Tensor) -> Tensor:
        """bool [B]: after hidden states [B, channels], is audio likelier to come than more text?"""
        ids = torch.tensor([self._writer.mark("begin_audio"), self._writer.mark("begin_text")], device=self._device)
        scores = self._runner.by_row(hidden, lambda x: self._parts.backbone.text_logits(x, ids))
        return scores[:, 0] > scores[:, 1]

    def _forward(self, tasks: Sequence[_Task], rows: Tensor, slots: Tensor) -> Tensor:
        """Hidden states after the last row of each task that is answered; rows, slots int64 [sampled tasks]."""
        starts = [0, *accumulate(task.span.length for task in tasks)]
        prefill = [task.span for task in tasks if not task.is_decode]
        decode = [task.span for task in tasks if task.is_decode]
        first_decode = len(rows) - len(decode)
        x = self._embed(tasks, starts, self._rows.at(slots[first_decode:], rows[first_decode:] - 1))
        last = [start + task.span.length - 1 for task, start in zip(tasks, starts, strict=False) if task.is_answered]
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
            except (LookupError, ValueError, RuntimeError) as error:
                failures.append(SequenceFailure(item.sequence, item.block, _reason(error)))

        def decode(group: Sequence[tuple[VocodeItem, CodecWindow]]) -> list[DecodedWindow]:
            spf = self._geometry.codec.samples_per_frame
            return decode_windows(
                self._parts.decoder, [window for _, window in group], spf, self._settings.max_codec_batch_frames
            )

        windows: list[Window] = []
        for group, result in isolated(ready, decode):
            if result is None:
                failures.extend(SequenceFailure(item.sequence, item.block, OUT_OF_MEMORY) for item, _ in group)
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

    def _voice_problem(self, frames: int, transcript: str | None) -> str | None:
        """Why no context has room for a voice of so many frames with that transcript and a sentence after it."""
        rows = self._pattern.staggered(torch.zeros(frames, self._geometry.codebooks, dtype=torch.int64)).numpy()
        tokens = self._writer.voice_prompt(rows, transcript, b"").tokens
        return voice_problem(self._geometry, self._settings, tokens)


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


def _positions_of(item: PrefillItem) -> int:
    return sum(piece.end - piece.start for piece in item.pieces)


def _reason(error: Exception) -> str:
    """What an item's failure says; what is neither a bad plan nor want of memory is not one item's."""
    if isinstance(error, RuntimeError) and not is_out_of_memory(error):
        raise error
    return OUT_OF_MEMORY if isinstance(error, RuntimeError) else f"the plan does not fit: {error!r}"


def _block_of(item: PrefillItem | DecodeItem) -> int:
    if isinstance(item, DecodeItem):
        return item.block
    if item.samples_block is not None:
        return item.samples_block
    return item.pieces[-1].block if item.asks_block is None else item.asks_block


def _codec_key(parts: HiggsParts) -> str:
    """Names the codec by its weights, so that stored codes are never read by another one."""
    digest = blake2b(digest_size=8)
    for name, parameter in sorted(parts.decoder.quantizer.named_parameters()):
        digest.update(name.encode())
        digest.update(parameter.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()
