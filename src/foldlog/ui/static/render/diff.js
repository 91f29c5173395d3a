// What differs between two values, by path, and between two texts, by word. Mirrors
// src/foldlog/differences.py, and shows it.

import { html } from "../core/reactive.js";
import { visible } from "../core/format.js";
import { plain } from "./plain.js";

const MOST = 200; // changes that are shown
const WORDS = 1200; // words beyond which texts are shown one after the other

// [{ path, before, after }], undefined where a side has nothing.
export function differences(before, after, path = "", found = []) {
  if (before === after || found.length >= MOST) return found;
  const bothObjects = isObject(before) && isObject(after) && Array.isArray(before) === Array.isArray(after);
  if (!bothObjects) {
    found.push({ path, before, after });
    return found;
  }
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const place = Array.isArray(after) ? `${path}[${key}]` : path ? `${path}.${key}` : key;
    differences(before[key], after[key], place, found);
  }
  return found;
}

const isObject = (value) => value !== null && typeof value === "object";

// The changes as rows: the path, then what was and what is.
export function changes(before, after) {
  const found = differences(plain(before), plain(after));
  if (!found.length) return html`<p class="quiet">Nothing changed.</p>`;
  return html`<dl class="changes">
    ${found.map(({ path, before: old, after: new_ }) => html`
      <dt>${visible(path || "it")}</dt>
      <dd>${change(old, new_)}</dd>`)}
    ${found.length >= MOST ? html`<dt>…</dt><dd class="quiet">more than ${MOST} changes</dd>` : null}
  </dl>`;
}

function change(old, new_) {
  if (typeof old === "string" && typeof new_ === "string" && old.length + new_.length > 60) {
    return words(old, new_);
  }
  return html`${old === undefined ? null : html`<del>${short(old)}</del>`}
    ${new_ === undefined ? null : html`<ins>${short(new_)}</ins>`}`;
}

export function short(value, length = 240) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return visible(text.length > length ? `${text.slice(0, length)}…` : text);
}

// A text diff: the longest common subsequence of words.
export function words(old, new_) {
  const a = old.split(/(\s+)/);
  const b = new_.split(/(\s+)/);
  const node = document.createElement("div");
  node.className = "words";
  node.dir = "auto";
  const show = (name, text) => {
    if (!text) return;
    const part = document.createElement(name);
    part.textContent = visible(text);
    node.append(part);
  };
  let start = 0;
  while (start < Math.min(a.length, b.length) && a[start] === b[start]) start += 1;
  let end = 0;
  const most = Math.min(a.length, b.length) - start;
  while (end < most && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  show("span", a.slice(0, start).join(""));
  middle(a.slice(start, a.length - end), b.slice(start, b.length - end), show);
  show("span", end ? a.slice(-end).join("") : "");
  return node;
}

function middle(a, b, show) {
  if (a.length + b.length > WORDS || !a.length || !b.length) {
    show("del", a.join(""));
    show("ins", b.join(""));
    return;
  }
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  const parts = [];
  const add = (name, text) => {
    if (parts.at(-1)?.[0] === name) parts.at(-1)[1] += text;
    else parts.push([name, text]);
  };
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      add("span", a[i++]);
      j += 1;
    } else if (j >= b.length || (i < a.length && table[i + 1][j] >= table[i][j + 1])) add("del", a[i++]);
    else add("ins", b[j++]);
  }
  for (const [name, text] of parts) show(name, text);
}
