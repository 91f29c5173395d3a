// Two runs, or two moments of one: what each holds, side by side where they differ.

import { computed, effect, element, html, onEnd, signal } from "../core/reactive.js";
import { clip, count, moment, plural, visible } from "../core/format.js";
import { Run } from "../core/run.js";
import { Table } from "../folds/fold.js";
import { Items } from "../folds/items.js";
import { differences, short, words } from "../render/diff.js";
import { plain } from "../render/plain.js";
import { json } from "../render/json.js";
import { isList } from "./labels.js";

// What a run holds, by kind and id, without whose it is: as src/foldlog/cli/describe.py does.
export function describe({ states, log, id }) {
  const lists = new Set(log.records.filter(isList).map((each) => each.name));
  const found = new Map();
  const add = (kind, name, value) => {
    if (!found.has(kind)) found.set(kind, new Map());
    found.get(kind).set(name, strip(plain(value), id));
  };
  for (const [name, state] of states.value) {
    const [kind, ...keys] = JSON.parse(name);
    if (lists.has(name)) continue;
    const place = keys.map((key) => (key === id ? "" : key.replace(`:${id}`, ""))).filter(Boolean).join(" ");
    if (state instanceof Items) {
      for (const each of state) add(kind, [place, each.record.update_id ?? each.record.event_id ?? each.id.slice(0, 8)].filter(Boolean).join(" "), each.record);
    } else if (state instanceof Map || state instanceof Table) {
      for (const [key, value] of state) {
        if (kind === "messages") for (const [mid, one] of value.messages) add(kind, `${key} ${mid}`, one);
        else add(kind, [place, key].filter(Boolean).join(" "), value);
      }
    } else if (state !== null) add(kind, place, state);
  }
  return found;
}

const strip = (value, id) => {
  if (Array.isArray(value)) return value.map((each) => strip(each, id));
  if (!value || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).filter(([key]) => key !== "session_id").map(([key, each]) => [key, strip(each, id)]));
};

// [{ kind, id, how, before, after }] in the order of `after`, what is gone last.
export function compared(before, after) {
  const found = [];
  for (const kind of new Set([...after.keys(), ...before.keys()])) {
    const a = before.get(kind) ?? new Map();
    const b = after.get(kind) ?? new Map();
    for (const [id, value] of b) {
      if (!a.has(id)) found.push({ kind, id, how: "added", after: value });
      else if (JSON.stringify(a.get(id)) !== JSON.stringify(value)) found.push({ kind, id, how: "changed", before: a.get(id), after: value });
    }
    for (const [id, value] of a) if (!b.has(id)) found.push({ kind, id, how: "removed", before: value });
  }
  return found;
}

export const compareView = element("fl-compare", (host) => {
  const { a, b } = host;
  const open = ({ id, at }) => {
    const run = new Run("session", id);
    run.open({ at, follow: false });
    return run;
  };
  const left = open(a);
  const right = open(b);
  onEnd(() => [left, right].forEach((run) => run.end()));
  const only = signal("");
  const found = computed(() => {
    if (left.state.value === "loading" || right.state.value === "loading") return null;
    return compared(describe(left), describe(right));
  });
  const tally = computed(() => {
    const sums = { added: 0, removed: 0, changed: 0 };
    for (const each of found.value ?? []) sums[each.how] += 1;
    return sums;
  });
  return html`<div class="page compare"><h1>Compare</h1>
    <div class="sides">${side("A", left)}${side("B", right)}</div>
    ${() => {
      const failed = left.error.value ?? right.error.value;
      if (failed) return html`<p class="error" role="alert">${failed.message}</p>`;
      if (found.value === null) return html`<p class="empty" role="status">Loading…</p>`;
      if (!found.value.length) return html`<p class="empty">They hold the same.</p>`;
      return html`<div class="chips" role="group" aria-label="Which differences">${["added", "changed", "removed"].map((how) => html`<button class="chip" data-how=${how}
          aria-pressed=${() => String(only.value === how)} @click=${() => (only.value = only.value === how ? "" : how)}>${how} <span class="n">${count(tally.value[how])}</span></button>`)}</div>
        <ol class="differences">${found.value.filter((each) => !only.value || each.how === only.value).slice(0, 500).map(difference)}</ol>`;
    }}</div>`;
});

function side(name, run) {
  const slider = html`<input type="range" aria-label=${`Moment of ${name}`} min="0" @input=${(event) => run.show(Number(event.target.value))}>`.firstElementChild;
  effect(() => Object.assign(slider, { max: run.log.count.value, value: run.count.value }));
  return html`<section class="card" aria-label=${`Side ${name}`}><h2><span class="tag">${name}</span> <a href=${`#/session/${encodeURIComponent(run.id)}`}>${clip(run.id, 80)}</a></h2>
    <p class="quiet">${() => (run.current.value ? `${plural(run.count.value, "record")}, up to ${moment(run.current.value.recorded_at)}` : "nothing yet")}</p>
    ${slider}</section>`;
}

function difference({ kind, id, how, before, after }) {
  return html`<li data-how=${how}><header><span class="tag">${how}</span> <b>${kind}</b> <span class="name">${clip(id, 100)}</span></header>
    ${how === "changed" ? sides(before, after) : json(after ?? before, { open: 2 })}</li>`;
}

function sides(before, after) {
  return html`<div class="scroller"><table class="fields"><thead><tr><th>field</th><th>A</th><th>B</th></tr></thead><tbody>
    ${differences(before, after).map(({ path, before: a, after: b }) => {
      const isText = typeof a === "string" && typeof b === "string" && a.length + b.length > 80;
      return html`<tr><th scope="row">${visible(path || "it")}</th>${isText ? html`<td colspan="2">${words(a, b)}</td>` : html`<td>${a === undefined ? "–" : short(a)}</td><td>${b === undefined ? "–" : short(b)}</td>`}</tr>`;
    })}</tbody></table></div>`;
}

// The address of a comparison; `at` is a position, or null for now.
export function compareAddress(a, b) {
  const given = { a: a.id, at_a: a.at, b: b.id, at_b: b.at };
  const kept = Object.entries(given).filter(([, value]) => value);
  return `#/compare?${new URLSearchParams(kept)}`;
}
