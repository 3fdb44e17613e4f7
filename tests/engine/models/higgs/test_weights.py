"""Both layouts of the checkpoint load; every tensor is accounted for."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from safetensors.torch import load_file, save_file  # noqa: E402

from engine.errors import ModelLoadError  # noqa: E402
from engine.models.higgs import weights  # noqa: E402
from engine.models.higgs.checkpoint_config import read_geometry  # noqa: E402
from engine.models.higgs.codec import CodecDecoder, ResidualQuantizer  # noqa: E402
from engine.models.higgs.config import BackboneGeometry, CodecGeometry, HiggsGeometry, HiggsSettings  # noqa: E402
from engine.models.higgs.model import HiggsModel  # noqa: E402
from engine.models.higgs.reference import ReferenceEncoder  # noqa: E402
from engine.models.higgs.tiny_checkpoint import TinyShape, write_tiny_checkpoint  # noqa: E402
from engine.models.higgs.weights import (  # noqa: E402
    DECODER_COPIES,
    ENCODER_COPIES,
    memory_plan,
    step_bytes,
    with_kv_that_fits,
)
from engine.runtime.attention import Span  # noqa: E402
from engine.runtime.sampling import DrawKey, SamplingParameters, sample_rows  # noqa: E402
from engine.runtime.weights import Checkpoint  # noqa: E402
from tests.fakes.allocations import peak_bytes  # noqa: E402


def load(folder: Path, has_encoder: bool = True, **settings: Any) -> weights.HiggsParts:
    return weights.load_parts(Checkpoint(folder), read_geometry(folder), HiggsSettings(**settings), has_encoder)


def rewrite(source: Path, target: Path, change: Any) -> Path:
    """A single-shard copy whose tensors went through `change`."""
    target.mkdir()
    tensors: dict[str, Any] = {}
    for shard in sorted(source.glob("*.safetensors")):
        tensors |= load_file(str(shard))
    change(tensors)
    save_file(tensors, str(target / "model.safetensors"))
    shutil.copy(source / "config.json", target)
    return target


@pytest.mark.parametrize("has_heads", [True, False])
@pytest.mark.parametrize("shards", [1, 4])
def test_both_layouts_load_to_the_same_weights(tmp_path: Path, parts: Any, has_heads: bool, shards: int) -> None:
    write_tiny_checkpoint(tmp_path, TinyShape(has_heads=has_heads, shards=shards))
    loaded = load(tmp_path)
    for name, parameter in loaded.backbone.state_dict().items():
        assert torch.equal(parameter, parts.backbone.state_dict()[name])
    assert torch.equal(loaded.codebooks.embedding, parts.codebooks.embedding)


def test_no_weight_is_left_unfilled(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = torch.empty

    def poisoned(*args: Any, **kwargs: Any) -> Any:
        tensor = empty(*args, **kwargs)
        return tensor.fill_(torch.nan) if tensor.is_floating_point() else tensor

    monkeypatch.setattr(torch, "empty", poisoned)
    loaded = load(tiny_folder)
    for module in (loaded.backbone, loaded.codebooks, loaded.decoder, loaded.encoder):
        assert module is not None
        for parameter in module.parameters():
            assert torch.isfinite(parameter).all()
            assert not parameter.requires_grad


def test_loading_without_the_encoder_still_accounts_for_its_tensors(tiny_folder: Path, tmp_path: Path) -> None:
    assert load(tiny_folder, has_encoder=False).encoder is None

    def drop(tensors: dict[str, Any]) -> None:
        del tensors[f"{weights.CODEC_PREFIX}fc.weight"]

    with pytest.raises(ModelLoadError, match=r"1 tensor\(s\) missing: .*fc\.weight"):
        load(rewrite(tiny_folder, tmp_path / "x", drop), has_encoder=False)


def test_the_mask_embedding_of_training_may_be_absent(tiny_folder: Path, tmp_path: Path) -> None:
    name = f"{weights.CODEC_PREFIX}semantic_model.masked_spec_embed"
    load(rewrite(tiny_folder, tmp_path / "x", lambda tensors: tensors.pop(name)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("body.layers.1.mlp.up_proj.weight"), r"missing: body\.layers\.1\.mlp\.up_proj\.weight"),
        (lambda t: t.update({"body.layers.2.mlp.up_proj.weight": torch.zeros(1)}), "unexpected: body.layers.2"),
        (
            lambda t: t.update({"body.norm.weight": torch.zeros(65)}),
            r"misshapen: body\.norm\.weight is \[65\], not \[64\]",
        ),
        (lambda t: t.update({"tied.head.text_head.weight": torch.zeros(2, 2)}), "misshapen: tied.head.text_head"),
        (lambda t: t.update({"tied.head.other.weight": torch.zeros(2)}), "unexpected: tied.head.other"),
    ],
)
def test_a_missing_extra_or_misshapen_tensor_is_named(
    tiny_folder: Path, tmp_path: Path, change: Any, message: str
) -> None:
    with pytest.raises(ModelLoadError, match=message):
        load(rewrite(tiny_folder, tmp_path / "x", change))


@pytest.mark.parametrize("name", [weights.TEXT_HEAD_PREFIX, weights.CODE_HEAD_PREFIX])
def test_a_head_that_is_not_the_embedding_it_is_called_tied_to_is_named(
    tiny_folder: Path, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    load(tiny_folder)
    assert not caplog.messages
    head = f"{name}weight"

    def nudge(tensors: dict[str, Any]) -> None:
        tensors[head][-1, -1] += 1.0

    load(rewrite(tiny_folder, tmp_path / "x", nudge))
    (message,) = caplog.messages
    assert f"{head} is not equal to tied.embedding." in message


def test_an_untied_text_head_is_nobodys_concern(
    tiny_folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    head = f"{weights.TEXT_HEAD_PREFIX}weight"
    folder = rewrite(tiny_folder, tmp_path / "x", lambda tensors: tensors[head].zero_())
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["tie_word_embeddings"] = False
    (folder / "config.json").write_text(json.dumps(config))
    load(folder)
    assert not caplog.messages


def test_an_untied_head_is_loaded_as_a_head_of_its_own(tiny_folder: Path, tmp_path: Path) -> None:
    def scale(tensors: dict[str, Any]) -> None:
        tensors["tied.head.modality_heads.0.weight"] = tensors["tied.head.modality_heads.0.weight"] * 2

    folder = rewrite(tiny_folder, tmp_path / "x", scale)
    config = json.loads((folder / "config.json").read_text())
    config["audio_encoder_config"]["tie_word_embeddings"] = False
    (folder / "config.json").write_text(json.dumps(config))
    codebooks = load(folder).codebooks
    hidden = torch.randn(3, 64)
    tied = (hidden @ codebooks.embedding.T).view(3, 8, 1026)
    torch.testing.assert_close(codebooks.logits(hidden), 2 * tied)


def test_an_untied_head_that_is_absent_is_refused(tmp_path: Path) -> None:
    write_tiny_checkpoint(tmp_path, TinyShape(has_heads=False))
    config = json.loads((tmp_path / "config.json").read_text())
    config["audio_encoder_config"]["tie_word_embeddings"] = False
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelLoadError, match="head is not tied"):
        load(tmp_path)


def test_the_codebook_head_scores_with_the_matrix_that_embeds(parts: Any) -> None:
    codes = torch.randint(0, 1026, (5, 8))
    table = parts.codebooks.embedding.view(8, 1026, 64)
    wanted = sum(table[k][codes[:, k]] for k in range(8))
    torch.testing.assert_close(parts.codebooks.embed(codes), wanted)
    hidden = torch.randn(3, 64)
    torch.testing.assert_close(parts.codebooks.logits(hidden), torch.einsum("bc,kvc->bkv", hidden, table))


def test_the_fused_embedding_equals_transformers(parts: Any, transformers: Any) -> None:
    from types import SimpleNamespace

    from transformers.models.higgs_audio_v2.modeling_higgs_audio_v2 import HiggsAudioV2Embeddings

    oracle = HiggsAudioV2Embeddings(SimpleNamespace(num_codebooks=8, codebook_size=1026, hidden_size=64))
    oracle.embed_audio_tokens.weight.data = parts.codebooks.embedding.data
    codes = torch.randint(0, 1026, (1, 5, 8))
    torch.testing.assert_close(parts.codebooks.embed(codes), oracle(codes))


# ---- the memory plan

PUBLIC = HiggsGeometry(
    BackboneGeometry(151936, 2560, 9728, 36, 32, 8, 128, 1e6, 1e-6, 32768), CodecGeometry(), 1026, is_head_tied=True
)


def test_the_memory_plan_names_every_part_and_adds_up(tmp_path: Path) -> None:
    plan = memory_plan(PUBLIC, HiggsSettings(dtype="bfloat16", max_sequences=64, voices=tmp_path))
    assert plan.total_bytes == sum(part.size_bytes for part in plan.parts)
    names = [part.name for part in plan.parts]
    assert {"backbone weights", "KV pages", "codec workspace", "reference encoder weights"} <= set(names)
    kv = next(part for part in plan.parts if part.name == "KV pages")
    assert kv.size_bytes == (64 * 4096 + 16) * 147_456


def test_kv_memory_that_is_left_open_is_what_the_sequences_want_or_what_the_device_has() -> None:
    few = HiggsSettings(dtype="bfloat16", max_sequences=1, max_context_tokens=64)
    assert with_kv_that_fits(PUBLIC, few).kv_tokens == 64
    assert with_kv_that_fits(PUBLIC, replace(few, max_context_tokens=65)).kv_tokens == 80  # whole pages hold it
    many = HiggsSettings(dtype="bfloat16", max_sequences=4096, max_decode_batch=16)
    fitted = with_kv_that_fits(PUBLIC, many)
    assert fitted.kv_tokens is not None
    assert 4096 <= fitted.kv_tokens < 4096 * 4096
    assert with_kv_that_fits(PUBLIC, fitted) is fitted


# ---- the memory plan against what is allocated ---------------------------------------------------------------------

PLAN_SLACK = 2.5
"""A budget that is more than so many times its need keeps streams out for nothing."""


@pytest.fixture(scope="module")
def wide_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wide enough for activations to outweigh what is fixed."""
    folder = tmp_path_factory.mktemp("wide")
    write_tiny_checkpoint(folder, TinyShape(channels=256, inner=768, heads=8, kv_heads=4, head_size=64))
    return folder


