"""The scheduler of interleaved speech. Pure: no torch, no asyncio, no clock; arrays pass through unread."""
