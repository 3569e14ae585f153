// The rows of one view, kept as the backend sends them: a snapshot, then a JSON merge patch (RFC 7396) for each changed row.
import { events } from "./api.js";

const AGAIN_FIRST = 500, AGAIN_LAST = 5000;
const QUIET = 5000;  // after so long without a word a tab that is looked at again asks anew: a dead stream is as quiet as a living one
const ANSWER = 5000;  // the backend says at once how old all is; without that a stream is none

// Never changes `old`: a row that is the same object shows the same, and is not drawn again.
export function merged(old, patch) {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const made = { ...(old !== null && typeof old === "object" && !Array.isArray(old) ? old : {}) };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete made[key];
    else made[key] = merged(made[key], value);
  }
  return made;
}

export function patched(rows, { rows: changes, order }) {
  const made = new Map(rows);
  for (const [key, patch] of Object.entries(changes ?? {})) {
    if (patch === null) made.delete(key);
    else made.set(key, merged(made.get(key), patch));
  }
  return order ? new Map(order.filter((key) => made.has(key)).map((key) => [key, made.get(key)])) : made;
}

function ordered({ rows, order }) {
  return new Map((order ?? Object.keys(rows)).map((key) => [key, rows[key]]));
}

export class Rows {
  // `changed(state)`: { rows: Map or null, stale: {since, reason} or null, lost: time or null, fault: Error or null,
  // failure: why the rows are not of the last state }.
  constructor(question, changed) {
    this.question = question;
    this.changed = changed;
    this.state = { rows: null, stale: null, lost: null, fault: null, failure: "" };
    this.ended = new AbortController();
    this.last = undefined;
    this.word = Date.now();
    addEventListener("online", () => this.again(), { signal: this.ended.signal });
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && Date.now() - this.word > QUIET) this.again();
    }, { signal: this.ended.signal });
    this.follow();
  }

  end() {
    this.ended.abort();
    this.again();
  }

  // Read anew, at once.
  again() {
    this.stream?.abort();
    this.wake?.();
  }

  set(state) {
    if (this.ended.signal.aborted) return;
    this.state = { ...this.state, ...state };
    this.changed(this.state);
  }

  // A stream that has said something and ends is opened again at once, and nothing is lost by that: a proxy takes quiet
  // ones for dead, or a token has ended and there is a fresh one. What the next one says, or that nobody answers, is shown.
  async follow() {
    let wait = AGAIN_FIRST;
    while (!this.ended.signal.aborted) {
      const began = Date.now();
      const well = await this.read();
      if (well) wait = AGAIN_FIRST;
      if (!well || Date.now() - began < AGAIN_FIRST) await this.pause(wait);
      if (!well) wait = Math.min(2 * wait, AGAIN_LAST);
    }
  }

  // Follow one stream to its end; whether it said anything, or was left for a new one.
  async read() {
    const stream = this.stream = new AbortController();
    const known = this.state.rows !== null;
    let said = false, deaf = false;
    const timer = known && setTimeout(() => { deaf = true; stream.abort(); }, ANSWER);
    try {
      for await (const each of events(`api/events/${this.question}`, known ? this.last : undefined, stream.signal)) {
        clearTimeout(timer);
        said = true;
        this.word = Date.now();
        this.heard(each);
      }
    } catch (error) {
      if (error.status && error.status < 500) {
        this.set({ fault: error, lost: null });
        return false;
      }
    } finally {
      clearTimeout(timer);
    }
    const left = stream.signal.aborted && !deaf;
    if (!said && !left) this.lose();
    return said || left;
  }

  pause(wait) {
    return new Promise((done) => {
      this.wake = done;
      setTimeout(done, wait);
    });
  }

  lose() { if (this.state.lost === null) this.set({ lost: new Date().toISOString() }); }

  heard({ name, data, id }) {
    if (id !== undefined) this.last = id;
    const well = { lost: null, fault: null };
    if (name === "snapshot") this.set({ ...well, rows: ordered(data), failure: data.failure ?? "" });
    else if (name === "patch") this.set({ ...well, rows: patched(this.state.rows ?? new Map(), data), failure: data.failure ?? "" });
    else if (name === "stale") this.set({ ...well, stale: data });
    else if (name === "fresh") this.set({ ...well, stale: null });
    // `end`: by this token the viewer is nobody any more; whether there is a fresh one, the answer to the next question says.
  }
}
