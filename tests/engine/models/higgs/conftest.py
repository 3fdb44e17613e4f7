"""A tiny checkpoint in the real format, the modules of transformers filled from it, and torch on one thread."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

STAND_IN = Path(__file__).parents[3] / "fakes" / "torchaudio_stand_in"


@pytest.fixture(autouse=True)
def single_thread_torch() -> Iterator[None]:
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    from engine.models.higgs.tiny_checkpoint import write_tiny_checkpoint

    folder = tmp_path_factory.mktemp("tiny")
    write_tiny_checkpoint(folder)
    return folder


@pytest.fixture(scope="session")
def transformers() -> Any:
    """transformers, with a stand-in for torchaudio on the path before its first import."""
    if "torchaudio" not in sys.modules:
        sys.path.insert(0, str(STAND_IN))
    return pytest.importorskip("transformers")


@pytest.fixture(scope="session")
def tensors(tiny_folder: Path) -> dict[str, Any]:
    """Every tensor of the tiny checkpoint, float32."""
    from engine.runtime.weights import Checkpoint

    checkpoint = Checkpoint(tiny_folder)
    return {name: tensor.float() for name, tensor in checkpoint.read(checkpoint.entries).items()}


@pytest.fixture(scope="session")
def qwen3(transformers: Any, tensors: dict[str, Any], tiny_folder: Path) -> Any:
    """transformers' Qwen3Model with the checkpoint's backbone in it, strictly."""
    import json

    text = json.loads((tiny_folder / "config.json").read_text())["text_config"]
    text.pop("architectures"), text.pop("model_type")
    config = transformers.Qwen3Config(**text, attn_implementation="eager")
    model = transformers.Qwen3Model(config).eval()
    names = {"embed_tokens.weight": "tied.embedding.text_embedding.weight", "norm.weight": "body.norm.weight"}
    state = {name: tensors[names.get(name, f"body.{name}")] for name in model.state_dict()}
    model.load_state_dict(state, strict=True)
    return model


@pytest.fixture(scope="session")
def higgs_codec(transformers: Any, tensors: dict[str, Any], tiny_folder: Path) -> Any:
    """transformers' HiggsAudioV2TokenizerModel with the checkpoint's codec in it, strictly."""
    import json

    config = json.loads((tiny_folder / "config.json").read_text())["audio_tokenizer_config"]
    config.pop("model_type")
    model = transformers.HiggsAudioV2TokenizerModel(transformers.HiggsAudioV2TokenizerConfig(**config)).eval()
    prefix = "tied.embedding.modality_embeddings.0.model."
    model.load_state_dict({name: tensors[prefix + name] for name in model.state_dict()}, strict=True)
    return model


@pytest.fixture(scope="session")
def parts(tiny_folder: Path) -> Any:
    """Our modules, float32, rotary cache not rounded (transformers does not), with the reference encoder."""
    from engine.models.higgs.checkpoint_config import read_geometry
    from engine.models.higgs.config import HiggsSettings
    from engine.models.higgs.weights import load_parts
    from engine.runtime.weights import Checkpoint

    settings = HiggsSettings(is_rope_rounded=False)
    return load_parts(Checkpoint(tiny_folder), read_geometry(tiny_folder), settings, has_encoder=True)
