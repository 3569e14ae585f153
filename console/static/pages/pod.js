// Pod: why it waits, node by node and card by card, or where its cards are. Without a name: all pods that ask for cards.
import { html } from "../html.js";
import { CardLink, Command, Facts, kind, Missing, Notes, Pill, PodLink, PoolLink, Table } from "../parts.js";
import { t } from "../texts.js";
import { Age } from "../time.js";

const LEVELS = { good: "good", note: "", warning: "warn", bad: "bad" };
const SIGNS = { good: "✓", note: "·", warning: "!", bad: "✗" };
// Verdicts have the colours of squares: what a card is to this pod.
const SQUARES = {
  Free: "Free", TooFewHere: "Free", InUse: "InUse", Promised: "Promised", KeptFor: "Promised", Faulted: "Faulted", Leaving: "Leaving", NotPublished: "NotOffered",
  NodeAway: "NotOffered", NodeRefused: "NotOffered", OtherPool: "Unassigned",
};

function Pods({ rows }) {
  const order = kind(rows, "pod").sort((one, other) => Number(Boolean(one.node)) - Number(Boolean(other.node)) || (one.since < other.since ? -1 : 1));
  return html`<h1>${t("pod")}</h1><${Notes} rows=${rows} /><${Table} name=${t("pod")} rows=${order} keyed=${(row) => `${row.namespace}/${row.pod}`} columns=${[
    [t("podName"), (row) => html`<${PodLink} ...${row} />`],
    [t("onePool"), (row) => html`<${PoolLink} pool=${row.pool} />`],
    [t("units"), (row) => row.units, "number"],
    [t("phase"), (row) => row.phase],
    [t("reason"), (row) => row.reason ?? t("none")],
    [t("node"), (row) => row.node ?? t("none")],
    [t("since"), (row) => html`<${Age} since=${row.since} />`, "number"],
  ]} />`;
}

const Findings = ({ found }) => found && html`<h2>${t("findings")}</h2><ul class="findings" lang="en">${found.map((each, at) => html`<li key=${at} class=${LEVELS[each.level]}>
  <span class="sign" aria-hidden="true">${SIGNS[each.level]}</span><span>${each.text}${each.do && html`<span class="do">→ ${each.do}</span>`}</span></li>`)}</ul>`;

function CardCell({ row }) {
  const who = row.others ? t("otherNamespace") : row.pod && html`<${PodLink} ...${row} />`;
  const when = row.since ? html` <${Age} since=${row.since} />` : row.until && html` ${t("until")} <time datetime=${row.until}>${new Date(row.until).toLocaleTimeString()}</time>`;
  return html`<li><span class=${`sq ${SQUARES[row.reason] ?? "Blocked"}`} aria-hidden="true"></span><${CardLink} card=${row.card} /> ${row.pool ? `(${row.pool}) ` : ""}${row.reason} ${who}${when}
    ${row.detail && html` <span lang="en">(${row.detail})</span>`}</li>`;
}

function NodeVerdict({ row }) {
  if (!row) return t("none");
  if (row.reason === "Fits") return html`<${Pill} tone="good">${t("fits")}<//>`;
  const said = (row.messages ?? []).join("; ") || row.reason;
  if (row.reason === "Unknown") return html`<${Pill} tone="warn">?<//> ${t("unknown")}: <span lang="en">${(row.unseen ?? []).join(", ")}</span>`;
  return html`<${Pill} tone="bad">${row.reason}<//> <span lang="en">${said === row.reason ? "" : said}${row.detail ? ` (${row.detail})` : ""}</span>
    ${row.unseen?.length ? html`<span class="do">${t("notLooked")}: ${row.unseen.join(", ")}</span>` : null}`;
}

function Verdicts({ rows }) {
  const cards = kind(rows, "cardVerdict"), nodes = new Map(kind(rows, "nodeVerdict").map((row) => [row.node, row]));
  const all = [...new Set([...nodes.keys(), ...cards.map((row) => row.node)])].sort();
  if (!all.length) return null;
  return html`<h2>${t("verdicts")}</h2><${Table} name=${t("verdicts")} rows=${all} keyed=${(node) => node} columns=${[
    [t("node"), (node) => node],
    ...(nodes.size ? [[t("verdict"), (node) => html`<${NodeVerdict} row=${nodes.get(node)} />`]] : []),
    [t("cards"), (node) => html`<ul class="cardlist">${cards.filter((row) => row.node === node).map((row) => html`<${CardCell} key=${row.card} row=${row} />`)}</ul>`, "most"],
  ]} />`;
}

export function Pod({ rows, params }) {
  if (rows.has("missing")) return html`<${Missing} row=${rows.get("missing")} /><${Notes} rows=${rows} />`;
  if (!params.pod) return html`<${Pods} rows=${rows} />`;
  const pod = rows.get("pod");
  if (!pod) return html`<h1>${params.namespace}/${params.pod}</h1><${Notes} rows=${rows} />`;
  return html`<h1>${pod.namespace}/${pod.pod}</h1><p class="verdict" lang="en">${pod.verdict}.</p>
    <${Facts} facts=${[[t("onePool"), pod.pool && html`<${PoolLink} pool=${pod.pool} />`], [t("asksFor"), pod.units], [t("phase"), pod.phase],
      [t("node"), pod.node], [t("reason"), pod.reason], [t("since"), html`<${Age} since=${pod.since} />`]]} />
    <${Findings} found=${pod.findings} />${(pod.unread ?? []).map((why) => html`<p class="note" key=${why} lang="en">? ${why}</p>`)}
    <${Verdicts} rows=${rows} /><${Notes} rows=${rows} />
    <h2>${t("more")}</h2><${Command} command=${`kubectl gpu explain pod ${pod.pod} -n ${pod.namespace} --cards`} />`;
}
