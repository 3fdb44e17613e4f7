"""The `elevenlabs` package."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
import soundfile

from tests.conformance.conftest import KEY, Host

elevenlabs = pytest.importorskip("elevenlabs", reason="vendors' clients are not installed: make test-clients")
from elevenlabs.client import ElevenLabs  # noqa: E402
from elevenlabs.core.api_error import ApiError  # noqa: E402

CLIENT = "elevenlabs SDK 2.78.0"
TOKENS = ["The", " total", " is", " 1", ".5", " dollars", ".", " Thank", " you", "!"]


def client(host: Host, key: str = KEY) -> ElevenLabs:
    sdk = ElevenLabs(api_key=key, base_url=host.http)
    sdk.text_to_speech._ws_base_url = host.ws  # its own option forces wss
    return sdk


def realtime(sdk: ElevenLabs, tokens: list[str], voice: str = "alto") -> bytes:
    def fragments() -> Iterator[str]:
        yield from tokens

    stream = sdk.text_to_speech.convert_realtime(
        voice, text=fragments(), model_id="eleven_turbo_v2_5", output_format="pcm_24000"
    )
    return b"".join(stream)


@pytest.mark.capability(CLIENT, "speech")
def test_tokens_are_spoken(host: Host) -> None:
    audio = realtime(client(host), TOKENS)
    assert len(audio) % 2 == 0
    assert len(audio) / 48000 > 1.0


@pytest.mark.capability(CLIENT, "second turn")
def test_a_second_turn_sounds_like_the_first(host: Host) -> None:
    sdk = client(host)
    assert len(realtime(sdk, TOKENS)) == len(realtime(sdk, TOKENS))


@pytest.mark.capability(CLIENT, "empty turn ends")
@pytest.mark.parametrize("tokens", [[], [" "], ["..."]])
def test_a_turn_with_nothing_to_say_ends(host: Host, tokens: list[str]) -> None:
    assert isinstance(realtime(client(host), tokens), bytes)


@pytest.mark.capability(CLIENT, "bad key refused")
def test_a_bad_key_is_refused_at_the_handshake(host: Host) -> None:
    with pytest.raises(Exception, match="401"):
        realtime(client(host, "wrong"), TOKENS)


@pytest.mark.capability(CLIENT, "HTTP")
def test_http_gives_the_default_mp3_and_a_wav(host: Host) -> None:
    sdk = client(host)
    mp3 = b"".join(sdk.text_to_speech.convert("alto", text="Hello there.", model_id="eleven_turbo_v2_5"))
    samples, rate_hz = soundfile.read(io.BytesIO(mp3))
    assert rate_hz == 44100
    assert len(samples) / rate_hz > 0.4
    wav = b"".join(sdk.text_to_speech.stream("alto", text="Hello there.", output_format="wav_24000"))
    assert len(soundfile.read(io.BytesIO(wav))[0]) == 12 * 960


@pytest.mark.capability(CLIENT, "words")
def test_http_gives_characters_with_times(host: Host) -> None:
    chunks = list(
        client(host).text_to_speech.stream_with_timestamps("alto", text="Hello there.", output_format="pcm_24000")
    )
    characters = "".join("".join(chunk.alignment.characters) for chunk in chunks if chunk.alignment)
    assert characters == "Hello there. "


@pytest.mark.capability(CLIENT, "voices")
def test_voices_are_listed(host: Host) -> None:
    assert [voice.voice_id for voice in client(host).voices.get_all().voices] == ["alto", "tenor"]
    assert client(host).voices.get("tenor").name == "Tenor"
    with pytest.raises(ApiError) as missing:
        client(host).voices.get("nobody")
    assert missing.value.status_code == 404
