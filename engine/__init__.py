"""Antiphon's engine: segments in, PCM out. Importing it loads no torch."""

from engine.api import Engine, EngineSession, SpeechStream
from engine.config import EngineSettings
from engine.engine import EngineStats, LocalEngine
from engine.errors import (
    CapacityError,
    EngineError,
    ModelLoadError,
    SpeechFailedError,
    TooLongError,
    VoiceNotFoundError,
)
from engine.speech_model import SpeechModel

__all__ = [
    "CapacityError",
    "Engine",
    "EngineError",
    "EngineSession",
    "EngineSettings",
    "EngineStats",
    "LocalEngine",
    "ModelLoadError",
    "SpeechFailedError",
    "SpeechModel",
    "SpeechStream",
    "TooLongError",
    "VoiceNotFoundError",
]
