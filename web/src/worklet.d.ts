/** What the audio worklet's global scope has; TypeScript's DOM library leaves it out. */

declare abstract class AudioWorkletProcessor {
  readonly port: MessagePort;
  abstract process(inputs: Float32Array[][], outputs: Float32Array[][]): boolean;
}

declare function registerProcessor(name: string, processor: new () => AudioWorkletProcessor): void;

declare const currentFrame: number;
declare const sampleRate: number;
