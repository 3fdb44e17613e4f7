"""What every dialect of DIALECTS has to keep, whatever its vendor: one suite over all of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.speech import VoiceInfo
from gateway.audio.containers import CONTAINERS
from gateway.dialects import DIALECTS, LIST_ENDPOINTS, SPEECH_ENDPOINTS, DialectEntry, openai_speech
from gateway.dialects.base import Handshake, ServerFacts
from gateway.dialects.http_speech import STATUS, HttpSpeechDialect
from gateway.errors import ClientError, ErrorCode, HandshakeError
from gateway.events import (
    Audio,
    ClientEvent,
    Done,
    EndText,
    Failed,
    Flush,
    OpenUtterance,
    TextFragment,
    UtteranceMetrics,
)
from tests.fakes.talk import MODEL, SAMPLES_PER_WORD
from tests.fakes.vendor_talk import VENDORS, VendorTalk, facts

# ---- how each vendor's client says the same things ------------------------------------------------------------------

SPEC_TEXT = "It costs $5, he said! Really? The 3.14 of it: one-two, then [laughs] no more."


@dataclass(frozen=True, slots=True)
class Script:
    """One turn of each dialect: messages for a text cut into pieces, and what counts as its end marker."""

    turn: Callable[[str, list[str]], list[dict[str, Any]]]
    is_end: Callable[[dict[str, Any]], bool]
    audio: Callable[[Any], bool]
    query: dict[str, str]
    has_end: bool = True


def _elevenlabs(context: str, pieces: list[str]) -> list[dict[str, Any]]:
    return [
        {"text": " ", "context_id": context},
        *({"text": piece, "context_id": context} for piece in pieces),
        {"context_id": context, "flush": True},
        {"context_id": context, "close_context": True},
    ]


def _cartesia(context: str, pieces: list[str]) -> list[dict[str, Any]]:
    output = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}
    sent = [
        {"context_id": context, "transcript": piece, "continue": True, "voice": {"id": "alto"}, "output_format": output}
        for piece in pieces
    ]
    return [*sent, {"context_id": context, "transcript": "", "continue": False, "output_format": output}]


def _deepgram(context: str, pieces: list[str]) -> list[dict[str, Any]]:
    return [*({"type": "Speak", "text": piece} for piece in pieces), {"type": "Flush"}]


def _livekit(context: str, pieces: list[str]) -> list[dict[str, Any]]:
    return [*({"type": "input_transcript", "transcript": piece} for piece in pieces), {"type": "session.flush"}]


def _realtime(context: str, pieces: list[str]) -> list[dict[str, Any]]:
    part = [{"type": "input_text", "text": piece} for piece in pieces]
    return [
        {"type": "conversation.item.create", "item": {"type": "message", "role": "user", "content": part}},
        {"type": "response.create", "response": {}},
    ]


def _jambonz(context: str, pieces: list[str]) -> list[dict[str, Any]]:
    return [*({"type": "stream", "text": piece} for piece in pieces), {"type": "flush"}]


def _stream(context: str, pieces: list[str]) -> list[dict[str, Any]]:
    return [{"text": " "}, *({"text": piece} for piece in pieces), {"text": ""}]


def _kind(*kinds: str) -> Callable[[dict[str, Any]], bool]:
    return lambda frame: frame.get("type") in kinds


def _is_binary(message: Any) -> bool:
    return isinstance(message, bytes)


def _has(key: str) -> Callable[[Any], bool]:
    return lambda message: isinstance(message, dict) and bool(message.get(key))


SCRIPTS: dict[str, Script] = {
    "elevenlabs stream": Script(
        _stream, lambda frame: frame.get("isFinal") is True, _has("audio"), {"output_format": "pcm_24000"}
    ),
    "elevenlabs multi": Script(
        _elevenlabs, lambda frame: frame.get("isFinal") is True, _has("audio"), {"output_format": "pcm_24000"}
    ),
    "cartesia": Script(_cartesia, _kind("done"), _has("data"), {}),
    "deepgram": Script(_deepgram, _kind("Flushed"), _is_binary, {}),
    "deepgram flux": Script(_deepgram, _kind("SpeechMetadata", "SpeechInterrupted"), _is_binary, {}),
    "livekit": Script(_livekit, _kind("done"), _has("audio"), {}),
    "openai realtime": Script(_realtime, _kind("response.done"), _has("delta"), {}),
    "jambonz": Script(_jambonz, lambda frame: False, _is_binary, {"sampleRate": "24000"}, has_end=False),
}


def start(entry: DialectEntry) -> VendorTalk:
    return VendorTalk(entry.name, SCRIPTS[entry.name].query)


def ends(talk: VendorTalk) -> int:
    script = SCRIPTS[talk.name]
    return sum(1 for frame in talk.got if isinstance(frame, dict) and script.is_end(frame))


def test_every_vendor_has_a_script_here() -> None:
    assert {entry.name for entry in VENDORS} == set(SCRIPTS)


def test_names_and_paths_are_unique() -> None:
    names = Counter(entry.name for entry in DIALECTS)
    sockets = Counter(path for entry in DIALECTS for path in entry.paths)
    posts = Counter(path for endpoint in SPEECH_ENDPOINTS for path in endpoint.paths)
    gets = Counter(path for endpoint in LIST_ENDPOINTS for path in endpoint.paths)
    assert max(names.values()) == max(sockets.values()) == max(posts.values()) == max(gets.values()) == 1


# ---- end markers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", VENDORS, ids=lambda entry: entry.name)
@pytest.mark.parametrize("pieces", [["Hello there."], [], [""], [" "], ["...", "\n"], ["[laughs]"]])
def test_a_turn_has_exactly_one_end_marker_behind_its_last_audio(entry: DialectEntry, pieces: list[str]) -> None:
    talk, script = start(entry), SCRIPTS[entry.name]
    talk.send(*script.turn("a", pieces))
    talk.wait(3.0)
    assert ends(talk) == (1 if script.has_end else 0)
    if script.has_end:
        place = next(i for i, message in enumerate(talk.got) if isinstance(message, dict) and script.is_end(message))
        assert not any(script.audio(message) for message in talk.got[place + 1 :])


@pytest.mark.parametrize("entry", [e for e in VENDORS if e.name != "elevenlabs stream"], ids=lambda entry: entry.name)
def test_a_second_turn_on_the_same_connection_sounds_like_the_first(entry: DialectEntry) -> None:
    talk, script = start(entry), SCRIPTS[entry.name]
    talk.send(*script.turn("a", ["Hello there."]))
    first = sum(event.sample_count for event in talk.said if isinstance(event, Audio))
    talk.wait(70.0)
    talk.send(*script.turn("b", ["Hello there."]))
    assert sum(event.sample_count for event in talk.said if isinstance(event, Audio)) == 2 * first
    assert ends(talk) == (2 if script.has_end else 0)


@pytest.mark.parametrize("entry", VENDORS, ids=lambda entry: entry.name)
def test_a_pause_of_eight_seconds_in_a_turn_ends_nothing(entry: DialectEntry) -> None:
    """An agent that looks something up: what it says afterwards is of the same turn."""
    talk, script = start(entry), SCRIPTS[entry.name]
    messages = script.turn("a", ["Let me look. ", "Found it."])
    at = next((i for i, message in enumerate(messages) if "Found" in json.dumps(message)), 0)
    talk.send(*messages[:at])
    talk.wait(8.0)
    assert ends(talk) == 0
    talk.send(*messages[at:])
    talk.wait(1.0)
    assert sum(event.sample_count for event in talk.said if isinstance(event, Audio)) == 5 * SAMPLES_PER_WORD
    assert ends(talk) == (1 if script.has_end else 0)


@pytest.mark.parametrize("entry", VENDORS, ids=lambda entry: entry.name)
def test_a_failure_of_the_engine_is_an_error_and_an_end(entry: DialectEntry) -> None:
    talk, script = start(entry), SCRIPTS[entry.name]
    talk.is_engine_held = True
    talk.send(*script.turn("a", ["Hello there."]))
    before = len(talk.got)
    for utterance in [event.utterance for event in talk.opened]:
        talk._note(talk.talk.session.speech_failed(utterance, ClientError(ErrorCode.ENGINE_FAILED, "it broke")))
    talk.pump()
    assert "it broke" in json.dumps([m for m in talk.got[before:] if isinstance(m, dict)])
    assert ends(talk) == (1 if script.has_end else 0)


# ---- text -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", VENDORS, ids=lambda entry: entry.name)
@given(cuts=st.lists(st.integers(0, len(SPEC_TEXT)), max_size=12))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_how_a_text_is_cut_into_messages_changes_nothing(entry: DialectEntry, cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(SPEC_TEXT)]
    pieces = [SPEC_TEXT[a:b] for a, b in pairwise(edges)]
    pieces = [piece for piece in pieces if piece]
    assert received(entry, pieces) == received(entry, [SPEC_TEXT])


def received(entry: DialectEntry, pieces: list[str]) -> str:
    """The text that reaches the session."""
    server, script = facts(), SCRIPTS[entry.name]
    dialect = entry.make(Handshake("/", {"voice_id": "alto"}, script.query, {}, ()), server)
    text = ""
    for message in script.turn("a", pieces):
        for event in dialect.receive(json.dumps(message)):
            text += event.text if isinstance(event, TextFragment) else ""
    return text


# ---- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", DIALECTS, ids=lambda entry: entry.name)
@pytest.mark.parametrize("code", ErrorCode)
def test_every_error_code_has_a_wire_form(entry: DialectEntry, code: ErrorCode) -> None:
    query = SCRIPTS[entry.name].query if entry.name in SCRIPTS else {}
    dialect = entry.make(Handshake("/", {"voice_id": "alto"}, query, {}, ()), facts())
    messages = dialect.send(Failed(code, "a sentence with the value"))
    assert len(messages) == 1
    assert "a sentence with the value" in str(messages[0])


@pytest.mark.parametrize("entry", DIALECTS, ids=lambda entry: entry.name)
@pytest.mark.parametrize("code", ErrorCode)
def test_every_error_code_has_a_form_for_a_refused_upgrade(entry: DialectEntry, code: ErrorCode) -> None:
    failed = Failed(code, "a sentence with the válue", retry_after_s=2.0)
    assert "a sentence with the v" in json.dumps(entry.error_body(failed, STATUS[code]))
    for name, value in entry.error_headers(failed).items():
        assert f"{name}: {value}".isascii()
        assert value.isprintable()


HTTP = {path: endpoint for endpoint in SPEECH_ENDPOINTS for path in endpoint.paths if path.startswith(("/v", "/tts"))}
"""By path: what an endpoint answers may hang on it."""


def http_dialect(path: str) -> HttpSpeechDialect:
    endpoint = HTTP[path]
    handshake = Handshake(path, {"voice_id": "alto"}, {}, {}, ())
    return HttpSpeechDialect(handshake, facts(), endpoint.read, endpoint.error_body)


@pytest.mark.parametrize("name", HTTP)
@pytest.mark.parametrize("code", ErrorCode)
def test_every_error_code_has_a_status_and_a_body_over_http(name: str, code: ErrorCode) -> None:
    dialect = http_dialect(name)
    (body,) = dialect.send(Failed(code, "a sentence with the value", retry_after_s=2.0))
    assert dialect.head is not None
    assert dialect.head.status == STATUS[code] >= 400
    assert ("retry-after", "2") in dialect.head.headers
    assert "a sentence with the value" in json.dumps(json.loads(body))
    assert dialect.is_over
    assert dialect.send(Done("speech", "complete", 0, 24000, 0, UtteranceMetrics(0, None, 0, 0))) == []


@pytest.mark.parametrize("name", HTTP)
def test_an_error_behind_the_first_sound_is_told_or_cuts_the_answer_off(name: str) -> None:
    dialect = http_dialect(name)
    dialect.receive(json.dumps({"input": "Hi.", "text": "Hi.", "transcript": "Hi.", "response_format": "pcm"}))
    for number in range(40):  # enough for any container to give something
        dialect.send(Audio("speech", 0, number * 2400, 2400, b"\0\1" * 2400, 24000))
    has_begun = dialect.head is not None
    told = dialect.send(Failed(ErrorCode.ENGINE_FAILED, "it broke", "speech"))
    assert dialect.is_over
    assert dialect.head is not None
    assert dialect.head.status == (200 if has_begun else 500)
    assert bool(told) != dialect.is_cut_off


# ---- voices ---------------------------------------------------------------------------------------------------------

VOICE_PARAMETERS = {
    "deepgram": "model",
    "deepgram flux": "model",
    "jambonz": "voice",
}
"""Dialects whose URL names the voice in its query. ElevenLabs' has it in the path, the others in a message."""


