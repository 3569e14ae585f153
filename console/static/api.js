// How the backend is asked: with the cookie that it gave for the secret in the address, or through a proxy that knows who asks.
const SECRET = /^#token=([^&]+)$/;

// The secret is taken out of the address at once, so that it is in no link that somebody copies; a cookie takes its place.
export async function takeSecret() {
  const found = SECRET.exec(location.hash);
  if (!found) return;
  history.replaceState(null, "", "#/fleet");
  await ask("api/session", { method: "POST", headers: { Authorization: `Bearer ${found[1]}` } });
}

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export async function ask(path, options = {}) {
  const answer = await fetch(path, { ...options, cache: "no-store" });
  if (answer.ok) return answer;
  const text = await answer.text();
  let said = text;
  try { said = JSON.parse(text).error ?? text; } catch { /* plain words */ }
  throw new Refused(answer.status, String(said));
}

export const json = async (path) => (await ask(path)).json();

export const post = async (path, body) => (await ask(path, {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
})).json();

// Server-Sent Events out of a response's body: EventSource cannot say with which status it was refused.
export async function* events(path, last, signal) {
  const headers = { Accept: "text/event-stream", ...(last === undefined ? {} : { "Last-Event-ID": last }) };
  const answer = await ask(path, { signal, headers });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const whole = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = whole.pop();
    for (const text of whole) {
      const found = event(text);
      if (found) yield found;
    }
  }
}

function event(text) {
  const found = { name: "message", data: [] };
  for (const line of text.split("\n")) {
    const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line);
    if (field === "event") found.name = value;
    if (field === "data") found.data.push(value);
    if (field === "id") found.id = value;
  }
  return found.data.length ? { ...found, data: JSON.parse(found.data.join("\n")) } : null;
}
