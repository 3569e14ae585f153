// Fleet: nodes as rows, cards as squares by state, framed where NVLink joins them.
import { Component, html } from "../html.js";
import { kind, Notes } from "../parts.js";
import { link, refine } from "../place.js";
import { stateText, t } from "../texts.js";

const STATES = ["Free", "InUse", "Promised", "Pending", "Unassigned", "Leaving", "NotOffered", "Blocked", "Faulted"];
// Rows that are drawn at once; the rest follow frame by frame, so that something is seen at once of a thousand nodes.
const FIRST = 60, EACH_FRAME = 150;

const cardsOf = (row) => Object.entries(row.cards ?? {}).sort(([one], [other]) => (one < other ? -1 : 1));

function isShown(name, card, params) {
  return (!params.state || card.state === params.state)
    && (!params.pool || card.pool === params.pool)
    && (!params.product || card.product === params.product)
    && (!params.search || name.includes(params.search));
}

function groups(cards) {
  const made = [];
  for (const [name, card] of cards) {
    const last = made.at(-1);
    if (card.link !== undefined && last?.link === card.link) last.cards.push([name, card]);
    else made.push({ link: card.link, cards: [[name, card]] });
  }
  return made;
}

function Square({ name, card, dim }) {
  const shared = card.slots ? ` ${card.used ?? 0}/${card.slots}` : "";
  const text = [name, stateText(card.state) + shared, card.pool, card.product].filter(Boolean).join(", ");
  return html`<a class=${`sq ${card.state} ${dim ? "dim" : ""}`} href=${link("card", { card: name })} title=${text} aria-label=${text}
    tabindex="-1" data-card=${name}></a>`;
}

class NodeRow extends Component {
  shouldComponentUpdate(next) { return next.row !== this.props.row || next.filter !== this.props.filter; }
  render({ row, params }) {
    const cards = cardsOf(row).sort((one, other) => (one[1].link ?? "~").localeCompare(other[1].link ?? "~"));
    const named = row.node.includes(params.search ?? "");
    const about = { ...params, search: named ? "" : params.search };
    const state = [row.ready ? "" : `${t("notReady")}${row.reason ? `: ${row.reason}` : ""}`, row.cordoned ? t("cordoned") : ""];
    return html`<li class=${`node ${row.ready ? "" : "bad"}`}><span class="name">${row.node}</span>
      <span class="cards">${groups(cards).map((group) => html`<span key=${group.cards[0][0]} class=${group.link !== undefined ? "linked" : "alone"}
        title=${group.link !== undefined ? `${t("group")} ${group.link}` : undefined}>
        ${group.cards.map(([name, card]) => html`<${Square} key=${name} name=${name} card=${card} dim=${!isShown(name, card, about)} />`)}</span>`)}</span>
      <span class="about">${[...state, row.driver ? `${t("driver")} ${row.driver}` : ""].filter(Boolean).join(" · ")}</span></li>`;
  }
}

function Choice({ name, label, values, value }) {
  return html`<label>${label} <select name=${name} value=${value ?? ""} onChange=${(event) => refine({ [name]: event.target.value })}>
    <option value="">${t("all")}</option>${values.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select></label>`;
}

export class Fleet extends Component {
  state = { drawn: FIRST };
  componentDidMount() {
    this.more();
    this.rove();
    // How soon something is seen is measured by it: after the frame that shows it.
    requestAnimationFrame(() => setTimeout(() => performance.mark("first-cards")));
  }
  componentDidUpdate() { this.more(); this.rove(); }
  componentWillUnmount() { cancelAnimationFrame(this.frame); }

  more() {
    cancelAnimationFrame(this.frame);
    if (this.state.drawn < this.shown) this.frame = requestAnimationFrame(() => this.setState(({ drawn }) => ({ drawn: drawn + EACH_FRAME })));
  }

  // One square is reached by Tab, the others from it by arrows.
  rove(at) {
    if (!this.list) return;
    const now = this.list.querySelector('.sq[tabindex="0"]');
    const wanted = at ?? now ?? this.list.querySelector(".sq");
    if (now && now !== wanted) now.tabIndex = -1;
    if (wanted && wanted.tabIndex !== 0) wanted.tabIndex = 0;
  }

  key = (event) => {
    const at = event.target.closest(".sq"), step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const line = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!at || (!step && !line)) return;
    const row = at.closest("li"), squares = [...row.querySelectorAll(".sq")], index = squares.indexOf(at);
    let next = squares[index + (step ?? 0)];
    for (let other = row; line && other;) {
      other = line < 0 ? other.previousElementSibling : other.nextElementSibling;
      const found = other ? [...other.querySelectorAll(".sq")] : [];
      if (found.length) { next = found[Math.min(index, found.length - 1)]; break; }
    }
    event.preventDefault();
    if (next) { this.rove(next); next.focus(); }
  };

  render({ rows, params }, { drawn }) {
    const nodes = kind(rows, "node"), counts = {}, pools = new Set(), products = new Set();
    for (const row of nodes) {
      for (const card of Object.values(row.cards ?? {})) {
        counts[card.state] = (counts[card.state] ?? 0) + 1;
        if (card.pool) pools.add(card.pool);
        if (card.product) products.add(card.product);
      }
    }
    const wanted = params.state || params.pool || params.product || params.search;
    const shown = wanted ? nodes.filter((row) => Object.entries(row.cards ?? {}).some(([name, card]) => isShown(name, card,
      { ...params, search: row.node.includes(params.search ?? "") ? "" : params.search }))
      || (row.node.includes(params.search ?? "\0") && !params.state && !params.pool && !params.product)) : nodes;
    this.shown = shown.length;
    const filter = JSON.stringify(params);
    return html`<h1>${t("fleet")}</h1><${Notes} rows=${rows} />
      <fieldset class="legend"><legend>${t("legend")}</legend>${STATES.filter((each) => counts[each] || each === params.state).map((each) => html`<button key=${each} type="button"
        aria-pressed=${String(params.state === each)} onClick=${() => refine({ state: params.state === each ? "" : each })}>
        <span class=${`sq ${each}`} aria-hidden="true"></span>${stateText(each)} <b>${counts[each] ?? 0}</b></button>`)}</fieldset>
      <form class="filters" role="search" aria-label=${t("filter")} onSubmit=${(event) => event.preventDefault()}>
        <label>${t("search")} <input name="search" type="search" value=${params.search ?? ""} onInput=${(event) => refine({ search: event.target.value })} /></label>
        <${Choice} name="pool" label=${t("onePool")} values=${[...pools].sort()} value=${params.pool} />
        <${Choice} name="product" label=${t("product")} values=${[...products].sort()} value=${params.product} />
        <output>${t("shown", shown.length, nodes.length)}</output></form>
      <p class="hint">${t("fleetHint")}</p>
      ${shown.length ? html`<ul class="fleet" aria-label=${t("nodes")} ref=${(at) => { this.list = at; }} onKeyDown=${this.key} onFocusIn=${(event) => event.target.classList.contains("sq") && this.rove(event.target)}>
        ${shown.slice(0, drawn).map((row) => html`<${NodeRow} key=${row.node} row=${row} params=${params} filter=${filter} />`)}</ul>`
      : html`<p class="empty">${t("nothing")}</p>`}`;
  }
}