@pytest.mark.parametrize("is_deterministic", [False, True])
@pytest.mark.parametrize("context_tokens", [256, 1024])
def test_no_step_takes_more_than_its_budget(wide_folder: Path, context_tokens: int, is_deterministic: bool) -> None:
    settings = HiggsSettings(
        max_sequences=12,
        max_decode_batch=12,
        max_prefill_tokens=240,
        max_context_tokens=context_tokens,
        max_block_rows=64,
        is_deterministic=is_deterministic,
    )
    model = HiggsModel.load(wide_folder, settings)
    pages = context_tokens // settings.page_tokens
    tables = [tuple(range(pages * lane, pages * (lane + 1))) for lane in range(12)]
    channels = model._geometry.backbone.channels
    last = context_tokens

    def step(lengths: list[int], decodes: int) -> None:
        spans = [Span(last - length, length, tables[lane]) for lane, length in enumerate(sorted(lengths))]
        rows = sum(lengths) + decodes
        wanted = list(range(rows))[-12:]
        decode = [Span(last - 1, 1, table) for table in tables[:decodes]]
        with torch.inference_mode():
            hidden = model._runner.run(torch.zeros(rows, channels), spans, decode, wanted)
            logits = model._runner.by_row(hidden, model._parts.codebooks.logits)
            parameters = SamplingParameters(0.8, 0.8, 30, 0)
            sample_rows(logits, [DrawKey(parameters, 0, row) for row in range(len(wanted))])

    streaming = replace(settings, is_token_streaming=True)
    inserted = peak_bytes(lambda: step([180, 20, 20, 20, *[3] * 8], 0))
    assert inserted <= step_bytes(model._geometry, streaming), "text goes in beside a whole prefill"
    assert step_bytes(model._geometry, streaming) > step_bytes(model._geometry, settings)
    budget = step_bytes(model._geometry, settings)
    peaks = [
        peak_bytes(lambda lengths=lengths, decodes=decodes: step(lengths, decodes))  # type: ignore[misc]
        for lengths, decodes in (([], 12), ([20] * 12, 0), ([1] * 11 + [229], 12), ([240], 11), ([3] * 12, 12))
    ]
    assert max(peaks) <= budget
    assert budget <= PLAN_SLACK * max(peaks)


