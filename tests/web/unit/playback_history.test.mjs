// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { PlaybackHistory } from "../../../web/src/playback_history.js";

/**
 * @param {number} frame
 * @param {number} played_samples
 * @param {Partial<import("../../../web/src/playback_queue.js").TrackReport>} [rest]
 */
function report(frame, played_samples, rest = {}) {
  return {
    frame,
    tracks: [
      {
        id: "u",
        state: /** @type {const} */ ("playing"),
        played_samples,
        buffered_samples: 10_000,
        underruns: 0,
        starved_frames: 0,
        start_frame: 1000,
        ...rest,
      },
    ],
  };
}

test("between two reports the sound went on evenly", () => {
  const history = new PlaybackHistory();
  history.note(report(2000, 500));
  history.note(report(3000, 1000));
  assert.deepEqual(
    [2000, 2500, 3000].map((frame) => history.playedAt("u", frame, 0.5)),
    [500, 750, 1000],
  );
});

test("before its first sample nothing was played, though a report came long before", () => {
  const history = new PlaybackHistory();
  history.note(report(200, 0, { state: "filling", start_frame: null }));
  history.note(report(2000, 500));
  assert.deepEqual(
    [0, 200, 999, 1000, 1500, 2000].map((frame) => history.playedAt("u", frame, 0.5)),
    [0, 0, 0, 0, 250, 500],
  );
});

test("the first report alone is enough to know what the ear has heard, back to the first sample", () => {
  const history = new PlaybackHistory();
  history.note(report(2000, 500));
  assert.deepEqual(
    [900, 1000, 1400].map((frame) => history.playedAt("u", frame, 0.5)),
    [0, 0, 200],
  );
});

test("after the last report it plays on, but not past what it has, and not when it has stopped", () => {
  const history = new PlaybackHistory();
  history.note(report(2000, 500, { buffered_samples: 100 }));
  assert.deepEqual(
    [2000, 2100, 9000].map((frame) => history.playedAt("u", frame, 0.5)),
    [500, 550, 600],
  );
  for (const state of /** @type {const} */ (["starved", "waiting", "ended"])) {
    history.note(report(9000, 600, { state, buffered_samples: 0 }));
    assert.equal(history.playedAt("u", 9500, 0.5), 600);
  }
});

test("a stall stands still", () => {
  const history = new PlaybackHistory();
  history.note(report(2000, 500, { state: "starved" }));
  history.note(report(3000, 500, { state: "starved" }));
  history.note(report(4000, 900));
  assert.deepEqual(
    [2500, 3000, 3500].map((frame) => history.playedAt("u", frame, 0.5)),
    [500, 500, 700],
  );
});

test("an utterance that is not known has played nothing", () => {
  const history = new PlaybackHistory();
  history.note(report(2000, 500));
  assert.equal(history.playedAt("other", 2500, 1), 0);
  assert.equal(history.last("other"), undefined);
  assert.equal(history.last("u")?.played_samples, 500);
  history.clear();
  assert.equal(history.last("u"), undefined);
});

test("old reports are let go, the newest kept", () => {
  const history = new PlaybackHistory();
  for (let i = 0; i < 500; i += 1) history.note(report(1000 + i * 100, i * 50));
  assert.equal(history.last("u")?.played_samples, 499 * 50);
  assert.equal(history.playedAt("u", 1000 + 498.5 * 100, 0.5), 498.5 * 50);
});
