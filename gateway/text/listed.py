"""Word tables written as text."""

from __future__ import annotations


def listed(text: str) -> tuple[str, ...]:
    """The words of `text`, in order."""
    return tuple(text.split())
