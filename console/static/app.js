// The frame: which page is shown, in which language and colours, and how old what it shows is.
import { json, takeSecret } from "./api.js";
import { Component, html, render } from "./html.js";
import { Broken } from "./pages/broken.js";
import { Card } from "./pages/card.js";
import { Confirm } from "./pages/confirm.js";
import { Fleet } from "./pages/fleet.js";
import { Pod } from "./pages/pod.js";
import { Pool } from "./pages/pool.js";
import { link, place, question } from "./place.js";
import { Rows } from "./rows.js";
import { language, speak, t } from "./texts.js";
import { local } from "./time.js";

const PAGES = { fleet: Fleet, pool: Pool, pod: Pod, card: Card, confirm: Confirm, broken: Broken };
const NAVIGATION = ["fleet", "pool", "pod", "confirm", "broken"];
const THEMES = ["auto", "light", "dark"];

const ASK_AGAIN = 1000;

const well = (live) => Boolean(live?.rows && !live.fault && !live.lost);
const kept = (key) => { try { return localStorage.getItem(key); } catch { return null; } };
const keep = (key, value) => { try { localStorage.setItem(key, value); } catch { /* a browser that keeps nothing */ } };

function Banner({ state }) {
  const text = state.lost ? t("lostConsole", local(state.lost)) : state.stale ? t("lostServer", local(state.stale.since)) : "";
  return html`<div role="status" class=${text || state.failure ? "stale" : ""}>${text}${!state.lost && state.stale?.reason ? html` <span lang="en">${state.stale.reason}</span>` : null}${state.failure ? html` <span lang="en">${state.failure}</span>` : null}</div>`;
}

function Fault({ fault }) {
  const words = fault.status === 401 ? "unauthorized" : fault.status === 403 ? "forbidden" : "fault";
  return html`<div class="missing" role="alert"><h1>${t(words)}</h1><p lang="en">${fault.message}</p>${fault.status === 401 ? html`<p>${t("unauthorizedDo")}</p>` : null}</div>`;
}

class App extends Component {
  state = { at: place(), live: null, me: null, language: language(), theme: kept("gpu-theme") ?? "auto" };

  componentDidMount() {
    addEventListener("hashchange", this.move);
    this.follow(this.state.at);
    this.ask();
  }

  // Who looks, and what they may do.
  async ask() {
    if (this.asking) return;
    this.asking = true;
    try {
      const me = await json("api/me");
      if (!kept("gpu-language") && me.language) speak(me.language);
      this.setState({ me, language: language() });
    } catch {
      setTimeout(() => { if (!this.state.me && well(this.state.live)) this.ask(); }, ASK_AGAIN);
    }
    this.asking = false;
  }

  // After a loss somebody else may look, or somebody at last.
  heard = (live) => {
    const before = this.state.live;
    this.setState({ live });
    if (well(live) && (before ? !well(before) : !this.state.me)) this.ask();
  };

  move = () => {
    const at = place();
    if (question(at) !== question(this.state.at)) this.follow(at);
    this.setState({ at });
  };

  follow(at) {
    this.rows?.end();
    this.setState({ live: null });
    this.rows = new Rows(question(at), this.heard);
  }

  speak = () => {
    const next = language() === "en" ? "ru" : "en";
    speak(next);
    keep("gpu-language", next);
    this.setState({ language: next });
  };

  paint = (event) => {
    const theme = event.target.value;
    keep("gpu-theme", theme);
    paint(theme);
    this.setState({ theme });
  };

  componentDidUpdate(_, before) {
    document.title = `${this.state.at.params.card ?? this.state.at.params.pod ?? this.state.at.params.pool ?? t(this.state.at.view)} – GPU`;
    if (before.at.view !== this.state.at.view) this.main?.focus();
  }

  page({ at, live, me }) {
    if (live?.fault) return html`<${Fault} fault=${live.fault} />`;
    if (!live?.rows) return html`<p class="empty">${t("loading")}</p>`;
    const Page = PAGES[at.view];
    // Another language draws everything anew: rows that did not change are not looked at otherwise.
    return html`<${Page} key=${`${language()} ${question(at)}`} rows=${live.rows} params=${at.params} me=${me} />`;
  }

  render(_, state) {
    const { at, live, me, theme } = state;
    return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); this.main.focus(); }}>${t("skip")}</a>
      <header><b class="brand">GPU</b><nav aria-label=${t("views")}>${NAVIGATION.map((view) => html`<a key=${view} href=${link(view)}
        aria-current=${at.view === view ? "page" : undefined}>${t(view)}</a>`)}</nav>
        <div class="settings">${me?.user && html`<span class="who">${t("whoami", me.user)}</span>`}
          <label><span class="hidden">${t("theme")}</span><select value=${theme} onChange=${this.paint}>${THEMES.map((each) => html`<option key=${each} value=${each}>${t(each)}</option>`)}</select></label>
          <button type="button" onClick=${this.speak} lang=${language() === "en" ? "ru" : "en"}>${t("language")}</button></div></header>
      <${Banner} state=${live ?? {}} />
      <main id="main" tabindex="-1" ref=${(main) => { this.main = main; }}>${this.page(state)}</main>`;
  }
}

function paint(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

paint(kept("gpu-theme") ?? "auto");
speak(kept("gpu-language") ?? (navigator.language.startsWith("ru") ? "ru" : "en"));
takeSecret().catch(() => {}).then(() => render(html`<${App} />`, document.getElementById("app")));  // without it the page says 401
