"""How commands end."""

from __future__ import annotations

from gateway.commands.outcome import FAILED, USAGE, CommandError


def test_an_error_means_failed_unless_it_says_otherwise() -> None:
    assert CommandError("no").status == FAILED
    assert CommandError("no", USAGE).status == USAGE
