"""The command line, as a user types it: arguments, exit status, and one line for an error."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import soundfile

from engine.config import EngineSettings
from engine.engine import LocalEngine
from gateway import app, cli
from gateway.commands.outcome import FAILED, INTERRUPTED, OK, USAGE
from tests.fakes.fake_model import WholeFramesModel
from tests.fakes.gateway import running_gateway

ROOT = Path(__file__).resolve().parents[2]
START_S = 60.0


@pytest.fixture
def url() -> Iterator[str]:
    """A gateway in a thread of its own, since `main` runs an event loop itself."""
    found: list[str] = []
    is_up = threading.Event()
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        async with running_gateway() as gateway:
            is_over = asyncio.Event()
            loops.append((asyncio.get_running_loop(), is_over))
            found.append(gateway.url)
            is_up.set()
            await is_over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="gateway of the test")
    thread.start()
    assert is_up.wait(START_S)
    yield found[0]
    loop, is_over = loops[0]
    loop.call_soon_threadsafe(is_over.set)
    thread.join()


@pytest.fixture
def fake_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "load_engine", lambda config: LocalEngine(WholeFramesModel(), EngineSettings()))


def status_of(arguments: list[str]) -> int:
    """Of `main`, or of argparse, which exits itself."""
    try:
        return cli.main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)


# ---- say -------------------------------------------------------------------------------------------------------------


def test_say_writes_a_text_by_the_engine_in_process(fake_engine: None, tmp_path: Path) -> None:
    out = tmp_path / "a.wav"
    assert status_of(["say", "Hello there.", "--out", str(out), "--rate", "8000"]) == OK
    assert soundfile.info(out).samplerate == 8000
    assert soundfile.info(out).duration > 0.5


def test_say_writes_a_text_by_a_gateway(url: str, tmp_path: Path) -> None:
    out = tmp_path / "a.wav"
    assert status_of(["say", "Hello there.", "--out", str(out), "--url", url, "--format", "mulaw"]) == OK
    assert (soundfile.info(out).samplerate, soundfile.info(out).subtype) == (8000, "ULAW")


def test_say_reads_standard_input_where_there_is_no_text(
    fake_engine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").write_text("Grüße aus Köln.", encoding="utf-8")
    with (tmp_path / "text").open() as text:
        monkeypatch.setattr(sys, "stdin", text)
        assert status_of(["say", "--out", str(tmp_path / "piped.wav"), "--seed", "1"]) == OK
    assert status_of(["say", "Grüße aus Köln.", "--out", str(tmp_path / "given.wav"), "--seed", "1"]) == OK
    assert (tmp_path / "piped.wav").read_bytes() == (tmp_path / "given.wav").read_bytes()


def test_say_fails_in_one_line_where_the_voice_is_not_known(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["say", "Hello.", "--out", str(tmp_path / "a.wav"), "--url", url, "--voice", "nobody"]) == FAILED
    said = capsys.readouterr().err
    assert said.startswith("antiphon say: ")
    assert "nobody" in said
    assert len(said.splitlines()) == 1


def test_say_fails_where_no_gateway_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["say", "Hello.", "--out", str(tmp_path / "a.wav"), "--url", "ws://127.0.0.1:9/antiphon/v1/speak"]
    assert status_of(arguments) == FAILED
    assert "cannot connect" in capsys.readouterr().err


def test_say_without_a_file_needs_something_to_play_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gateway.commands.playback.describe_player", lambda: None)
    assert status_of(["say", "Hello."]) == FAILED
    assert "--out FILE.wav" in capsys.readouterr().err


def test_what_is_played_cannot_be_companded() -> None:
    assert status_of(["say", "Hello.", "--play", "--format", "mulaw"]) == USAGE


@pytest.mark.slow
def test_a_speech_interrupted_by_ctrl_c_leaves_a_valid_file(tmp_path: Path) -> None:
    out = tmp_path / "a.wav"
    process = subprocess.Popen(
        [sys.executable, "-m", "gateway.cli", "say", "--out", str(out)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # ignored where the tests run in the background
    )
    assert process.stdin is not None
    process.stdin.write(b"The first sentence is here. And there is ")
    process.stdin.flush()
    is_spoken = threading.Event()

    def watch() -> None:
        while process.poll() is None and not (out.exists() and out.stat().st_size > 10_000):
            is_spoken.wait(0.05)
        is_spoken.set()

    watching = threading.Thread(target=watch)
    watching.start()
    watching.join(START_S)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=START_S)
    assert process.returncode == INTERRUPTED, errors
    assert b"Traceback" not in errors
    assert soundfile.info(out).frames > 4_000


# ---- the other commands ----------------------------------------------------------------------------------------------


def test_voices_are_listed_as_a_table_or_as_json(
    url: str, fake_engine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["voices"]) == OK
    by_engine = capsys.readouterr().out
    assert status_of(["voices", "--url", url]) == OK
    assert capsys.readouterr().out == by_engine
    assert status_of(["voices", "--url", url, "--json"]) == OK
    assert [voice["id"] for voice in json.loads(capsys.readouterr().out)["voices"]] == ["alto", "tenor"]


def test_bench_reports_to_a_file_and_to_a_person(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.json"
    arguments = ["bench", "--url", url, "--rate", "20", "--duration", "0.3", "--json", str(out)]
    assert status_of(arguments) == OK
    report = json.loads(out.read_text(encoding="utf-8"))
    assert report["whole"] == report["utterances"] > 0
    assert "audible first audio: p50" in capsys.readouterr().out


def test_bench_fails_where_speech_is_not_whole(tmp_path: Path) -> None:
    arguments = ["bench", "--url", "ws://127.0.0.1:9/antiphon/v1/speak", "--rate", "50", "--duration", "0.2"]
    assert status_of(arguments) == FAILED


def test_doctor_says_what_it_finds(fake_engine: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["doctor", "--port", "0"]) == OK
    assert "This machine can speak" in capsys.readouterr().out


def test_doctor_names_bad_settings_and_looks_at_the_rest(
    fake_engine: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "antiphon.toml").write_text("[server]\nprot = 1\n", encoding="utf-8")
    assert status_of(["doctor", "--config", str(tmp_path / "antiphon.toml")]) == FAILED
    said = capsys.readouterr().out
    assert "unknown setting server.prot" in said
    assert "model: fake loads" in said


def test_serve_delegates_with_the_settings_of_its_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    served: list[app.Config] = []
    monkeypatch.setattr(app, "serve", lambda config: served.append(config) or OK)
    (tmp_path / "key").write_text("a-key-of-sixteen-characters\n", encoding="utf-8")
    (tmp_path / "antiphon.toml").write_text('[server]\nport = 1\n[log]\nlevel = "debug"\n', encoding="utf-8")
    arguments = ["serve", "--host", "0.0.0.0", "--port", "8123", "--key", f"@{tmp_path / 'key'}", "--model", "higgs"]
    arguments += ["--checkpoint", "tiny", "--device", "cuda:0", "--config", str(tmp_path / "antiphon.toml")]
    assert status_of(arguments) == OK
    (config,) = served
    assert (config.server.host, config.server.port) == ("0.0.0.0", 8123)
    assert config.keys == {"default": "a-key-of-sixteen-characters"}
    assert (config.model.name, config.model.checkpoint, config.model.device) == ("higgs", "tiny", "cuda:0")
    assert config.log.level == "debug"


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--host", "0.0.0.0"],
        ["serve", "--port", "99999"],
        ["serve", "--port", "http"],
        ["serve", "--config", "/nowhere/antiphon.toml"],
        ["serve", "--key", "@/nowhere/key"],
        ["say", "x", "--speed", "-1"],
        ["say", "x", "--speed", "nan"],
        ["bench"],
        ["sing"],
        [],
    ],
    ids=" ".join,
)
def test_wrong_arguments_and_settings_end_with_2_and_no_traceback(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(arguments) == USAGE
    assert capsys.readouterr().err


def test_a_lexicon_that_cannot_be_read_is_a_matter_of_settings(
    fake_engine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANTIPHON_SPEECH__LEXICON", str(tmp_path / "nowhere.toml"))
    assert status_of(["say", "Hello.", "--out", str(tmp_path / "a.wav")]) == USAGE
    assert "speech.lexicon" in capsys.readouterr().err


def test_an_interruption_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(config: app.Config) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "serve", interrupted)
    assert status_of(["serve"]) == INTERRUPTED


def test_a_port_in_use_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def taken(config: app.Config) -> int:
        raise OSError(98, "Address already in use")

    monkeypatch.setattr(app, "serve", taken)
    assert status_of(["serve", "--port", "8123"]) == FAILED
    assert capsys.readouterr().err == (
        "antiphon serve: cannot listen on 127.0.0.1:8123: Address already in use; try --port N\n"
    )


@pytest.mark.parametrize("command", ["serve", "say", "voices", "bench", "doctor"])
def test_every_command_has_help_that_names_the_exit_status(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of([command, "--help"]) == OK
    assert "exit status" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        ("gateway.cli", ("numpy", "onnxruntime", "starlette")),
        ("gateway.commands.say, gateway.commands.speakers", ("onnxruntime", "starlette", "engine.engine")),
    ],
    ids=["the command line", "say by a gateway"],
)
def test_nothing_is_loaded_that_a_command_may_not_need(modules: str, unwanted: tuple[str, ...]) -> None:
    check = f"import sys, {modules}; print([m for m in {unwanted!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
