"""What the native dialect's client may say: every message's fields with their checks (docs/protocol.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from engine.speech import Sampling
from gateway.errors import ClientError, ErrorCode

MAX_ID_CHARS: Final = 64
MAX_SEED: Final = 2**53 - 1
MAX_SEQ: Final = 2**32 - 1
MAX_LEXICON_WORDS: Final = 1000
MAX_WORD_CHARS: Final = 256
MAX_SHOWN_CHARS: Final = 60

Check = Callable[[str, Any], Any]
"""Field and value -> the value to use. Raises ClientError naming value and limit."""
MessageFields = tuple[Mapping[str, Check], Mapping[str, Check]]
"""The required ones, the optional ones."""


def fields_of(kind: object) -> MessageFields:
    """What a message of this type may hold. Raises ClientError unknown_type."""
    fields = MESSAGES.get(kind) if isinstance(kind, str) else None
    if fields is None:
        raise ClientError(ErrorCode.UNKNOWN_TYPE, f"unknown type {_shown(kind)}; known: {', '.join(MESSAGES)}")
    return fields


def read_fields(message: Mapping[Any, Any], fields: MessageFields) -> dict[str, Any]:
    """The checked values of a message without its type. Raises ClientError naming the field that is wrong."""
    return _read(message, "", *fields)


def _read(
    message: Mapping[Any, Any], prefix: str, required: Mapping[str, Check], optional: Mapping[str, Check]
) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for field, value in message.items():
        check = required.get(field) or optional.get(field)
        if check is None:
            known = ", ".join([*required, *optional])
            raise ClientError(ErrorCode.UNKNOWN_FIELD, f"unknown field {prefix}{field!s:.80}; known: {known}")
        read[field] = check(f"{prefix}{field}", value)
    for field in required:
        if field not in read:
            raise ClientError(ErrorCode.MISSING_FIELD, f"field {prefix}{field} is missing")
    return read


# ---- checks of single values -----------------------------------------------------------------------------------------


def _refuse(field: str, value: object, wanted: str) -> NoReturn:
    raise ClientError(ErrorCode.BAD_VALUE, f"{field} is {_shown(value)}, must be {wanted}")


def _shown(value: object) -> str:
    """A peer's value in a message: short, and never taken apart (it may be nested without end)."""
    if isinstance(value, str | bytes):
        return repr(value[:MAX_SHOWN_CHARS]) + ("…" if len(value) > MAX_SHOWN_CHARS else "")
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    return f"a {type(value).__name__}"


def _string(min_chars: int, max_chars: int) -> Check:
    def check(field: str, value: Any) -> str:
        if not isinstance(value, str):
            _refuse(field, value, "a string")
        if not min_chars <= len(value) <= max_chars:
            raise ClientError(
                ErrorCode.BAD_VALUE, f"{field} has {len(value):,} characters, must have {min_chars} to {max_chars}"
            )
        return value

    return check


def _number(low: float, high: float, *, low_is_open: bool = False) -> Check:
    def check(field: str, value: Any) -> float:
        wanted = f"a number {'above' if low_is_open else 'from'} {low:g}" + (
            f" to {high:g}" if math.isfinite(high) else (" up" if not low_is_open else "")
        )
        if isinstance(value, bool) or not isinstance(value, int | float):
            _refuse(field, value, wanted)
        try:
            number = float(value)
        except OverflowError:
            _refuse(field, value, wanted)
        if not math.isfinite(number) or number < low or number > high or (low_is_open and number == low):
            _refuse(field, value, wanted)
        return number

    return check


def _integer(low: int, high: int) -> Check:
    def check(field: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            _refuse(field, value, f"an integer from {low} to {high}")
        return value

    return check


def _choice(*names: str) -> Check:
    def check(field: str, value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            _refuse(field, value, " or ".join(repr(name) for name in names))
        return value

    return check


def _boolean(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        _refuse(field, value, "true or false")
    return value


def _optional(check: Check) -> Check:
    return lambda field, value: None if value is None else check(field, value)


def _text(field: str, value: Any) -> str | bytes:
    if not isinstance(value, str | bytes):
        _refuse(field, value, "a string")
    return value


def _correlation_id(field: str, value: Any) -> str | int:
    if isinstance(value, str):
        if len(value) > MAX_ID_CHARS:
            raise ClientError(ErrorCode.BAD_VALUE, f"{field} has {len(value):,} characters, at most {MAX_ID_CHARS}")
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_SEED:
        return value
    _refuse(field, value, f"a string of at most {MAX_ID_CHARS} characters or an integer within ±(2^53-1)")


def _sampling(field: str, value: Any) -> Sampling:
    if not isinstance(value, dict):
        _refuse(field, value, "a map of temperature, top_p, top_k")
    read = _read(value, f"{field}.", {}, SAMPLING_FIELDS)
    return Sampling(read.get("temperature"), read.get("top_p"), read.get("top_k"))


def _lexicon(field: str, value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict):
        _refuse(field, value, "a map of words to respellings or /phonemes/")
    if len(value) > MAX_LEXICON_WORDS:
        raise ClientError(ErrorCode.BAD_VALUE, f"{field} has {len(value):,} words, at most {MAX_LEXICON_WORDS:,}")
    word = _string(1, MAX_WORD_CHARS)
    return {word(f"a word of {field}", key): word(f"{field}[{key!r:.40}]", entry) for key, entry in value.items()}


# ---- the message table: type -> (required fields, optional fields) ---------------------------------------------------

_ID: Final = _string(1, MAX_ID_CHARS)
_NAME: Final = _string(1, 256)
_MILLISECONDS: Final = _number(0, math.inf)
_RATE: Final = _integer(1, 1_000_000)
_SPEED: Final = _number(0, math.inf, low_is_open=True)
_SEED: Final = _integer(0, MAX_SEED)

SAMPLING_FIELDS: Final[Mapping[str, Check]] = {
    "temperature": _optional(_number(0, 10)),
    "top_p": _optional(_number(0, 1, low_is_open=True)),
    "top_k": _optional(_integer(1, 1_000_000)),
}

MESSAGES: Final[Mapping[str, MessageFields]] = {
    "open": (
        {"utterance": _ID},
        {
            "lane": _ID,
            "voice": _NAME,
            "format": _NAME,
            "sample_rate_hz": _RATE,
            "speed": _SPEED,
            "seed": _SEED,
            "language": _NAME,
            "words": _boolean,
            "segmentation": _choice("auto", "manual"),
            "sampling": _sampling,
        },
    ),
    "text": ({"utterance": _ID, "text": _text}, {}),
    "flush": ({"utterance": _ID}, {"id": _correlation_id}),
    "end": ({"utterance": _ID}, {}),
    "cancel": ({}, {"utterance": _ID, "played_ms": _MILLISECONDS}),
    "ack": ({"utterance": _ID, "played_ms": _MILLISECONDS}, {}),
    "config": (
        {},
        {
            "voice": _NAME,
            "format": _NAME,
            "sample_rate_hz": _optional(_RATE),
            "speed": _SPEED,
            "seed": _optional(_SEED),
            "language": _optional(_NAME),
            "lexicon": _lexicon,
            "audio": _choice("binary", "base64"),
            "max_ahead_ms": _optional(_number(0, math.inf, low_is_open=True)),
            "tag_scope": _choice("utterance", "session"),
            "resume_ms": _MILLISECONDS,
        },
    ),
    "resume": ({"resume_token": _string(1, 256), "last_seq": _integer(0, MAX_SEQ)}, {}),
    "ping": ({}, {"id": _correlation_id}),
}
