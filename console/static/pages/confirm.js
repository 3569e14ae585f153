// To confirm: cards that wait for a person, several at once, and what the webhook answers, as it is.
import { post } from "../api.js";
import { Component, html } from "../html.js";
import { CardLink, Command, kind, Notes, PoolLink, Table } from "../parts.js";
import { t } from "../texts.js";

const PORTION = 256;  // cards of one request: a few seconds of the webhook's time

export class Confirm extends Component {
  state = { chosen: new Set(), pool: "", busy: false, answers: new Map(), fault: "" };

  choose = (card, on) => this.setState(({ chosen }) => {
    const next = new Set(chosen);
    if (on) next.add(card); else next.delete(card);
    return { chosen: next };
  });

  // `uids`: of the cards as they were looked at; another one may have the name by now.
  confirm = async (cards, pool, uids) => {
    this.setState({ busy: true, fault: "", answers: new Map() });
    try {
      for (let at = 0; at < cards.length; at += PORTION) {
        const { results } = await post("api/confirm", { cards: cards.slice(at, at + PORTION).map((name) => ({ name, uid: uids.get(name) ?? "" })), pool });
        const done = new Set(results.filter((each) => each.ok).map((each) => each.card));
        this.setState(({ answers, chosen }) => ({
          answers: new Map([...answers, ...results.map((each) => [each.card, each])]), chosen: new Set([...chosen].filter((card) => !done.has(card))),
        }));
      }
    } catch (error) {
      this.setState({ fault: error.message });
    }
    this.setState({ busy: false });
  };

  render({ rows, me }, { chosen, pool, busy, answers, fault }) {
    const all = kind(rows, "pending"), waiting = all.filter((row) => row.reason === "AwaitingApproval");
    const decided = all.filter((row) => row.reason !== "AwaitingApproval");
    const cards = waiting.filter((row) => chosen.has(row.card)).map((row) => row.card);
    const pools = [...new Set(waiting.filter((row) => !cards.length || chosen.has(row.card)).flatMap((row) => row.pools ?? []))].sort();
    const into = pools.includes(pool) ? pool : pools.length === 1 ? pools[0] : "";
    const columns = [
      [t("choose"), (row) => html`<input type="checkbox" aria-label=${`${t("choose")} ${row.card}`} checked=${chosen.has(row.card)} onChange=${(event) => this.choose(row.card, event.target.checked)} />`],
      [t("card"), (row) => html`<${CardLink} card=${row.card} />`],
      [t("product"), (row) => row.product ?? t("none")],
      [t("node"), (row) => row.node],
      [t("onePool"), (row) => (row.pools ?? []).map((each) => html`<${PoolLink} key=${each} pool=${each} /> `)],
    ];
    return html`<h1>${t("confirmTitle")}</h1><${Notes} rows=${rows} />
      ${waiting.length ? html`<label class="every"><input type="checkbox" checked=${cards.length === waiting.length}
        onChange=${(event) => this.setState({ chosen: new Set(event.target.checked ? waiting.map((row) => row.card) : []) })} /> ${t("chooseAll")}</label>` : null}
      <${Table} name=${t("confirmTitle")} rows=${waiting} keyed=${(row) => row.card} columns=${columns} />
      ${waiting.length ? html`<div class="act"><label>${t("into")} <select name="pool" value=${into} onChange=${(event) => this.setState({ pool: event.target.value })}>
          <option value="">${t("noPool")}</option>${pools.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select></label>
        ${me?.mayConfirm ? html`<button type="button" class="main" disabled=${busy || !cards.length || !into} onClick=${() => this.confirm(cards, into, new Map(waiting.map((row) => [row.card, row.uid])))}>${busy ? t("confirmBusy") : t("confirmButton", cards.length)}</button>` : null}
        <output>${t("chosen", cards.length)}</output></div>` : null}
      ${me && !me.mayConfirm && waiting.length ? html`<p class="hint">${t("confirmOnlyRead")}</p>` : null}
      ${cards.length && into ? html`<${Command} command=${`kubectl gpu assign ${cards.join(" ")} ${into}`} />` : null}
      <div role="status" aria-live="polite">${fault && html`<p class="answer bad">${fault}</p>`}
        ${answers.size ? html`<h2>${t("answer")}</h2><ul class="answers">${[...answers.values()].map((each) => html`<li key=${each.card} class=${each.ok ? "good" : "bad"}>
          <b>${each.card}</b> ${each.ok ? t("confirmed") : html`<span lang="en">${each.message}</span>`}</li>`)}</ul>` : null}</div>
      ${decided.length ? html`<h2>${t("confirmDecided")}</h2><${Table} name=${t("confirmDecided")} rows=${decided} keyed=${(row) => row.card}
        columns=${[...columns.slice(1), [t("reason"), (row) => row.reason]]} />` : null}`;
  }
}