@pytest.mark.parametrize(("batch", "frames"), [(1, 20), (1, 70), (3, 20)])
def test_no_batch_of_windows_takes_more_than_its_budget(batch: int, frames: int) -> None:
    """In the public checkpoint's geometry."""
    codec = CodecGeometry()
    decoder = random(CodecDecoder(codec, torch.device("cpu")))
    decoder.prepare()
    codes = torch.zeros(batch, frames, codec.codebooks, dtype=torch.int64)
    with torch.inference_mode():
        peak = peak_bytes(lambda: decoder(codes))
    widest = codec.decoder_channels >> len(codec.decoder_strides)
    copy = batch * frames * codec.samples_per_frame * widest * 4
    assert (DECODER_COPIES - 1) * copy < peak <= DECODER_COPIES * copy


def test_no_reference_takes_more_than_its_budget() -> None:
    codec = CodecGeometry()
    cpu = torch.device("cpu")
    encoder = random(ReferenceEncoder(codec, ResidualQuantizer(codec, cpu), cpu))
    sound = torch.randn(1, 2 * codec.sample_rate_hz)
    with torch.inference_mode():
        peak = peak_bytes(lambda: encoder(sound))
    copy = sound.numel() * codec.encoder_channels * 4
    assert (ENCODER_COPIES - 1) * copy < peak <= ENCODER_COPIES * copy


def random(module: Any) -> Any:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.02)
    return module.eval()