def with_voice(name: str, server: ServerFacts, voice: str) -> VendorTalk:
    """A connection of this dialect whose client wants this voice, as far as it says so before the first turn."""
    query = SCRIPTS[name].query
    if name in VOICE_PARAMETERS:
        query = {**query, VOICE_PARAMETERS[name]: voice}
    talk = VendorTalk(name, query, server, path_params={"voice_id": voice})
    if name == "livekit":
        talk.send({"type": "session.create", "voice": voice})
    if name == "openai realtime":
        talk.send({"type": "session.update", "session": {"audio": {"output": {"voice": voice}}}})
    return talk


def turn_with_voice(talk: VendorTalk, context: str, voice: str) -> str | None:
    """Speak a turn; the voice that it was opened with."""
    before = len(talk.opened)
    for message in SCRIPTS[talk.name].turn(context, ["Hello there."]):
        talk.send({**message, "voice": {"id": voice}} if talk.name == "cartesia" else message)
    return talk.opened[before].options.voice


BY_MESSAGE = ("cartesia", "openai realtime")
"""Those whose client names the voice with each turn: the message is refused, and there is no turn."""
REOPENING = [entry for entry in VENDORS if entry.name != "elevenlabs stream"]
"""Those with more than one turn to a connection."""


@pytest.mark.parametrize("entry", REOPENING, ids=lambda entry: entry.name)
def test_a_voice_that_comes_and_goes_while_a_connection_lasts_is_that_of_the_turns_between(
    entry: DialectEntry,
) -> None:
    cloned = replace(MODEL, voices=(*MODEL.voices, VoiceInfo("v_1f", "Grandmother", "en")))
    loaded = MODEL
    talk = with_voice(entry.name, facts(read_model=lambda: loaded), "Grandmother")
    assert turn_with_voice(talk, "before", "Grandmother") is None
    loaded = cloned
    assert turn_with_voice(talk, "between", "Grandmother") == "v_1f"
    loaded = MODEL
    assert turn_with_voice(talk, "after", "Grandmother") is None
    assert talk.warnings().count(("voice_substituted", "Grandmother")) == 1
    assert ends(talk) == (3 if SCRIPTS[entry.name].has_end else 0)


