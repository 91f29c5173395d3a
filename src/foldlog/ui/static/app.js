// The page: which view an address shows, and the frame around it. In a shared file there is one
// view and no server.

import { element, html, signal } from "./core/reactive.js";
import { get } from "./core/api.js";
import { Run } from "./core/run.js";
import { clip, moment } from "./core/format.js";
import { compareView } from "./views/compare.js";
import { dialog } from "./views/dialog.js";
import { queuesView } from "./views/queues.js";
import { runView } from "./views/run.js";
import { sessionsView } from "./views/sessions.js";
import { waitingView } from "./views/waiting.js";

const KEYS = [
  ["/", "find"], ["g s", "sessions"], ["g w", "what waits"], ["g q", "queues"], ["← →  or  k j", "one record back or on"],
  ["space", "play or stop"], ["home, end", "the beginning, now"], ["l", "follow, or stop following"],
  ["1 2 3 4", "story, waterfall, timeline, state"], ["?", "these keys"],
];

const waiting = signal(0);
const place = signal("");

// Returns what turns light into dark and back, and keeps it for the next visit.
function theme() {
  const root = document.documentElement;
  let kept = {};
  try {
    kept = localStorage;
  } catch {} // a page that may keep nothing forgets it
  if (kept.theme) root.dataset.theme = kept.theme;
  return () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    kept.theme = root.dataset.theme = dark ? "light" : "dark";
  };
}

function show(about) {
  const [path, query = ""] = location.hash.slice(1).split("?");
  const [, name = "", id = ""] = path.split("/");
  const given = new URLSearchParams(query);
  place.value = name;
  if (name === "session" || name === "trace") {
    const run = new Run(name, decodeURIComponent(id));
    run.open({ at: given.get("at") });
    return runView({ run, about, tab: given.get("tab") });
  }
  if (name === "waiting") return waitingView({ about });
  if (name === "queues") return queuesView({ about });
  if (name === "compare") {
    const side = (which) => ({ id: given.get(which), at: given.get(`at_${which}`) });
    return compareView({ a: side("a"), b: side("b") });
  }
  return sessionsView({ query });
}

const frame = element("fl-app", (host) => {
  const { about, shared } = host;
  const turn = theme();
  const link = (name, address, title) => html`<a href=${address} aria-current=${() => (place.value === name ? "page" : null)}>${title}</a>`;
  const main = document.createElement("main");
  main.id = "main";
  main.tabIndex = -1;
  if (shared) main.replaceChildren(runView({ run: Run.shared(shared), about: null }));
  else {
    const route = () => main.replaceChildren(show(about));
    addEventListener("hashchange", route);
    route();
    watchInbox();
  }
  return html`<a class="skip" href="#main" @click=${(event) => {
      event.preventDefault();
      main.focus();
    }}>To the content</a>
    <nav class="top" aria-label="Main"><a class="logo" href=${shared ? null : "#/"}><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M4 5h16M4 10h11M4 15h16M4 20h7"/></svg>foldlog</a>
      ${shared ? html`<span class="quiet">saved ${moment(Date.parse(shared.made_at) / 1000)}</span>` : html`${link("", "#/", "Sessions")}
        ${link("waiting", "#/waiting", html`Waiting${() => (waiting.value ? html`<span class="badge">${waiting.value}</span>` : null)}`)}
        ${link("queues", "#/queues", "Queues")}`}
      <span class="space"></span>
      ${about ? html`<span class="quiet user" title=${`namespace ${about.namespace}`}>${clip(about.user, 30)}${about.read_only ? " · read-only" : ""}</span>` : null}
      <button class="icon" title="Keys (?)" aria-label="Keys" @click=${keys}>?</button>
      <button class="icon" title="Light or dark" aria-label="Light or dark" @click=${turn}>◐</button></nav>
    ${main}<div id="toasts" role="status"></div>`;
});

function keys() {
  dialog("Keys", () => html`<dl class="keys">${KEYS.map(([key, what]) => html`<dt><kbd>${key}</kbd></dt><dd>${what}</dd>`)}</dl>`);
}

async function watchInbox() {
  try {
    waiting.value = (await get("waiting", { limit: 100 })).waiting.length;
  } catch {
    // the view that is shown says what is wrong
  }
  setTimeout(watchInbox, 4000);
}

function listen() {
  let went = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, textarea, select, dialog")) return;
    const to = went && { s: "#/", w: "#/waiting", q: "#/queues" }[event.key];
    went = event.key === "g";
    if (to) location.hash = to;
    else if (event.key === "?") keys();
    else if (event.key === "/") {
      const field = document.querySelector("input[type=search]");
      if (!field) return;
      event.preventDefault();
      field.focus();
    }
  });
}

async function start() {
  listen();
  const embedded = document.getElementById("shared");
  if (embedded) {
    document.body.prepend(frame({ about: null, shared: JSON.parse(embedded.textContent) }));
    return;
  }
  try {
    document.body.prepend(frame({ about: await get("about") }));
  } catch (error) {
    const message = document.createElement("p");
    message.className = "error fatal";
    message.setAttribute("role", "alert");
    message.textContent = error.message;
    document.body.prepend(message);
  }
}

start();
