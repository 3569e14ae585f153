// Card: what it is, who has it, what is wrong with it.
import { html } from "../html.js";
import { Command, Conditions, Facts, kind, Missing, Notes, PodLink, PoolLink, State, Table } from "../parts.js";
import { link } from "../place.js";
import { t } from "../texts.js";
import { Age, local } from "../time.js";

const yes = (value) => (value === undefined ? undefined : t(value ? "yes" : "no"));
const many = (values) => (values?.length ? values.join(", ") : undefined);

function Holders({ rows }) {
  const known = kind(rows, "holder"), hidden = rows.get("holder/?");
  return html`<h2>${t("holders")}</h2><ul class="holders">${known.map((row) => html`<li key=${row.how + row.namespace + row.pod + row.container}><${PodLink} ...${row} />
    ${t(row.how)}${row.slots > 1 ? ` (${row.slots})` : ""}${row.resource ? ` (${row.resource})` : ""}${row.until ? html` ${t("until")} <time datetime=${row.until}>${local(row.until)}</time>` : null}</li>`)}
    ${hidden && html`<li>${hidden.count} × ${t("otherNamespace")}</li>`}${!known.length && !hidden ? html`<li>${t("nobody")}</li>` : null}</ul>`;
}

function Moment({ stamp, otherwise }) {
  return stamp ? html`<time datetime=${stamp}>${local(stamp)}</time>` : otherwise;
}

function Timeline({ rows }) {
  const columns = [
    [t("since"), (row) => html`<${Moment} stamp=${row.since} otherwise=${t("notKnown")} />`],
    [t("until"), (row) => (row.moment ? "" : html`<${Moment} stamp=${row.until} otherwise=${t("lasts")} />`)],
    [t("what"), (row) => html`<span lang="en">${row.what}</span>`],
    [t("podName"), (row) => html`${(row.pods ?? []).map((each) => html`<${PodLink} ...${each} /> `)}${row.hidden ? `${row.hidden} × ${t("otherNamespace")}` : ""}`],
    [t("onePool"), (row) => row.pool && html`<${PoolLink} pool=${row.pool} />`],
    [t("message"), (row) => html`<span lang="en">${row.message}</span>`, "wide"],
  ];
  return html`<h2>${t("timeline")}</h2><${Table} name=${t("timeline")} columns=${columns} rows=${rows} empty=${t("timelineEmpty")}
    keyed=${(row) => `${row.since}/${row.until}/${row.what}/${(row.pods ?? []).map((each) => each.pod).join()}`} />`;
}

export function Card({ rows, params }) {
  if (rows.has("missing")) return html`<${Missing} row=${rows.get("missing")} /><${Notes} rows=${rows} />`;
  const card = rows.get("card"), health = rows.get("health"), pending = kind(rows, "pending");
  if (!card) return html`<h1>${params.card}</h1><${Notes} rows=${rows} />`;
  return html`<h1>${card.card}</h1><p class="verdict"><${State} state=${card.state} /> <span lang="en">${card.verdict}.</span></p>
    ${pending.length ? html`<p><a href=${link("confirm")}>${t("confirm")}</a>: ${pending.map((row) => `${row.reason}${row.pool ? ` (${row.pool})` : ""}`).join(", ")}</p>` : null}
    <h2>${t("hardware")}</h2><${Facts} facts=${[[t("product"), card.product], [t("memory"), card.memoryMiB && `${card.memoryMiB} MiB`],
      [t("node"), card.node && html`<a href=${link("fleet", { search: card.node })}>${card.node}</a>`], [t("onePool"), card.pool && html`<${PoolLink} pool=${card.pool} />`],
      [t("inventoryID"), card.inventoryID], [t("pci"), card.pci], [t("numa"), card.numaNode], [t("peers"), many(card.peers)],
      [t("mig"), many(card.mig)], [t("slots"), card.slots], [t("uuid"), card.uuid]]} />
    <${Holders} rows=${rows} /><${Timeline} rows=${kind(rows, "timeline")} />
    <h2>${t("conditions")}</h2><${Conditions} rows=${kind(rows, "condition")} />
    ${health && html`<h2>${t("health")}</h2><${Facts} facts=${[[t("temperature"), health.temperatureC !== undefined ? `${health.temperatureC} °C` : undefined],
      [t("ecc"), health.eccErrorsTotal], [t("xid"), health.lastXid], [t("throttled"), yes(health.throttled)],
      [t("updated"), health.lastUpdated && html`<${Age} since=${health.lastUpdated} />`]]} />`}
    <h2>${t("commands")}</h2><p class="hint">${t("commandsOnly")}</p>
    ${kind(rows, "command").map((row) => html`<${Command} key=${row.what} what=${t(row.what)} command=${row.command} />`)}<${Notes} rows=${new Map([...rows].filter(([key]) => key.startsWith("?")))} />`;
}