@pytest.mark.parametrize("entry", [e for e in REOPENING if e.name not in BY_MESSAGE], ids=lambda entry: entry.name)
def test_a_turn_with_a_voice_that_was_deleted_is_an_error_and_ends_where_unknown_names_are_errors(
    entry: DialectEntry,
) -> None:
    loaded = replace(MODEL, voices=(*MODEL.voices, VoiceInfo("v_1f", "Grandmother", "en")))
    talk = with_voice(entry.name, facts(unknown="error", read_model=lambda: loaded), "Grandmother")
    assert turn_with_voice(talk, "before", "Grandmother") == "v_1f"
    loaded = MODEL
    turn_with_voice(talk, "after", "Grandmother")
    assert {error.code for error in talk.talk.errors} == {ErrorCode.VOICE_NOT_FOUND}
    assert ends(talk) >= 2 or not SCRIPTS[entry.name].has_end  # a Flush behind a refused turn may be one of its own


# ---- any bytes ------------------------------------------------------------------------------------------------------


def words(text: str) -> list[str]:
    return text.split()


KEYS = st.sampled_from(
    words(
        """
        type text context_id contextId flush close_context close_socket voice_settings transcript continue
        cancel voice output_format container encoding sample_rate generation_config speed volume emotion
        max_buffer_delay_ms session item response content input id role audio output format rate item_id
        audio_end_ms playback_offset value extra seed language stream_format response_format model model_id
        instructions pronunciation_dictionary_locators
        """
    )
)
KINDS = st.sampled_from(
    words(
        """
        Speak Flush Clear Close Interrupt Configure KeepAlive stream flush stop session.create
        input_transcript session.flush session.update conversation.item.create conversation.item.truncate
        conversation.item.delete response.create response.cancel input_audio_buffer.append
        """
    )
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.sampled_from(["", " ", "a", "Hello. ", "raw", "pcm_s16le", "\ud83d", "alto", "1e999", "24000"])
    | st.text(max_size=8)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=8)
