"""The tiny checkpoint has the public one's names, counts, shards and tokenizer, and nothing trivial in it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from engine.models.higgs import weights  # noqa: E402
from engine.models.higgs.model import HiggsModel  # noqa: E402
from engine.models.higgs.tiny_checkpoint import TinyShape, special_tokens, write_tiny_checkpoint  # noqa: E402


def test_the_tiny_checkpoint_has_the_public_names_and_counts(tiny_folder: Path) -> None:
    index = json.loads((tiny_folder / "model.safetensors.index.json").read_text())["weight_map"]
    counts = Counter(
        next(p for p in ("body.layers.", "body.norm.", "tied.embedding.text_embedding.",
                         "tied.embedding.modality_embeddings.0.embedding.", weights.CODEC_PREFIX, "tied.head.")
             if name.startswith(p))
        for name in index
    )  # fmt: skip
    assert counts == {
        "body.layers.": 2 * 11, "body.norm.": 1, "tied.embedding.text_embedding.": 1,
        "tied.embedding.modality_embeddings.0.embedding.": 1, weights.CODEC_PREFIX: 528 - 10 * 16, "tied.head.": 2,
    }  # fmt: skip
    assert len(set(index.values())) == 3


def test_the_heads_in_the_shards_equal_the_embeddings(tensors: dict[str, Any]) -> None:
    assert torch.equal(tensors["tied.head.text_head.weight"], tensors[weights.TEXT_EMBEDDING])
    assert torch.equal(tensors["tied.head.modality_heads.0.weight"], tensors[weights.CODE_EMBEDDING])


def test_no_tensor_is_trivial(tensors: dict[str, Any]) -> None:
    """Zeros and ones would hide an error: every tensor of more than one value varies."""
    for name, tensor in tensors.items():
        assert torch.isfinite(tensor).all()
        assert tensor.numel() == 1 or tensor.std() > 0, name


def test_the_tokenizer_has_the_84_added_tokens_in_their_order(tiny_folder: Path) -> None:
    added = json.loads((tiny_folder / "tokenizer.json").read_text())["added_tokens"]
    assert [token["content"] for token in added] == list(special_tokens())
    assert len(added) == 84
    ids = [token["id"] for token in added]
    assert ids == list(range(ids[0], ids[0] + 84))
    assert sum(":" in token for token in special_tokens()) == 43 + 2  # the two env tags are in the vocabulary only


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path, tiny_folder: Path) -> None:
    write_tiny_checkpoint(tmp_path)
    for path in sorted(tiny_folder.iterdir()):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name
    write_tiny_checkpoint(tmp_path / "other", TinyShape(seed=1))
    shard = "model-00001-of-00003.safetensors"
    assert (tmp_path / "other" / shard).read_bytes() != (tiny_folder / shard).read_bytes()


def test_wherever_it_is_loaded_from_it_is_called_untrained(tiny_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        info = HiggsModel.load(tiny_folder).info
    assert "untrained" in info.name
    assert "noise" in info.voices[0].description
    assert not any("licence" in message for message in caplog.messages)
