// A value as a tree that opens where it is asked to: depth and length cost nothing until then.

import { html } from "../core/reactive.js";
import { count, visible } from "../core/format.js";

const LONG = 400; // characters of a text that are shown at once
const MANY = 100; // entries that are shown at once

export function json(value, { open = 1, name = null } = {}) {
  const node = document.createElement("div");
  node.className = "json";
  node.append(entry(name, value, open));
  return node;
}

function entry(name, value, open) {
  const label = name === null ? null : html`<span class="key">${visible(String(name))}</span>`;
  if (value === null || typeof value !== "object") {
    return html`<div class="leaf">${label}${leaf(value)}</div>`;
  }
  const size = Array.isArray(value) ? value.length : Object.keys(value).length;
  if (!size) {
    return html`<div class="leaf">${label}<span class="empty">${Array.isArray(value) ? "[ ]" : "{ }"}</span></div>`;
  }
  const hint = Array.isArray(value) ? `[${count(size)}]` : preview(value);
  const details = html`<details class="branch">
    <summary>${label}<span class="hint">${hint}</span></summary>
  </details>`.firstElementChild;
  const unfold = () => {
    if (details.open && details.childElementCount === 1) details.append(children(value, open - 1, 0));
  };
  details.addEventListener("toggle", unfold);
  if (open > 0) {
    details.open = true;
    unfold();
  }
  return details;
}

function children(value, open, from) {
  const pairs = Object.entries(value);
  const list = document.createElement("div");
  list.className = "children";
  for (const [name, each] of pairs.slice(from, from + MANY)) list.append(entry(name, each, open));
  const left = pairs.length - from - MANY;
  if (left > 0) {
    const more = html`<button class="link">${count(left)} more</button>`.firstElementChild;
    more.addEventListener("click", () => more.replaceWith(...children(value, open, from + MANY).childNodes));
    list.append(more);
  }
  return list;
}

function preview(value) {
  const names = Object.keys(value);
  const shown = names.slice(0, 4).map((name) => visible(name).slice(0, 24));
  return `{ ${shown.join(", ")}${names.length > 4 ? ", …" : ""} }`;
}

function leaf(value) {
  if (typeof value !== "string") return html`<span class=${typeof value}>${String(value)}</span>`;
  return longText(value, "string");
}

// A text with a button for the rest of it.
export function longText(text, kind = "") {
  if (text.length <= LONG) return html`<span class="text" dir="auto">${mark(text, kind)}</span>`;
  const node = html`<span class="text" dir="auto">${mark(text.slice(0, LONG), kind)}</span>
    <button class="link">all ${count(text.length)} characters</button>`;
  const [span, button] = node.querySelectorAll("span.text, button");
  button.addEventListener("click", () => {
    span.replaceChildren(mark(text, kind));
    button.remove();
  });
  return node;
}

function mark(text, kind) {
  const span = document.createElement("span");
  span.className = kind;
  span.textContent = visible(text);
  return span;
}
