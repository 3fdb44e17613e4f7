"""The embedded English voice: a small acoustic net (ONNX) and our own windowed synthesis. Needs no GPU, no download."""

from engine.models.hibari.model import HibariModel

__all__ = ["HibariModel"]
