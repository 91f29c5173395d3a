// Everything that was recorded, in log order. A row shows the moment after it.

import { computed, effect, element, html, signal } from "../core/reactive.js";
import { clip, clock, count, duration, money } from "../core/format.js";
import { virtualList } from "../core/virtual.js";
import { costs, groupOf, headed } from "./labels.js";

export const timeline = element("fl-timeline", (host) => {
  const { run } = host;
  const hidden = signal(new Set());
  const search = signal("");

  const groups = computed(() => {
    run.log.version.value;
    return Map.groupBy(run.log.records.slice(0, run.log.count.value), groupOf);
  });
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
    return chosen;
  });

  const list = virtualList({
    label: "Timeline",
    guess: 30,
    items: () => rows.value,
    tail: () => run.isNow.value,
    render: (each) => row(run, each),
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

function row(run, envelope) {
  const { group, what, text, tone } = envelope.line;
  const spent = costs(envelope);
  return html`<button class="event" data-group=${group} data-tone=${tone.toUpperCase() || null}
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
