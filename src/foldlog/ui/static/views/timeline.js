// Everything that was recorded: in log order, or nested by task. A row shows the moment after it.

import { computed, effect, element, html, signal } from "../core/reactive.js";
import { clip, clock, count, duration, money } from "../core/format.js";
import { virtualList } from "../core/virtual.js";
import { costs, groupOf, headed, parentOf, taskOf } from "./labels.js";

export const timeline = element("fl-timeline", (host) => {
  const { run } = host;
  const hidden = signal(new Set());
  const nested = signal(false);
  const closed = signal(new Set());
  const search = signal("");

  const groups = computed(() => {
    run.log.version.value;
    return Map.groupBy(run.log.records.slice(0, run.log.count.value), groupOf);
  });
  const depths = computed(() => depthsOf(run));
  const rows = computed(() => {
    run.log.version.value;
    const total = run.log.count.value;
    const { records } = run.log;
    const without = hidden.value;
    const text = search.value.toLowerCase();
    const chosen = [];
    for (let place = 0; place < total; place++) {
      const envelope = records[place];
      envelope.count = place + 1;
      if (without.has(groupOf(envelope))) continue;
      if (text && !matches(envelope, text)) continue;
      chosen.push(envelope);
    }
    return nested.value ? nestedRows(chosen, depths.value, closed.value) : chosen;
  });

  const list = virtualList({
    label: "Timeline",
    guess: 30,
    items: () => rows.value,
    tail: () => run.isNow.value,
    render: (each) => (each.header ? header(each, closed) : row(run, each, depths.value, nested.value)),
  });
  effect(() => {
    const current = run.current.value;
    if (run.isNow.value || !current) return;
    const place = rows.value.indexOf(current);
    if (place >= 0) requestAnimationFrame(() => list.isConnected && list.reveal?.(place));
  });

  return html`<div class="bar filters">
      <input type="search" class="find" placeholder="Find in records" aria-label="Find in records"
        @input=${(event) => (search.value = event.target.value)}>
      <div class="chips" role="group" aria-label="Which records">
        ${() => [...groups.value].map(([group, { length }]) => html`<button class="chip" data-group=${group}
          aria-pressed=${() => String(!hidden.value.has(group))}
          @click=${() => (hidden.value = toggled(hidden.value, group))}>
          <i class="dot" data-group=${group}></i>${headed(group)} <span class="n">${count(length)}</span></button>`)}
      </div>
      <button class="chip" aria-pressed=${() => String(nested.value)} @click=${() => (nested.value = !nested.value)}>Nested by task</button>
    </div>
    ${() => (rows.value.length ? null : html`<p class="empty">${search.value ? "Nothing matches." : "Nothing is recorded yet."}</p>`)}
    ${list}`;
});

function toggled(set, value) {
  const made = new Set(set);
  if (!made.delete(value)) made.add(value);
  return made;
}

function matches(envelope, text) {
  envelope.searched ??= JSON.stringify(envelope.record).toLowerCase();
  return envelope.searched.includes(text) || envelope.type.includes(text);
}

// How deep each task is nested, by its id, and where it hangs.
function depthsOf(run) {
  const parents = new Map();
  run.log.count.value;
  for (const [name, state] of run.states.value) {
    if (!name.startsWith('["tasks"')) continue;
    for (const [id, task] of state) parents.set(id, parentOf(task));
  }
  const depths = new Map();
  for (const id of parents.keys()) {
    const path = new Set([id]);
    for (let at = parents.get(id); parents.has(at) && !path.has(at); at = parents.get(at)) path.add(at);
    depths.set(id, { depth: path.size - 1, parent: parents.get(id), id });
  }
  return depths;
}

// Rows with a heading for each task, and below it its records and the tasks it spawned.
function nestedRows(chosen, depths, closed) {
  const known = (id) => (depths.has(id) ? id : null);
  const own = Map.groupBy(chosen, (envelope) => known(taskOf(envelope)));
  const children = Map.groupBy(depths.values(), ({ parent }) => known(parent));
  const rows = [];
  const add = (id, depth) => {
    const mine = own.get(id) ?? [];
    rows.push({ header: id, name: "task", id, depth, size: mine.length, isClosed: closed.has(id) });
    if (closed.has(id)) return;
    rows.push(...mine);
    for (const child of children.get(id) ?? []) add(child.id, depth + 1);
  };
  for (const { id } of children.get(null) ?? []) add(id, 0);
  const without = own.get(null) ?? [];
  return without.length ? [...rows, { header: "\u0000", name: "rest", id: "", depth: 0, size: without.length }, ...without] : rows;
}

function header(each, closed) {
  const title = each.header === "\u0000" ? "of no task" : each.header;
  return html`<div class="lane" css=${{ "--depth": each.depth }}>
    <button class="fold" aria-expanded=${String(!each.isClosed)}
      @click=${() => (closed.value = toggled(closed.value, each.header))}>${clip(title, 80)}</button>
    <span class="quiet">${count(each.size)}</span>
  </div>`.firstElementChild;
}

function row(run, envelope, depths, isNested) {
  const { group, what, text, tone } = envelope.line;
  const spent = costs(envelope);
  const depth = (depths.get(taskOf(envelope))?.depth ?? 0) + (isNested ? 1 : 0);
  return html`<button class="event" data-group=${group} data-tone=${tone.toUpperCase() || null} css=${{ "--depth": depth }}
      aria-current=${() => (!run.isNow.value && run.current.value === envelope ? "true" : null)}
      data-future=${() => (envelope.count > run.count.value ? "" : null)}
      @click=${() => run.show(envelope.count)}>
    <time>${clock(envelope.recorded_at)}</time>
    <i class="dot" data-group=${group}></i>
    <span class="title">${clip(what, 60)}</span>
    <span class="said" dir="auto">${clip(text, 200)}</span>
    <span class="spent">${spent.tokens ? html`<span>${count(spent.tokens)} tok</span>` : null}
      ${spent.cost ? html`<span>${money(spent.cost)}</span>` : null}
      ${spent.latency ? html`<span>${duration(spent.latency)}</span>` : null}</span>
  </button>`.firstElementChild;
}
