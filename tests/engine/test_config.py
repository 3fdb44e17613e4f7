"""Settings of the engine."""

from dataclasses import asdict

from engine.config import EngineSettings


def test_pacing_is_taken_from_the_settings_of_the_same_name() -> None:
    settings = EngineSettings(max_unread_s=1.5, max_lead_s=9.0)
    taken = asdict(settings.pacing)
    assert all(asdict(settings)[name] == value for name, value in taken.items())