TYPED = st.builds(lambda fields, kind: {**fields, "type": kind}, OBJECTS, KINDS)
MESSAGES = (
    (OBJECTS | TYPED).map(json.dumps)
    | VALUES.map(json.dumps)
    | st.text(max_size=60)
    | st.binary(max_size=60)
    | st.sampled_from(["[" * 100_000, "{" * 5000, "1" * 5000, '"\\ud83d"', "x" * 300_000, b"\xff\xfe", b""])
)


@pytest.mark.parametrize("entry", DIALECTS, ids=lambda entry: entry.name)
@given(messages=st.lists(MESSAGES, min_size=1, max_size=6))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_any_bytes_give_events_or_a_client_error(entry: DialectEntry, messages: list[str | bytes]) -> None:
    """Through a whole session: what is not an error has to be something that a session can handle."""
    if entry.name == "native":
        dialect = entry.make(Handshake("/", {}, {}, {}, ()), facts())
        for message in messages:
            with suppress(ClientError):
                dialect.receive(message)
        return
    talk = start(entry)
    talk.send(*(message for message in messages))
    talk.wait(1.0)


BAD_VALUES: tuple[object, ...] = ({}, [], 5, "x", True, [[]], {"speed": []}, {"speed": "x"}, {"encoding": 5})
SETTINGS_FIELDS = words(
    """
    type text context_id flush close_context close_socket voice_settings generation_config transcript continue cancel
    pronunciation_dictionary_locators max_buffer_delay_ms output_format voice model_id language speed item response
    session extra sample_rate
    """
)


