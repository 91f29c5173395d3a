// What differs between two values, by path, and between two texts, by word. Mirrors
// src/foldlog/differences.py, and shows it.

import { html } from "../core/reactive.js";
import { visible } from "../core/format.js";
import { Table } from "../folds/fold.js";
import { plain } from "./plain.js";

const MOST = 200; // changes that are shown
const WORDS = 1200; // words beyond which texts are shown one after the other

// [{ path, before, after }], undefined where a side has nothing.
export function differences(before, after, path = "", found = []) {
  if (before === after || found.length >= MOST) return found;
  const areAlike = isObject(before) && isObject(after) && kindOf(before) === kindOf(after);
  if (!areAlike) found.push({ path, before: plain(before), after: plain(after) });
  else if (after instanceof Table) add(after.changedSince(before), (table, key) => table.get(key));
  else if (after instanceof Map) add([...before.keys(), ...after.keys()], (map, key) => map.get(key));
  else add([...Object.keys(before), ...Object.keys(after)], (object, key) => object[key]);
  return found;

  function add(keys, valueOf) {
    for (const key of new Set(keys)) {
      const place = Array.isArray(after) ? `${path}[${key}]` : path ? `${path}.${key}` : key;
      differences(valueOf(before, key), valueOf(after, key), place, found);
    }
  }
}

const isObject = (value) => value !== null && typeof value === "object";
const kindOf = Object.getPrototypeOf;

// The changes as rows: the path, then what was and what is.
export function changes(before, after) {
  const found = differences(before, after);
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
  const most = Math.min(a.length, b.length);
  let start = 0;
  while (start < most && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < most - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  const parts = [["span", ""]];
  const add = (name, some) => {
    if (parts.at(-1)[0] !== name) parts.push([name, ""]);
    parts.at(-1)[1] += some.join("");
  };
  add("span", a.slice(0, start));
  middle(a.slice(start, a.length - end), b.slice(start, b.length - end), add);
  add("span", end ? a.slice(-end) : []);
  const node = html`<div class="words" dir="auto"></div>`.firstElementChild;
  for (const [name, text] of parts) node.append(Object.assign(document.createElement(name), { textContent: visible(text) }));
  return node;
}

function middle(a, b, add) {
  const isShort = a.length + b.length <= WORDS;
  const table = Array.from({ length: isShort ? a.length + 1 : 0 }, () => new Uint16Array(b.length + 1));
  for (let i = table.length - 2; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  let i = 0;
  let j = 0;
  while (isShort && i < a.length && j < b.length) {
    if (a[i] === b[j]) add("span", [b[(i++, j++)]]);
    else if (table[i + 1][j] >= table[i][j + 1]) add("del", [a[i++]]);
    else add("ins", [b[j++]]);
  }
  add("del", a.slice(i));
  add("ins", b.slice(j));
}
