// Where the page is: `#/pool?pool=training`. Everything that is shown follows from it, so that a link or a reload shows the same.
export const VIEWS = ["fleet", "pool", "pod", "confirm", "broken", "card"];
// What of a URL the backend is asked with; the rest are filters of the page.
const ASKED = { fleet: [], pool: ["pool"], pod: ["namespace", "pod"], card: ["card"], confirm: [], broken: [] };

export function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const view = VIEWS.includes(path) ? path : "fleet";
  return { view, params: Object.fromEntries(new URLSearchParams(query)) };
}

export function link(view, params = {}) {
  const given = Object.entries(params).filter(([, value]) => value);
  const query = new URLSearchParams(given).toString();
  return query ? `#/${view}?${query}` : `#/${view}`;
}

export function question({ view, params }) {
  const given = ASKED[view].filter((key) => params[key]).map((key) => [key, params[key]]);
  const query = new URLSearchParams(given).toString();
  return query ? `${view}?${query}` : view;
}

// Filters change the URL without a new entry for each letter that is typed.
export function refine(params) {
  history.replaceState(null, "", link(place().view, { ...place().params, ...params }));
  dispatchEvent(new HashChangeEvent("hashchange"));
}
