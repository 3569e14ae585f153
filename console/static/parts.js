// What several pages show alike.
import { Component, html } from "./html.js";
import { link } from "./place.js";
import { stateText, t } from "./texts.js";
import { Age } from "./time.js";

const OBJECTS = {
  GPUDevice: (name) => link("card", { card: name }),
  GPUPool: (name) => link("pool", { pool: name }),
  GPUNodeInventory: (name) => link("fleet", { search: name }),
};

export const kind = (rows, ...kinds) => [...rows.values()].filter((row) => kinds.includes(row.kind));

export const Pill = ({ tone, children }) => html`<span class=${`pill ${tone ?? ""}`}>${children}</span>`;

export const State = ({ state }) => html`<span class="state"><span class=${`sq ${state}`} aria-hidden="true"></span>${stateText(state)}</span>`;

export const PodLink = ({ namespace, pod }) => html`<a href=${link("pod", { namespace, pod })}>${namespace}/${pod}</a>`;
export const CardLink = ({ card }) => html`<a href=${link("card", { card })}>${card}</a>`;
export const PoolLink = ({ pool }) => (pool ? html`<a href=${link("pool", { pool })}>${pool}</a>` : t("none"));
export const ObjectLink = ({ of, name }) => (OBJECTS[of] ? html`<a href=${OBJECTS[of](name)}>${name}</a>` : name);

// What may not be read, said and counted.
export function Notes({ rows }) {
  const notes = kind(rows, "hidden", "refused").filter((row) => row.count || row.text);
  if (!notes.length) return null;
  return html`<ul class="notes">${notes.map((row) => html`<li key=${row.kind + row.of}>
    ${row.kind === "hidden" ? t("hidden", row.count, row.of) : html`${t("refused", row.of)}: <span lang="en">${row.text}</span>`}</li>`)}</ul>`;
}

export const Missing = ({ row }) => html`<div class="missing"><h1>${t("missing", row.of, row.name ?? "")}</h1>
  <p lang="en">${row.text}</p><p>${t("missingWait")}</p></div>`;

export class Command extends Component {
  copy = async () => {
    try {
      await navigator.clipboard.writeText(this.props.command);
    } catch {
      getSelection().selectAllChildren(this.text);
      return;
    }
    this.setState({ copied: true });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.setState({ copied: false }), 2000);
  };
  componentWillUnmount() { clearTimeout(this.timer); }
  render({ command, what }, { copied }) {
    return html`<div class="command">${what && html`<span class="what">${what}</span>`}
      <code ref=${(at) => { this.text = at; }}>${command}</code>
      <button type="button" onClick=${this.copy} aria-label=${`${t("copy")}: ${command}`}>${copied ? t("copied") : t("copy")}</button></div>`;
  }
}

// A table with a caption for those who hear it; `columns` are [title, cell of a row, class].
export function Table({ name, columns, rows, keyed, empty }) {
  if (!rows.length) return html`<p class="empty">${empty ?? t("nothing")}</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${name}><table><caption class="hidden">${name}</caption>
    <thead><tr>${columns.map(([title]) => html`<th scope="col" key=${title}>${title}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${keyed(row)}>
      ${columns.map(([title, cell, look]) => html`<td key=${title} class=${look} data-title=${title}>${cell(row)}</td>`)}</tr>`)}
    </tbody></table></div>`;
}

export function Conditions({ rows, name = t("conditions"), withObject = false, empty }) {
  const columns = [
    [t("type"), (row) => row.type],
    [t("status"), (row) => row.status],
    [t("reason"), (row) => row.reason],
    [t("since"), (row) => html`<${Age} since=${row.since} />`, "number"],
    [t("message"), (row) => html`<span lang="en">${row.message}</span>${row.do && html`<span class="do" lang="en">→ ${row.do}</span>`}`, "wide"],
  ];
  const object = [t("object"), (row) => html`${row.of} <${ObjectLink} of=${row.of} name=${row.name} />`];
  return html`<${Table} name=${name} columns=${withObject ? [object, ...columns] : columns} rows=${rows} empty=${empty}
    keyed=${(row) => `${row.of}/${row.name}/${row.type}`} />`;
}

export const Facts = ({ facts }) => html`<dl class="facts">${facts.filter(([, value]) => value !== undefined && value !== null && value !== "")
  .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