def strays(entry: DialectEntry, messages: list[str | bytes]) -> list[ClientEvent]:
    """Events for utterances that no event before them has opened: a session would open them with its own defaults."""
    dialect = entry.make(Handshake("/", {"voice_id": "alto"}, SCRIPTS[entry.name].query, {}, ()), facts())
    opened: set[str] = set()
    found: list[ClientEvent] = []
    for message in messages:
        with suppress(ClientError):
            for event in dialect.receive(message):
                if isinstance(event, OpenUtterance):
                    opened.add(event.utterance)
                elif isinstance(event, TextFragment | Flush | EndText) and event.utterance not in opened:
                    found.append(event)
    return found


@pytest.mark.parametrize("entry", VENDORS, ids=lambda entry: entry.name)
@pytest.mark.parametrize("field", SETTINGS_FIELDS)
def test_behind_a_refused_message_the_next_good_one_opens_with_its_own_options(entry: DialectEntry, field: str) -> None:
    turn = SCRIPTS[entry.name].turn("a", ["Hello there."])
    for value in BAD_VALUES:
        for message in turn:
            assert strays(entry, [json.dumps(each) for each in ({**message, field: value}, *turn)]) == []


@pytest.mark.parametrize("entry", VENDORS, ids=lambda entry: entry.name)
@given(messages=st.lists(MESSAGES, min_size=1, max_size=8))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_no_text_goes_to_an_utterance_that_was_not_opened(entry: DialectEntry, messages: list[str | bytes]) -> None:
    assert strays(entry, messages) == []


