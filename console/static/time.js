// Ages, counted in the page: nothing is sent for time that passes.
import { Component, html } from "./html.js";
import { t } from "./texts.js";

const MINUTE = 60, HOUR = 3600, DAY = 86400;
const clocks = new Set();
setInterval(() => { for (const each of clocks) each.tick(); }, 1000);

// As kubectl writes ages: 45s, 12m, 5h, 3d.
export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 2 * MINUTE) return `${whole}s`;
  if (whole < 2 * HOUR) return `${Math.floor(whole / MINUTE)}m`;
  if (whole < 2 * DAY) return `${Math.floor(whole / HOUR)}h`;
  return `${Math.floor(whole / DAY)}d`;
}

const age = (since) => span((Date.now() - Date.parse(since)) / 1000);

export const local = (stamp) => new Date(stamp).toLocaleString();

export class Age extends Component {
  componentDidMount() { clocks.add(this); }
  componentWillUnmount() { clocks.delete(this); }
  tick() {
    const text = age(this.props.since);
    if (text !== this.state.text) this.setState({ text });
  }
  render({ since }) {
    if (!since || Number.isNaN(Date.parse(since))) return t("none");
    return html`<time datetime=${since} title=${local(since)}>${age(since)}</time>`;
  }
}
