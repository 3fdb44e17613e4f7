"""Engine samples to wire frames: formats, resampling, codecs, pacing. numpy only."""
