from __future__ import annotations

import dataclasses

import pytest

from engine.speech import Span
from gateway.text.sink import TextNotice


def test_a_notice_does_not_change() -> None:
    notice = TextNotice("unknown_tag", "x", "m", Span(0, 1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        notice.detail = "y"  # type: ignore[misc]
