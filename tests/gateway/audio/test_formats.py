"""Which formats and rates are granted, and what a refusal says."""

from __future__ import annotations

import pytest

from gateway.audio import formats
from gateway.audio.formats import AudioFormat, available_formats, resolve_format
from gateway.errors import ClientError, ErrorCode


def resolve(
    name: str | None, rate: int | None, default_name: str = "pcm_s16le", default_rate: int = 24000
) -> AudioFormat:
    return resolve_format(name, rate, default_name=default_name, default_rate_hz=default_rate)


def test_what_is_left_out_comes_from_the_defaults() -> None:
    assert resolve(None, None) == AudioFormat("pcm_s16le", 24000)
    assert resolve(None, 16000) == AudioFormat("pcm_s16le", 16000)
    assert resolve("pcm_f32le", None, default_rate=48000) == AudioFormat("pcm_f32le", 48000)


@pytest.mark.parametrize("rate", formats.PCM_RATES_HZ)
@pytest.mark.parametrize("name", ["pcm_s16le", "pcm_f32le"])
def test_pcm_is_granted_at_every_listed_rate(name: str, rate: int) -> None:
    assert resolve(name, rate).sample_rate_hz == rate


@pytest.mark.parametrize("name", ["mulaw", "alaw"])
def test_g711_implies_8000_hz_whatever_the_session_default_is(name: str) -> None:
    assert resolve(name, None, default_rate=48000) == AudioFormat(name, 8000)  # type: ignore[arg-type]
    assert resolve(name, 8000).sample_rate_hz == 8000


@pytest.mark.parametrize(("name", "rate"), [("mulaw", 16000), ("alaw", 24000), ("opus", 24000)])
def test_another_rate_than_the_implied_one_is_refused(name: str, rate: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "is_opus_available", lambda: True)
    with pytest.raises(ClientError, match=str(rate)) as caught:
        resolve(name, rate)
    assert caught.value.code == ErrorCode.RATE_UNSUPPORTED


@pytest.mark.parametrize("rate", [-8000, 0, 7999, 23999, 48001, 96000])
def test_a_refused_pcm_rate_is_named_with_those_allowed(rate: int) -> None:
    with pytest.raises(ClientError) as caught:
        resolve("pcm_s16le", rate)
    assert caught.value.code == ErrorCode.RATE_UNSUPPORTED
    assert str(rate) in caught.value.message
    assert "44100" in caught.value.message


@pytest.mark.parametrize("name", ["mp3", "", "PCM_S16LE", "x" * 100_000])
def test_an_unknown_format_is_refused_in_a_short_sentence_that_names_the_others(name: str) -> None:
    with pytest.raises(ClientError) as caught:
        resolve(name, None)
    assert caught.value.code == ErrorCode.FORMAT_UNSUPPORTED
    assert "pcm_f32le" in caught.value.message
    assert len(caught.value.message) < 250


def test_opus_is_offered_and_granted_only_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "is_opus_available", lambda: True)
    assert "opus" in available_formats()
    assert resolve("opus", None) == AudioFormat("opus", 48000)
    monkeypatch.setattr(formats, "is_opus_available", lambda: False)
    assert "opus" not in available_formats()
    with pytest.raises(ClientError, match=r"antiphon\[opus\]") as caught:
        resolve("opus", None)
    assert caught.value.code == ErrorCode.FORMAT_UNSUPPORTED
