// @ts-check
/** Code that says what is on the screen, from elsewhere. Pure. */

/**
 * @typedef {object} SnippetContext
 * @property {string} base_url the page's own address, ending in a slash
 * @property {string} text
 * @property {string} model
 * @property {import("./native_codec.js").OpenOptions} options
 * @property {boolean} needs_key
 */

/** @typedef {{id: string, title: string, code: (context: SnippetContext) => string, note: string}} Snippet */

/** A Python string literal; JSON's escapes are all Python's too. @param {string} text */
function python(text) {
  return JSON.stringify(text);
}

/** A POSIX shell word. @param {string} text */
function shell(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** @param {string} base_url */
function origin(base_url) {
  return base_url.replace(/\/$/, "");
}

/** @param {string} base_url */
function websocketOrigin(base_url) {
  return origin(base_url).replace(/^http/, "ws");
}

/**
 * The Python client's options as keyword arguments.
 * @param {import("./native_codec.js").OpenOptions} options
 */
function pythonOptions(options) {
  const { voice, format, sample_rate_hz, speed, seed, language } = options;
  return Object.entries({ voice, format, sample_rate_hz, speed, seed, language })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `, ${name}=${JSON.stringify(value)}`)
    .join("");
}

/** @type {readonly Snippet[]} */
export const SNIPPETS = Object.freeze([
  {
    id: "python",
    title: "Python",
    note: "The client that comes with Antiphon. In place of the text give it your model's stream: any iterable of strings, or an async one.",
    code({ base_url, text, options, needs_key }) {
      const is_wav = options.format === "pcm_s16le";
      const key = needs_key ? ', key=os.environ["ANTIPHON_KEY"]' : "";
      return `import asyncio
${needs_key ? "import os\n" : ""}${is_wav ? "import wave\n" : ""}
from gateway.client import AudioFrame, Client${is_wav ? ", Started" : ""}

TEXT = ${python(text)}


async def main():
    async with Client.connect(${python(`${websocketOrigin(base_url)}/antiphon/v1/speak`)}${key}) as client:
        utterance = await client.speak(TEXT${pythonOptions(options)})
        with ${is_wav ? 'wave.open("speech.wav", "wb")' : `open("speech.${options.format}", "wb")`} as file:
            async for item in utterance:
                match item:
${
  is_wav
    ? `                    case Started():
                        file.setparams((1, 2, item.sample_rate_hz, 0, "NONE", ""))
                    case AudioFrame():
                        file.writeframes(item.payload)`
    : `                    case AudioFrame():
                        file.write(item.payload)`
}


asyncio.run(main())`;
    },
  },
  {
    id: "curl",
    title: "curl",
    note: "The OpenAI speech endpoint; whole text in, audio out as it is made.",
    code({ base_url, text, model, options, needs_key }) {
      const body = {
        model,
        voice: options.voice,
        input: text,
        response_format: "wav",
        ...(options.speed === undefined ? {} : { speed: options.speed }),
      };
      const key = needs_key ? ` \\\n  -H "Authorization: Bearer $ANTIPHON_KEY"` : "";
      return `curl -sS ${origin(base_url)}/v1/audio/speech${key} \\
  -H 'Content-Type: application/json' \\
  -d ${shell(JSON.stringify(body))} \\
  -o speech.wav`;
    },
  },
  {
    id: "livekit",
    title: "LiveKit",
    note: "LiveKit's own ElevenLabs plugin, pointed here: pip install livekit-plugins-elevenlabs",
    code({ base_url, options, needs_key }) {
      const speed =
        options.speed === undefined
          ? ""
          : `\n        voice_settings=elevenlabs.VoiceSettings(stability=0.5, similarity_boost=0.75, speed=${options.speed}),`;
      return `${needs_key ? "import os\n\n" : ""}from livekit.agents import AgentSession
from livekit.plugins import elevenlabs

session = AgentSession(
    tts=elevenlabs.TTS(
        base_url=${python(`${origin(base_url)}/v1`)},
        api_key=${needs_key ? 'os.environ["ANTIPHON_KEY"]' : '"unused"'},
        voice_id=${python(options.voice ?? "")},
        encoding="pcm_24000",${speed}
    ),
    # stt=…, llm=…
)`;
    },
  },
  {
    id: "pipecat",
    title: "Pipecat",
    note: 'Pipecat\'s own ElevenLabs service, pointed here: pip install "pipecat-ai[elevenlabs]"',
    code({ base_url, options, needs_key }) {
      const speed = options.speed === undefined ? "" : `, speed=${options.speed}`;
      return `${needs_key ? "import os\n\n" : ""}from pipecat.services.elevenlabs.tts import ElevenLabsTTSService

tts = ElevenLabsTTSService(
    url=${python(websocketOrigin(base_url))},
    api_key=${needs_key ? 'os.environ["ANTIPHON_KEY"]' : '"unused"'},
    sample_rate=24000,
    settings=ElevenLabsTTSService.Settings(voice=${python(options.voice ?? "")}${speed}),
)`;
    },
  },
]);
