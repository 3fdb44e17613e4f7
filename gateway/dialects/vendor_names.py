"""What vendors call voices and models, and what that means here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from engine.speech import ModelInfo
from gateway.errors import ClientError, ErrorCode, WarningCode
from gateway.events import Remark
from gateway.voices import find_voice

UnknownName = Literal["default", "error"]

PRESETS: Final = (
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer", "verse"
)  # fmt: skip
"""Names that some clients insist on; where the table says nothing else they stand for the model's own voices."""


@dataclass(frozen=True, slots=True)
class Named:
    """A name resolved. `value` None = the default; `remark` where the client should learn of a replacement."""

    value: str | None
    remark: Remark | None = None


@dataclass(frozen=True, slots=True)
class VendorNames:
    """The table of the settings: a vendor's name -> ours."""

    voices: Mapping[str, str]
    models: Mapping[str, str]
    unknown: UnknownName
    """What an unknown name gets: the default and a warning, or an error."""
    preset_voices: tuple[str, ...]
    """The model's own voices, which the presets stand for whatever else has been cloned."""

    def voice(self, name: str | None, model: ModelInfo) -> Named:
        """The voice for a vendor's name. Raises ClientError voice_not_found where unknown names are errors."""
        if name is None or name == "":
            return Named(None)
        found = find_voice(self.voices.get(name, name), model)
        if found is not None:
            return Named(found.id)
        if name in PRESETS and name not in self.voices and self.preset_voices:
            return Named(self.preset_voices[PRESETS.index(name) % len(self.preset_voices)])
        known = ", ".join(voice.id for voice in model.voices)
        sentence = f"voice {name!r:.80} is not known here; known: {known} (setting dialects.voices maps names)"
        if self.unknown == "error":
            raise ClientError(ErrorCode.VOICE_NOT_FOUND, sentence)
        return Named(
            None, Remark(WarningCode.VOICE_SUBSTITUTED, f"{sentence}; {model.default_voice} speaks", detail=name[:80])
        )

    def voice_now(self, name: str | None, model: ModelInfo) -> Named:
        """The voice for a name that a connection was opened with, when an utterance is to be spoken. One that has gone
        since, where unknown names are errors, is left as it is: the session refuses it with that utterance."""
        try:
            return self.voice(name, model)
        except ClientError:
            return Named(name)

    def model(self, name: str | None, model: ModelInfo) -> Remark | None:
        """What there is to say about a vendor's model name: one model is loaded, and it speaks.
        Raises ClientError bad_value where unknown names are errors."""
        if name is None or name == "" or self.models.get(name, name) == model.name:
            return None
        sentence = f"model {name!r:.80} is not known here; {model.name} is loaded (setting dialects.models maps names)"
        if self.unknown == "error":
            raise ClientError(ErrorCode.BAD_VALUE, sentence)
        return Remark(WarningCode.MODEL_SUBSTITUTED, f"{sentence} and speaks", detail=name[:80])
