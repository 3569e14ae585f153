// The rows of one view, kept as the backend sends them: a snapshot, then a JSON merge patch (RFC 7396) for each changed row.
import { events } from "./api.js";

const AGAIN_FIRST = 500, AGAIN_LAST = 5000;

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
    this.follow();
  }

  end() { this.ended.abort(); }

  set(state) {
    if (this.ended.signal.aborted) return;
    this.state = { ...this.state, ...state };
    this.changed(this.state);
  }

  async follow() {
    let wait = AGAIN_FIRST;
    while (!this.ended.signal.aborted) {
      try {
        const last = this.state.rows === null ? undefined : this.last;
        for await (const each of events(`api/events/${this.question}`, last, this.ended.signal)) {
          wait = AGAIN_FIRST;
          this.heard(each);
        }
        this.lose();
      } catch (error) {
        if (this.ended.signal.aborted) return;
        if (error.status && error.status < 500) this.set({ fault: error });
        else this.lose(error);
      }
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(2 * wait, AGAIN_LAST);
    }
  }

  lose() { if (this.state.lost === null) this.set({ lost: new Date().toISOString() }); }

  heard({ name, data, id }) {
    if (id !== undefined) this.last = id;
    const well = { lost: null, fault: null };
    if (name === "snapshot") this.set({ ...well, rows: ordered(data), failure: data.failure ?? "" });
    else if (name === "patch") this.set({ ...well, rows: patched(this.state.rows ?? new Map(), data), failure: data.failure ?? "" });
    else if (name === "stale") this.set({ ...well, stale: data });
    else if (name === "fresh") this.set({ ...well, stale: null });
    else if (name === "end") this.set({ fault: Object.assign(new Error(data.reason), { status: data.status }) });
  }
}
