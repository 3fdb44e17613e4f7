// @ts-check
/**
 * What had been played at which moment of the output clock: reports of the audio thread come a few times a second, the
 * listener's ear is somewhere between two of them. Pure.
 */

/** @typedef {import("./playback_queue.js").TrackReport} TrackReport */
/** @typedef {{frame: number, tracks: TrackReport[]}} Report the state of the queue when `frame` was about to be made */

/** Enough, at 50 reports a second, for the longest delay of wireless headphones. */
const REPORTS_KEPT = 64;

export class PlaybackHistory {
  /** @type {Report[]} */
  #reports = [];

  /** @param {Report} report later than those before it */
  note(report) {
    this.#reports.push(report);
    if (this.#reports.length > REPORTS_KEPT) this.#reports.shift();
  }

  clear() {
    this.#reports = [];
  }

  /** @param {string} id @returns {TrackReport | undefined} the newest that is known of an utterance */
  last(id) {
    for (let i = this.#reports.length - 1; i >= 0; i -= 1) {
      const track = this.#reports[i]?.tracks.find((candidate) => candidate.id === id);
      if (track !== undefined) return track;
    }
    return undefined;
  }

  /**
   * Between two reports it played evenly; after the last one it goes on as it was, while it has audio.
   * @param {string} id
   * @param {number} frame of the output clock; before, between or after the reports
   * @param {number} samples_per_frame the source's rate over the output's
   * @returns {number} source samples played by then
   */
  playedAt(id, frame, samples_per_frame) {
    /** @type {{frame: number, track: TrackReport} | null} */
    let later = null;
    for (let i = this.#reports.length - 1; i >= 0; i -= 1) {
      const report = /** @type {Report} */ (this.#reports[i]);
      const track = report.tracks.find((candidate) => candidate.id === id);
      if (track === undefined) continue;
      if (report.frame <= frame) {
        return later === null
          ? after({ frame: report.frame, track }, frame, samples_per_frame)
          : between({ frame: report.frame, played: track.played_samples }, later, frame);
      }
      later = { frame: report.frame, track };
    }
    return later === null ? 0 : between({ frame: 0, played: 0 }, later, frame);
  }
}

/** @param {{frame: number, track: TrackReport}} last @param {number} frame @param {number} samples_per_frame */
function after({ frame: reported_frame, track }, frame, samples_per_frame) {
  if (track.state !== "playing") return track.played_samples;
  return track.played_samples + Math.min((frame - reported_frame) * samples_per_frame, track.buffered_samples);
}

/** @param {{frame: number, played: number}} earlier @param {{frame: number, track: TrackReport}} later @param {number} frame */
function between(earlier, later, frame) {
  const { start_frame, played_samples } = later.track;
  if (start_frame === null) return earlier.played;
  const from = Math.max(earlier.frame, start_frame);
  if (frame <= from) return earlier.played;
  return earlier.played + (played_samples - earlier.played) * Math.min(1, (frame - from) / (later.frame - from));
}
