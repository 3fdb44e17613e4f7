"""Antiphon's engine: segments in, PCM out. Importing it loads no torch."""
