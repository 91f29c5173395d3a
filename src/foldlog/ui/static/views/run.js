// A session or a trace: conversation and timeline, the state beside them, the scrubber below.

import { computed, effect, element, html, onEnd, signal } from "../core/reactive.js";
import { clip, count, duration, money, plural } from "../core/format.js";
import { address, get } from "../core/api.js";
import { compareAddress } from "./compare.js";
import { conversationView } from "./conversation.js";
import { dialog, submits } from "./dialog.js";
import { form } from "./forms.js";
import { scrubber } from "./scrubber.js";
import { stateView, viewsOf, waitingIn } from "./state.js";
import { feedbackDialog, forkDialog, steerDialog } from "./steer.js";
import { timeline } from "./timeline.js";
import { waterfall } from "./waterfall.js";

const TABS = { conversation: "Story", waterfall: "Waterfall", timeline: "Timeline", state: "State" };
const VIEWS = { timeline, waterfall };

export const runView = element("fl-run", (host) => {
  const { run, about } = host;
  const tab = signal(host.tab in TABS ? host.tab : "conversation");
  const origin = signal(null);
  const title = signal("");
  const bar = scrubber({ run });
  document.title = `${clip(run.id, 60)} · foldlog`;
  if (about) {
    get("session", { session: run.id }).then((found) => ([origin.value, title.value] = [found.origin, found.session.title]), () => null);
    onEnd(() => run.end());
  }
  effect(() => keepAddress(run, tab.value, about));
  listen(bar, run, tab);

  const status = computed(() => statusOf(run));
  const actions = !about || about.read_only || run.kind !== "session" ? null : html`
    <button @click=${() => steerDialog(run)}>Steer</button>
    <button @click=${() => forkDialog(run)}>Fork</button>
    <button @click=${() => feedbackDialog(run, tracesOf(run))} ?hidden=${() => !tracesOf(run).length}>Feedback</button>`;
  return html`<header class="head">
      <div class="names"><h1 title=${run.id}>${clip(run.id, 90)}</h1>
        ${() => (title.value && title.value !== run.id ? html`<span class="quiet" dir="auto">${clip(title.value, 90)}</span>` : null)}
        ${() => (status.value ? html`<span class="status" data-status=${status.value}>${status.value.toLowerCase()}</span>` : null)}
        ${() => waitBadge(run)}
        ${() => (origin.value ? html`<span class="quiet">forked from <a href=${`#/session/${encodeURIComponent(origin.value.session)}?at=${encodeURIComponent(origin.value.position)}`}>${clip(origin.value.session, 40)}</a></span>` : null)}
      </div>
      <div class="totals">${() => totals(run)}</div>
      <div class="buttons">${actions}
        ${about && run.kind === "session" ? html`<button @click=${() => compareDialog(run)}>Compare</button>` : null}
        ${about ? html`<button @click=${() => shareDialog(run)}>Share</button>` : null}</div>
    </header>
    ${() => problem(run)}
    <div class="tabs" role="tablist" aria-label="Views">${Object.entries(TABS).map(([name, title]) => html`<button role="tab" id=${`tab-${name}`} data-tab=${name}
      aria-selected=${() => String(tab.value === name)} aria-controls=${`panel-${name === "state" ? "state" : "main"}`} tabindex=${() => (tab.value === name ? "0" : "-1")}
      @click=${() => (tab.value = name)} @keydown=${(event) => turn(event, tab)}>${title}</button>`)}</div>
    <div class="columns" data-tab=${() => tab.value}>
      <div class="main" id="panel-main" role="tabpanel" aria-labelledby=${() => `tab-${tab.value === "state" ? "conversation" : tab.value}`}>
        ${() => (VIEWS[tab.value] ?? conversationView)({ run })}</div>
      <aside class="side" id="panel-state" aria-label="State at the moment that is shown">${stateView({ run })}</aside>
    </div>
    ${bar}`;
});

function turn(event, tab) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  const names = Object.keys(TABS);
  tab.value = names[(names.indexOf(tab.value) + by + names.length) % names.length];
  event.currentTarget.parentNode.querySelector(`[data-tab=${tab.value}]`).focus();
  event.stopPropagation();
  event.preventDefault();
}

function keepAddress(run, tab, about) {
  if (!about) return;
  const at = run.isNow.value ? "" : run.current.value?.position ?? "";
  const query = new URLSearchParams(Object.entries({ at, tab: tab === "conversation" ? "" : tab }).filter(([, v]) => v));
  const next = `#/${run.kind}/${encodeURIComponent(run.id)}${query.size ? `?${query}` : ""}`;
  if (location.hash !== next && run.state.value !== "loading") history.replaceState(null, "", next);
}

