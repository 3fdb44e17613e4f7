"""The command line: `antiphon serve`, `say`, `voices`, `bench`, `doctor`. It reads arguments; gateway/commands/ acts.

Exit status: 0 all that was asked for was done (for `say`: all of the speech was written) · 1 it was not, and a line on
standard error says why · 2 arguments or settings cannot be used · 130 interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from gateway.commands.outcome import FAILED, INTERRUPTED, OK, USAGE, CommandError

if TYPE_CHECKING:
    from engine.api import Engine
    from gateway.commands.speakers import Speaker
    from gateway.config import Config
    from gateway.service import Service

SPEAK_PATH: Final = "/antiphon/v1/speak"
URL_HELP: Final = f"a running gateway, ws://HOST:PORT{SPEAK_PATH}"
KEY_HELP: Final = "the gateway's key; @FILE reads it from a file, which keeps it out of the process list"
STATUS_HELP: Final = (
    "exit status: 0 everything was done; 1 it was not, and a line says why; 2 wrong arguments or settings; "
    "130 interrupted"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The console script. Returns the exit status (argparse itself exits with 0 or 2)."""
    parsed = make_parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = parsed.command
    try:
        return command(parsed)
    except CommandError as error:
        print(f"antiphon {parsed.name}: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print(f"\nantiphon {parsed.name}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output is gone. Nothing more can be written there, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def make_parser() -> argparse.ArgumentParser:
    """All commands and their help."""
    parser = argparse.ArgumentParser(
        prog="antiphon",
        description="A voice for an agent: text goes in as it is written, speech comes out at once.",
        epilog=STATUS_HELP,
    )
    parser.add_argument("--version", action=_ShowVersion, help="show the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_serve(commands)
    _add_say(commands)
    _add_voices(commands)
    _add_bench(commands)
    _add_doctor(commands)
    return parser


class _ShowVersion(argparse.Action):
    def __init__(self, option_strings: list[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(f"antiphon {version('antiphon')}")
        parser.exit(OK)


def _add(
    commands: Any, name: str, command: Callable[[argparse.Namespace], int], **texts: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, epilog=STATUS_HELP, formatter_class=argparse.RawDescriptionHelpFormatter, **texts
    )
    parser.set_defaults(command=command, name=name)
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    """Where the settings come from: a file, the environment, and these over both."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML")
    parser.add_argument("--model", metavar="NAME", help="model family: hibari (embedded, default) or higgs (GPU)")
    parser.add_argument(
        "--checkpoint", metavar="PATH", help="the family's weights: a folder or repository; tiny for tests"
    )
    parser.add_argument("--device", metavar="NAME", help="where the model runs, e.g. cuda:0")


# ---- serve -----------------------------------------------------------------------------------------------------------


def _add_serve(commands: Any) -> None:
    parser = _add(
        commands,
        "serve",
        _serve,
        help="start the gateway",
        description="Start the gateway and print the address of its page. Ctrl-C lets running speech end and stops it.",
    )
    parser.add_argument("--host", metavar="H", help="address to listen on (default 127.0.0.1; others need a key)")
    parser.add_argument("--port", type=int, metavar="N", help="port to listen on (default 8000; 0 = any free one)")
    parser.add_argument(
        "--key", metavar="KEY", type=_key, help="a key that clients must show (16 characters or more); @FILE"
    )
    _add_settings(parser)


def _serve(arguments: argparse.Namespace) -> int:
    config = _config(arguments)
    from engine.errors import EngineError
    from gateway.app import serve
    from gateway.config import ConfigError

    try:
        return serve(config)
    except ConfigError as error:
        raise CommandError(str(error), USAGE) from error
    except EngineError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        place = f"{config.server.host}:{config.server.port}"
        raise CommandError(f"cannot listen on {place}: {error.strerror or error}; try --port N") from error


# ---- say -------------------------------------------------------------------------------------------------------------


def _add_say(commands: Any) -> None:
    parser = _add(
        commands,
        "say",
        _say,
        help="speak a text, or standard input as it comes",
        description=(
            "Speak a text into a file, aloud, or both.\n\n"
            '  antiphon say "Hello there." --out hello.wav\n'
            "  my_llm | antiphon say                     speaks while the text is still being written\n"
            f"  antiphon say --url ws://127.0.0.1:8000{SPEAK_PATH} --out speech.wav < text.txt"
        ),
    )
    parser.add_argument("text", nargs="?", metavar="TEXT", help="what to say; left out: standard input, in UTF-8")
    parser.add_argument("--out", metavar="FILE.wav", help="write a WAV file; - writes raw samples to standard output")
    parser.add_argument("--play", action="store_true", help="play aloud, also with --out (the default without --out)")
    parser.add_argument("--url", help=f"{URL_HELP}; without it the engine runs in this process")
    parser.add_argument("--key", type=_key, help=KEY_HELP)
    parser.add_argument("--voice", metavar="V", help="a voice of `antiphon voices`")
    parser.add_argument("--speed", type=_positive, metavar="X", help="pace, 1 = the voice's own")
    parser.add_argument("--seed", type=int, metavar="N", help="the same seed gives the same samples")
    parser.add_argument("--language", metavar="TAG", help="language of the text, e.g. en")
    parser.add_argument(
        "--format",
        choices=("pcm_s16le", "pcm_f32le", "mulaw", "alaw"),
        default="pcm_s16le",
        help="of the file's samples",
    )
    parser.add_argument(
        "--rate", type=int, metavar="HZ", help="sample rate (default: the voice's own; mulaw, alaw: 8000)"
    )
    parser.add_argument(
        "--progress", action="store_true", help="show progress also where standard error is no terminal"
    )
    _add_settings(parser)


def _say(arguments: argparse.Namespace) -> int:
    from gateway.commands.playback import describe_player
    from gateway.commands.say import SayRequest, say
    from gateway.commands.speakers import SayOptions

    is_played = arguments.play or arguments.out is None
    if is_played and arguments.format != "pcm_s16le":
        raise CommandError(f"--format {arguments.format} is for files; what is played is pcm_s16le", USAGE)
    if is_played and describe_player() is None:
        raise CommandError("there is no sound device, or nothing to play on it with; write a file: --out FILE.wav")
    if arguments.text is None and sys.stdin.isatty():
        print("Type what to say; Ctrl-D ends it.", file=sys.stderr)
    has_progress = arguments.progress or sys.stderr.isatty()
    request = SayRequest(
        out=arguments.out,
        is_played=is_played,
        format=arguments.format,
        sample_rate_hz=arguments.rate,
        options=SayOptions(arguments.voice, arguments.speed, arguments.seed, arguments.language),
        has_progress=has_progress,
    )
    asyncio.run(say(request, _speaker(arguments, is_played, has_progress), _text(arguments.text)))
    return OK


async def _text(text: str | None) -> AsyncIterator[str]:
    from gateway.commands.text_input import read_text

    if text is not None:
        yield text
        return
    async for piece in read_text(sys.stdin.fileno()):
        yield piece


def _speaker(
    arguments: argparse.Namespace, is_played: bool, has_progress: bool
) -> AbstractAsyncContextManager[Speaker]:
    if arguments.url is not None:
        from gateway.commands.speakers import gateway_speaker

        return gateway_speaker(arguments.url, arguments.key, is_played)
    config = _config(arguments)
    from gateway.app import load_engine, make_service
    from gateway.commands.in_process import engine_speaker
    from gateway.config import ConfigError

    def load() -> Service:
        if has_progress:
            print(f"loading {config.model.name} …", file=sys.stderr)
        try:
            return make_service(config, load_engine(config))
        except ConfigError as error:
            raise CommandError(str(error), USAGE) from error

    return engine_speaker(load, is_played)


# ---- voices ----------------------------------------------------------------------------------------------------------


def _add_voices(commands: Any) -> None:
    parser = _add(
        commands,
        "voices",
        _voices,
        help="list the voices; clone one, delete one",
        description="List the voices there are, clone one from a recording, or delete a cloned one.",
    )
    _add_voice_place(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", description="without one: list")
    add = _add(
        actions,
        "add",
        _add_voice,
        help="clone a voice",
        description="Clone a voice from a recording (WAV, FLAC, MP3 or OGG) of somebody who consents to it.",
    )
    add.add_argument("recording", type=Path, metavar="FILE", help="a few seconds to a minute of clean speech")
    add.add_argument("--name", required=True, metavar="NAME", help="what to call the voice")
    add.add_argument(
        "--consent", required=True, metavar="TEXT", help="how you know that the speaker consents; kept with the voice"
    )
    add.add_argument("--transcript", metavar="TEXT", help="what is said in the recording; makes the likeness better")
    add.add_argument("--language", metavar="TAG", help="of the recording, e.g. en")
    _add_voice_place(add)
    delete = _add(
        actions, "delete", _delete_voice, help="delete a cloned voice", description="Delete a cloned voice for good."
    )
    delete.add_argument("voice", metavar="ID", help="as listed")
    _add_voice_place(delete)


def _add_voice_place(parser: argparse.ArgumentParser) -> None:
    """Which voices are meant: a gateway's or this machine's."""
    parser.add_argument("--url", help=f"{URL_HELP}; without it: the engine in this process")
    parser.add_argument("--key", type=_key, help=KEY_HELP)
    _add_settings(parser)


def _add_voice(arguments: argparse.Namespace) -> int:
    from gateway.commands.cloning import NewVoice, add_at_gateway, add_to_engine

    voice = NewVoice(arguments.recording, arguments.name, arguments.consent, arguments.transcript, arguments.language)
    if arguments.url is not None:
        voice_id, remarks = add_at_gateway(arguments.url, arguments.key, voice)
    else:
        voice_id, remarks = add_to_engine(_loaded(arguments), voice)
    for remark in remarks:
        print(remark, file=sys.stderr)
    print(voice_id)
    return OK


def _delete_voice(arguments: argparse.Namespace) -> int:
    from gateway.commands.cloning import delete_at_gateway, delete_from_engine

    if arguments.url is not None:
        delete_at_gateway(arguments.url, arguments.key, arguments.voice)
    else:
        delete_from_engine(_loaded(arguments), arguments.voice)
    return OK


def _loaded(arguments: argparse.Namespace) -> Engine:
    """The engine that the settings name, not started."""
    from engine.errors import EngineError
    from gateway.app import load_engine

    try:
        return load_engine(_config(arguments))
    except EngineError as error:
        raise CommandError(str(error)) from error


def _voices(arguments: argparse.Namespace) -> int:
    from gateway.commands.voices import table, voices_of_gateway, voices_of_model

    if arguments.url is not None:
        voices, default_voice = voices_of_gateway(arguments.url, arguments.key)
    else:
        voices, default_voice = voices_of_model(_loaded(arguments).info)
    if arguments.json:
        listed = [
            {"id": voice.id, "name": voice.name, "language": voice.language, "description": voice.description}
            for voice in voices
        ]
        print(json.dumps({"default_voice": default_voice, "voices": listed}, indent=2, ensure_ascii=False))
    else:
        print(table(voices, default_voice))
    return OK


# ---- bench -----------------------------------------------------------------------------------------------------------


def _add_bench(commands: Any) -> None:
    parser = _add(
        commands,
        "bench",
        _bench,
        help="measure a running gateway under load",
        description=(
            "Let utterances arrive at random (open loop) and measure what their listeners hear: time to the first\n"
            "audible sample, underruns of a real-time player, errors."
        ),
    )
    parser.add_argument("--url", required=True, help=URL_HELP)
    parser.add_argument("--key", type=_key, help=KEY_HELP)
    parser.add_argument("--rate", type=_positive, default=1.0, metavar="N", help="arrivals per second (default 1)")
    parser.add_argument(
        "--duration", type=_positive, default=30.0, metavar="S", help="seconds of arrivals (default 30)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the arrival times (default 0)")
    parser.add_argument(
        "--buffer-ms", type=float, default=100.0, metavar="MS", help="the player's buffer (default 100)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report to a file")
    parser.add_argument(
        "--progress", action="store_true", help="show progress also where standard error is no terminal"
    )


def _bench(arguments: argparse.Namespace) -> int:
    from gateway.commands.bench import Load, describe, run_load, summarise

    load = Load(
        arguments.url, arguments.key, arguments.rate, arguments.duration, arguments.seed, arguments.buffer_ms / 1000
    )
    has_progress = arguments.progress or sys.stderr.isatty()

    def show(finished: int, of: int) -> None:
        if has_progress:
            print(f"\r{finished} of {of} utterances", end="", file=sys.stderr, flush=True)

    report = summarise(load, asyncio.run(run_load(load, show)))
    if has_progress:
        print(file=sys.stderr)
    if arguments.json is not None:
        try:
            arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{arguments.json} cannot be written: {error.strerror}") from error
    print(describe(report))
    return OK if report["whole"] == report["utterances"] else FAILED


# ---- doctor ----------------------------------------------------------------------------------------------------------


def _add_doctor(commands: Any) -> None:
    parser = _add(
        commands,
        "doctor",
        _doctor,
        help="say what this machine can run and what is missing",
        description="Look at this machine and installation, and say in words what works and what is missing.",
    )
    parser.add_argument("--host", metavar="H", help="the address that `serve` would listen on")
    parser.add_argument("--port", type=int, metavar="N", help="the port that `serve` would listen on")
    _add_settings(parser)


def _doctor(arguments: argparse.Namespace) -> int:
    from gateway.app import load_engine
    from gateway.commands.doctor import examine, report
    from gateway.config import Config

    try:
        config, problem = _config(arguments), None
    except CommandError as error:
        config, problem = Config(), "; ".join(str(error).splitlines())
    return OK if report(examine(config, lambda: load_engine(config), problem), print) else FAILED


# ---- arguments -------------------------------------------------------------------------------------------------------


def _config(arguments: argparse.Namespace) -> Config:
    """File, then environment, then arguments. A bad setting is a matter of usage."""
    from gateway.config import ConfigError, load_config

    overrides: dict[str, dict[str, Any]] = {"server": {}, "model": {}, "keys": {}}
    for section, key, name in (
        ("server", "host", "host"),
        ("server", "port", "port"),
        ("model", "name", "model"),
        ("model", "checkpoint", "checkpoint"),
        ("model", "device", "device"),
    ):
        value = getattr(arguments, name, None)
        if value is not None:
            overrides[section][key] = value
    if arguments.name == "serve" and arguments.key is not None:
        overrides["keys"]["default"] = arguments.key
    try:
        return load_config(arguments.config, os.environ, overrides)
    except ConfigError as error:
        raise CommandError(str(error), USAGE) from error


def _key(value: str) -> str:
    if not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"the key cannot be read from {value[1:]}: {error}") from error


def _positive(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{value!r} is not a number above 0")
    return number


if __name__ == "__main__":
    sys.exit(main())
