"""The net is loaded by hash, yields its durations, and speaks as fast as it is asked to."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from engine.errors import ModelLoadError
from engine.models.hibari import config
from engine.models.hibari.network import AcousticNet, with_outputs
from engine.models.hibari.phonemes import UNSPOKEN, VOWELS

SENTENCE = "ðə kwˈɪk bɹˈWn fˈɑks, wˌɪʧ wʌz vˈɛɹi tˈIəɹd, ʤˈʌmps ˈOvəɹ ðə lˈAzi dˈɔɡ."


@pytest.fixture(scope="module")
def net() -> AcousticNet:
    return AcousticNet.load()


def assets() -> Path:
    spec = importlib.util.find_spec("hibari")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "assets"


def copied_assets(folder: Path) -> Path:
    for name in (config.NET_FILE, "vocab.json"):
        shutil.copyfile(assets() / name, folder / name)
    return folder


def test_the_frames_counted_for_the_symbols_are_the_frames_there_are(net: AcousticNet) -> None:
    acoustics = net(SENTENCE, 1.0)
    assert len(acoustics.frames) == len(SENTENCE) + 2
    assert acoustics.frames.sum() == len(acoustics.f0) == acoustics.lh.shape[1]


@pytest.mark.parametrize("pace", [0.5, 0.65, 0.85, 1.1, 1.2, 1.3, 1.4])
def test_speech_is_as_long_as_the_pace_says(net: AcousticNet, pace: float) -> None:
    ratio = len(net(SENTENCE, 1.0).f0) / len(net(SENTENCE, pace).f0)
    assert ratio == pytest.approx(pace, rel=0.05)


@pytest.mark.parametrize("ratio", [0.7, 0.85, 1.2, 1.4])
@pytest.mark.parametrize("pace", [1.0, 0.85])
def test_vowels_take_their_share_and_the_whole_stays_as_long(net: AcousticNet, ratio: float, pace: float) -> None:
    def lengths(vowel_ratio: float) -> tuple[int, int]:
        frames = net(SENTENCE, pace, vowel_ratio).frames[1:-1]
        kinds = [(symbol in VOWELS, symbol in UNSPOKEN) for symbol in SENTENCE]
        vowels = sum(count for count, (is_vowel, _) in zip(frames, kinds, strict=True) if is_vowel)
        consonants = sum(count for count, kind in zip(frames, kinds, strict=True) if kind == (False, False))
        return int(vowels), int(consonants)

    (vowels, consonants), (moved, others) = lengths(1.0 + 1e-9), lengths(ratio)
    assert moved + others == pytest.approx(vowels + consonants, rel=0.04)
    assert (moved / others) / (vowels / consonants) == pytest.approx(ratio, rel=0.12)


def test_a_folder_with_the_same_files_will_do(tmp_path: Path) -> None:
    assert AcousticNet.load(copied_assets(tmp_path)).symbols


def test_a_changed_net_is_refused_with_both_hashes(tmp_path: Path) -> None:
    path = copied_assets(tmp_path) / config.NET_FILE
    path.write_bytes(path.read_bytes() + b"\x00")
    with pytest.raises(ModelLoadError, match=config.NET_SHA256):
        AcousticNet.load(tmp_path)


def test_a_missing_net_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"pip install .*hibari-tts==0\.2\.1"):
        AcousticNet.load(tmp_path)


def test_a_missing_package_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelLoadError, match="pip install hibari-tts"):
        AcousticNet.load()


def test_outputs_of_a_graph_are_replaced_and_all_else_is_kept() -> None:
    # ModelProto { ir_version: 8, graph { name: "g", output { name: "old" } }, producer_name: "p" }
    graph = b"\x12\x01g" + b"\x62\x05" + b"\x0a\x03old"
    model = b"\x08\x08" + b"\x3a" + bytes([len(graph)]) + graph + b"\x12\x01p"
    wanted = b"\x12\x01g" + b"\x62\x03" + b"\x0a\x01a" + b"\x62\x03" + b"\x0a\x01b"
    assert with_outputs(model, ("a", "b")) == b"\x08\x08" + b"\x3a" + bytes([len(wanted)]) + wanted + b"\x12\x01p"