// Keys that work wherever no field is being filled in.
function listen(bar, run, tab) {
  const act = (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.("input, textarea, select, dialog")) return;
    const keys = {
      ArrowLeft: () => bar.step(-1), ArrowRight: () => bar.step(1), j: () => bar.step(1), k: () => bar.step(-1),
      Home: () => run.show(0), End: () => run.now(), l: () => (run.isNow.value ? run.show(run.count.value) : run.now()),
      " ": () => bar.play(),
    };
    Object.keys(TABS).forEach((name, at) => (keys[at + 1] = () => (tab.value = name)));
    if (!Object.hasOwn(keys, event.key) || (event.key === " " && event.target.closest?.("button, summary, a"))) return;
    event.preventDefault();
    keys[event.key]();
  };
  document.addEventListener("keydown", act);
  onEnd(() => document.removeEventListener("keydown", act));
}

const tasksOf = (run) => viewsOf(run.states.value, "tasks").flatMap(({ state }) => state.values());
const tracesOf = (run) => [...new Set([...viewsOf(run.states.value, "traces").flatMap(({ state }) => state.keys()), ...tasksOf(run).map((task) => task.trace_id).filter(Boolean)])];

function statusOf(run) {
  const statuses = new Set(tasksOf(run).map((task) => task.status));
  return ["PAUSED", "RUNNING", "FAILED", "PENDING", "CANCELLED", "COMPLETE"].find((each) => statuses.has(each)) ?? null;
}

function waitBadge(run) {
  const waiting = waitingIn(run.states.value).length;
  return waiting ? html`<a class="tag" data-group="steering" href="#/waiting">${waiting} waiting</a>` : null;
}

function totals(run) {
  run.log.count.value;
  const { tokens, cost, latency, calls, errors } = run.log.totals;
  const part = (name, value) => html`<span><b>${value}</b> ${name}</span>`;
  return html`${part(run.log.count.value === 1 ? "record" : "records", count(run.log.count.value))}${calls ? part("tool calls", count(calls)) : null}
    ${tokens ? part("tokens", count(tokens)) : null}${cost ? part("", money(cost)) : null}
    ${latency ? part("in steps", duration(latency)) : null}${errors ? html`<span class="error"><b>${count(errors)}</b> ${errors === 1 ? "error" : "errors"}</span>` : null}`;
}

function problem(run) {
  const state = run.state.value;
  if (run.error.value) return html`<p class="error" role="alert">${run.error.value.message}</p>`;
  if (state === "loading") return html`<p class="loading" role="status">Loading… ${plural(run.log.count.value, "record")}</p>`;
  if (!run.log.count.value) return html`<p class="empty">Nothing is on record under this id.${state === "live" ? " It will appear here as it happens." : ""}</p>`;
  return null;
}

function shareDialog(run) {
  const position = run.current.value?.position;
  dialog("Share", (close) => {
    const parts = ["all of it, up to now", ...(run.isNow.value ? [] : ["up to the moment that is shown", "from the moment that is shown on"])];
    const part = form({ enum: parts, title: "What" });
    const about = html`<p>One HTML file with the run, that works offline and scrubs as this page does. Everyone who has it can read all that is in it.</p>`;
    return submits(html`${about}${part.node}`, [["Save as a file"]], async () => {
      const place = parts.indexOf(part.value());
      const bounds = [{}, { until: position }, { after: position }][place];
      const link = html`<a download="">save</a>`.firstElementChild;
      link.href = address("share", { ...run.query, ...bounds });
      link.click();
      close();
    });
  });
}

async function compareDialog(run) {
  const { sessions } = await get("sessions", { limit: 500 });
  const titles = new Map(sessions.map(({ id, title }) => [title && title !== id ? `${id} · ${clip(title, 60)}` : id, id]));
  const here = { id: run.id, at: run.isNow.value ? null : run.current.value?.position };
  dialog("Compare", (close) => {
    const other = form({ enum: [...titles.keys()], title: "With this session, as it is now" });
    const about = html`<p class="quiet">${here.at ? "This moment" : "This session"} is on the left side. Both sides have a slider.</p>`;
    return submits(html`${about}${other.node}`, [["Compare"]], async () => {
      close();
      location.hash = compareAddress(here, { id: titles.get(other.value()), at: null });
    });
  });
}
