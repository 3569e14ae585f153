// Pool: how much it has, who waits in which order, what is done to it. Without a name: all pools.
import { html } from "../html.js";
import { Command, Conditions, Facts, kind, Missing, Notes, Pill, PodLink, PoolLink, Table } from "../parts.js";
import { link } from "../place.js";
import { t } from "../texts.js";
import { Age, local } from "../time.js";

const PARTS = ["used", "reserved", "available", "unavailable"];
const TONES = { Available: "good", CapacityLow: "warn", Empty: "warn", Unknown: "warn" };

function Bar({ capacity }) {
  if (!capacity) return t("none");
  const text = PARTS.map((part) => `${t(part)} ${capacity[part]}`).join(", ");
  let from = 0;
  const total = Math.max(1, PARTS.reduce((sum, part) => sum + capacity[part], 0));
  const parts = PARTS.map((part) => {
    const width = (100 * capacity[part]) / total, at = from;
    from += width;
    return html`<rect key=${part} class=${part} x=${at} y="0" width=${width} height="10" />`;
  });
  return html`<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label=${`${t("capacity")}: ${text}`}>${parts}</svg>`;
}

const Numbers = ({ capacity }) => capacity && html`<ul class="numbers">${PARTS.map((part) => html`<li key=${part}>
  <span class=${`swatch ${part}`} aria-hidden="true"></span>${t(part)} <b>${capacity[part]}</b></li>`)}<li>${t("total")} <b>${capacity.total}</b></li></ul>`;

function Pools({ rows }) {
  return html`<h1>${t("pool")}</h1><${Notes} rows=${rows} /><${Table} name=${t("pool")} rows=${kind(rows, "pool")} keyed=${(row) => row.pool} columns=${[
    [t("onePool"), (row) => html`<${PoolLink} pool=${row.pool} />`],
    [t("mode"), (row) => row.mode],
    [t("state"), (row) => html`<${Pill} tone=${TONES[row.state] ?? "bad"}>${row.state}<//>`],
    [t("capacity"), (row) => html`<${Bar} capacity=${row.capacity} />`, "wide"],
    [t("available"), (row) => `${row.capacity?.available ?? 0} / ${row.capacity?.total ?? 0}`, "number"],
    [t("waiting"), (row) => row.waiting, "number"],
  ]} />`;
}

const USES = { kept: "kept", free: "free", reserved: "promisedNode" };

function Queue({ rows }) {
  const hidden = rows.get("waiter/?");
  return html`<h2>${t("queue")}</h2><${Table} name=${t("queue")} rows=${kind(rows, "waiter")} empty=${hidden ? " " : t("queueEmpty")} keyed=${(row) => `${row.namespace}/${row.pod}`} columns=${[
    [t("position"), (row) => row.position ?? t("none"), "number"],
    [t("podName"), (row) => html`<${PodLink} ...${row} />`],
    [t("units"), (row) => row.units, "number"],
    [t("priority"), (row) => row.priority, "number"],
    [t("waits"), (row) => html`<${Age} since=${row.since} />`, "number"],
    [t("reason"), (row) => row.reason],
    [t("ahead"), (row) => row.ahead ?? t("none"), "number"],
    [t("node"), (row) => (row.node ? `${row.node} (${t(USES[row.use])})` : t("none"))],
  ]} />`;
}

const Rollouts = ({ rows }) => kind(rows, "rollout").map((row) => html`<section key=${row.driver}><h2>${t("rollouts")}: ${row.driver} ${row.version}</h2>
  <${Facts} facts=${[[t("state"), row.state], [t("eta"), row.eta && local(row.eta)]]} />
  <${Table} name=${`${t("rollouts")} ${row.driver}`} rows=${Object.entries(row.nodes)} keyed=${([node]) => node} columns=${[
    [t("node"), ([node]) => node], [t("phase"), ([, about]) => about.phase], [t("reason"), ([, about]) => about.reason ?? t("none")],
    [t("since"), ([, about]) => html`<${Age} since=${about.since} />`, "number"],
    [t("message"), ([, about]) => html`<span lang="en">${about.message}</span>`, "wide"]]} />
  <${Command} command=${`kubectl gpu explain driver ${row.driver}`} /></section>`);

export function Pool({ rows, params }) {
  if (rows.has("missing")) return html`<${Missing} row=${rows.get("missing")} /><${Notes} rows=${rows} />`;
  if (!params.pool) return html`<${Pools} rows=${rows} />`;
  const pool = rows.get("pool");
  if (!pool) return html`<h1>${params.pool}</h1><${Notes} rows=${rows} />`;
  return html`<h1>${pool.pool} <${Pill} tone=${TONES[pool.state] ?? "bad"}>${pool.state}<//></h1>
    <section><h2 class="hidden">${t("capacity")}</h2><${Bar} capacity=${pool.capacity} /><${Numbers} capacity=${pool.capacity} />
      <${Facts} facts=${[[t("mode"), pool.mode], [t("phase"), pool.phase], [t("access"), pool.access],
        [t("reconfigured"), pool.reconfigured && html`<${Age} since=${pool.reconfigured} />`],
        [t("cards"), html`<a href=${link("fleet", { pool: pool.pool })}>${t("fleet")}</a>`]]} /></section>
    <${Queue} rows=${rows} />${(pool.unread ?? []).map((why) => html`<p class="note" key=${why} lang="en">${why}</p>`)}
    <${Rollouts} rows=${rows} />
    <h2>${t("conditions")}</h2><${Conditions} rows=${kind(rows, "condition")} />
    <h2>${t("nodes")}</h2><${Table} name=${t("nodes")} rows=${kind(rows, "node")} keyed=${(row) => row.node} columns=${[
      [t("node"), (row) => html`<a href=${link("fleet", { search: row.node })}>${row.node}</a>`],
      [t("health"), (row) => html`<${Pill} tone=${row.health === "Healthy" ? "good" : "bad"}>${row.health}<//>`],
      [t("devices"), (row) => row.devices, "number"], [t("slots"), (row) => `${row.used} / ${row.slots}`, "number"],
      [t("event"), (row) => html`<span lang="en">${row.event}</span>`, "wide"]]} />
    <h2>${t("commands")}</h2><p class="hint">${t("commandsOnly")}</p>
    <${Command} command=${`kubectl gpu explain pool ${pool.pool}`} /><${Command} command=${`kubectl gpu queue ${pool.pool}`} />
    <${Command} command=${`kubectl edit gpupool ${pool.pool}`} /><${Notes} rows=${new Map([...rows].filter(([key]) => key.startsWith("?") || key === "waiter/?"))} />`;
}
