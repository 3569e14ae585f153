// Markup as tagged templates. What stands in ${} becomes text or an attribute, never markup: names may hold anything.
import { Component, Fragment, h, render } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export const html = htm.bind(h);
export { Component, Fragment, render };
