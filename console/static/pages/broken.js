// What broke: conditions that say what is wrong, newest first.
import { html } from "../html.js";
import { Conditions, kind, Notes } from "../parts.js";
import { t } from "../texts.js";

export function Broken({ rows }) {
  const order = kind(rows, "condition").sort((one, other) => ((one.since ?? "") < (other.since ?? "") ? 1 : -1));
  return html`<h1>${t("broken")}</h1><${Notes} rows=${rows} /><${Conditions} name=${t("broken")} rows=${order} withObject empty=${t("brokenNone")} />`;
}
