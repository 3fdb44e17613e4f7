"""Higgs Audio v3 TTS: a Qwen3 backbone that reads text and audio blocks in turn and speaks rows of 8 codes."""
