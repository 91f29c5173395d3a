// Sessions: who runs, waits, failed, finished, and what was last heard of each.

import { computed, effect, element, html, onEnd, signal } from "../core/reactive.js";
import { ago, clip, count, moment } from "../core/format.js";
import { get } from "../core/api.js";

const PAGE = 50;
const EVERY = 2000; // milliseconds between looks
const STATUSES = ["waiting", "running", "failed", "pending", "cancelled", "finished", "open"];

export const sessionsView = element("fl-sessions", (host) => {
  document.title = "Sessions · foldlog";
  const given = new URLSearchParams(host.query ?? "");
  const text = signal(given.get("text") ?? "");
  const status = signal(given.get("status") ?? "");
  const offset = signal(0);
  const page = signal(null);
  const error = signal(null);
  let looking = null;
  let timer = 0;
  const look = async () => {
    looking?.abort();
    looking = new AbortController();
    clearTimeout(timer);
    const asked = { text: text.value, status: status.value, offset: offset.value, limit: PAGE };
    try {
      page.value = await get("sessions", asked, looking.signal);
      error.value = null;
      timer = setTimeout(look, page.value.complete ? EVERY : 50);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      error.value = problem;
      timer = setTimeout(look, EVERY);
    }
  };
  effect(() => {
    look();
    const query = new URLSearchParams(Object.entries({ text: text.value, status: status.value }).filter(([, v]) => v));
    history.replaceState(null, "", `#/${query.size ? `?${query}` : ""}`);
  });
  onEnd(() => {
    looking?.abort();
    clearTimeout(timer);
  });
  const total = computed(() => page.value?.total ?? 0);
  const search = (event) => {
    [offset.value, text.value] = [0, event.target.value];
  };
  return html`<div class="page"><div class="bar"><h1>Sessions</h1>
      <input type="search" id="find" placeholder="Find by id or text ( / )" aria-label="Find sessions by id or text" .value=${text.value} @input=${search}></div>
    <div class="chips" role="group" aria-label="By status">${() => STATUSES.filter((each) => page.value?.statuses[each] || status.value === each).map((each) => html`<button class="chip" data-status=${each}
      aria-pressed=${String(status.value === each)} @click=${() => {
        offset.value = 0;
        status.value = status.value === each ? "" : each;
      }}><i class="dot" data-status=${each}></i>${each} <span class="n">${count(page.value?.statuses[each] ?? 0)}</span></button>`)}</div>
    ${() => (error.value ? html`<p class="error" role="alert">${error.value.message}</p>` : null)}
    ${() => (error.value && !page.value ? null : table(page.value, text.value || status.value))}
    ${() => (total.value > PAGE ? pages(offset, total.value) : null)}
    ${() => (page.value && !page.value.complete ? html`<p class="quiet" role="status">Still looking through sessions…</p>` : null)}
  </div>`;
});

function table(page, isFiltered) {
  if (page === null) return html`<p class="empty" role="status">Loading…</p>`;
  if (!page.sessions.length && !isFiltered) {
    return html`<div class="empty"><p>No session yet.</p><p class="quiet">What your agents save appears here. To look around: <code>foldlog demo --ui</code></p></div>`;
  }
  if (!page.sessions.length) return html`<p class="empty">No session matches.</p>`;
  return html`<ul class="sessions">${page.sessions.map(row)}</ul>`;
}

function row(each) {
  return html`<li><a href=${`#/session/${encodeURIComponent(each.id)}`}>
    <span class="status" data-status=${each.status}>${each.status}</span>
    <span class="id">${clip(each.id, 80)}</span>
    <span class="title" dir="auto">${clip(each.title || each.last, 160)}</span>
    <span class="last quiet" dir="auto">${each.last === each.title ? "" : clip(each.last, 120)}</span>
    <span class="size quiet">${count(each.records)}</span>
    <time class="quiet" title=${moment(each.last_activity)}>${ago(each.last_activity)}</time></a></li>`;
}

function pages(offset, total) {
  const from = offset.value;
  return html`<nav class="pages" aria-label="Pages"><button ?disabled=${from === 0} @click=${() => (offset.value = Math.max(from - PAGE, 0))}>Newer</button>
    <span class="quiet">${count(from + 1)} to ${count(Math.min(from + PAGE, total))} of ${count(total)}</span>
    <button ?disabled=${from + PAGE >= total} @click=${() => (offset.value = from + PAGE)}>Older</button></nav>`;
}