@pytest.mark.parametrize("entry", VENDORS, ids=lambda entry: entry.name)
def test_a_client_that_sends_and_never_reads_is_refused_in_the_end(entry: DialectEntry) -> None:
    """Nothing of a dialect's may grow with what is sent: a turn, a context, an answer not yet read."""
    dialect = entry.make(Handshake("/", {"voice_id": "alto"}, SCRIPTS[entry.name].query, {}, ()), facts())
    refused = 0
    for number in range(1200):
        for message in (*SCRIPTS[entry.name].turn(f"c{number}", ["Hello."]), *ASKING):
            try:
                dialect.receive(json.dumps(message))
            except ClientError as error:
                refused += error.code in (ErrorCode.TOO_MANY_UTTERANCES, ErrorCode.QUOTA)
    assert refused or entry.name == "elevenlabs stream"  # which has one context, ever
    sizes = {name: len(value) for name, value in vars(dialect).items() if hasattr(value, "__len__")}
    assert max(sizes.values(), default=0) <= 1024


ASKING: list[dict[str, Any]] = [
    {"type": "Configure", "speed": 1.0},
    {"type": "session.update", "session": {}},
    {"type": "session.create"},
    {"type": "conversation.item.delete", "item_id": "i"},
]
"""Messages that are answered at once, in any protocol."""


@pytest.mark.parametrize("entry", VENDORS, ids=lambda entry: entry.name)
@pytest.mark.parametrize("field", [*SETTINGS_FIELDS, "metadata", "id"])
def test_nesting_without_end_is_a_client_error(entry: DialectEntry, field: str) -> None:
    """Just below the interpreter's own limit a value can be read that cannot be shown or written any more."""
    dialect = entry.make(Handshake("/", {"voice_id": "alto"}, SCRIPTS[entry.name].query, {}, ()), facts())
    for depth in (40, 500, *range(900, 1000, 9), 5000):
        value = "[" * depth + "]" * depth
        for kind in ("Speak", "response.create", "stream"):
            with pytest.raises(ClientError):
                dialect.receive(f'{{"type": "{kind}", "{field}": {value}, "response": {{"{field}": {value}}}}}')


@pytest.mark.parametrize("name", HTTP)
@given(message=MESSAGES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_any_body_gives_events_or_a_client_error(name: str, message: str | bytes) -> None:
    dialect = http_dialect(name)
    try:
        events = dialect.receive(message)
    except ClientError:
        return
    assert any(isinstance(event, TextFragment) for event in events)


QUERIES = st.dictionaries(
    st.sampled_from(
        words(
            """
        model model_id output_format encoding sample_rate speed container seed sampleRate voice language
        auto_mode sync_alignment language_code
        """
        )
    ),
    st.sampled_from(["", "true", "linear16", "24000", "-1", "1e400", "nan", "²", "pcm_²", "mp3_44100_128", "alto", "x"])
    | st.text(max_size=12),
    max_size=6,
)


@pytest.mark.parametrize("entry", DIALECTS, ids=lambda entry: entry.name)
@given(query=QUERIES, voice=st.text(max_size=20))
@settings(max_examples=80, deadline=None)
def test_any_url_gives_a_dialect_or_a_refusal_before_the_upgrade(
    entry: DialectEntry, query: dict[str, str], voice: str
) -> None:
    status = 101
    try:
        entry.make(Handshake("/", {"voice_id": voice}, query, {}, ()), facts()).begin()
    except HandshakeError as error:
        status = error.status
    assert status in (101, 400, 404)


def test_containers_are_all_reachable_over_http() -> None:
    reachable = {container for container in openai_speech.FORMATS.values() if container is not None}
    assert reachable == set(CONTAINERS)
