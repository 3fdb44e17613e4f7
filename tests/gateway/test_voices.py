"""The catalog: which voices a key may ask for, and what a name means."""

from __future__ import annotations

from engine.speech import VoiceInfo
from gateway.voices import VoiceCatalog, find_voice
from tests.fakes.talk import MODEL

OLD, NEW, SHARED = VoiceInfo("v1", "Ada", "en"), VoiceInfo("v2", "Ada", "en"), VoiceInfo("v3", "Ada", "en")


def found(catalog: VoiceCatalog, wanted: str, owner: str | None) -> str | None:
    voice = find_voice(wanted, catalog.model_for(owner))
    return None if voice is None else voice.id


def test_an_id_wins_over_a_name_and_the_newest_own_over_older_and_shared_ones() -> None:
    catalog = VoiceCatalog(MODEL)
    catalog.replace(None, [SHARED])
    catalog.replace("ada", [OLD, NEW])
    assert found(catalog, "Ada", "ada") == "v2"
    assert found(catalog, "v1", "ada") == "v1"
    assert found(catalog, "Ada", "bob") == "v3"
    assert found(catalog, "v1", "bob") is None
    assert found(catalog, "alto", "bob") == "alto"


def test_a_key_sees_the_same_model_until_a_voice_comes_or_goes() -> None:
    catalog = VoiceCatalog(MODEL)
    before = catalog.model_for("ada")
    assert catalog.model_for("ada") is before
    catalog.replace("ada", [NEW])
    assert catalog.model_for("ada") is not before
    catalog.replace("ada", [])
    assert catalog.model_for("ada") == before
