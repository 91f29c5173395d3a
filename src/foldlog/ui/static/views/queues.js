// Queues: what waits for workers, who works at what, what begins by itself, and which runs failed.

import { effect, element, html, onEnd, root, signal } from "../core/reactive.js";
import { ago, clip, count, plural } from "../core/format.js";
import { get, post } from "../core/api.js";
import { polled } from "../core/polled.js";
import { dialog, submits, toast } from "./dialog.js";
import { form } from "./forms.js";

const RUNNING = 50; // runs under way that are listed

const since = (time) => (time ? ago(Date.parse(time) / 1000) : "–");
const named = ({ name }) => name;
const runNamed = ({ session_id: session, id }) => `${session} ${id}`;

// A cell that follows its row: its text is replaced only where it differs, so that it can be copied.
const says = (say) => (row) => {
  const node = document.createElement("span");
  effect(() => {
    const text = say(row.value);
    if (node.textContent !== text) node.textContent = text;
  });
  return node;
};

const runLink = ({ value: { session_id: session, id } }) => html`<a class="id" href=${`#/session/${encodeURIComponent(session)}`}>${clip(id, 60)}</a>
  ${session === id ? null : html`<span class="quiet">${clip(session, 40)}</span>`}`;

function statusOf({ paused, waiting, held, unserved }) {
  if (paused) return ["paused", "waiting"];
  if (unserved.length) return [`no worker for ${clip(unserved.join(", "), 60)}`, "failed"];
  return held ? ["running", "running"] : waiting ? ["waiting", "pending"] : ["idle", "open"];
}

const status = (row) => html`<span class="status" data-status=${() => statusOf(row.value)[1]}>${says((queue) => statusOf(queue)[0])(row)}</span>`;

function limits({ at_once: all, per_key: key, rate, seconds }) {
  return [all && `${count(all)} at once`, key && `${count(key)} of a key`, rate && `${count(rate)} in ${seconds} s`].filter(Boolean).join(", ");
}

// What each table shows: a heading, a class ("less" is left out on a phone), and the cell of a row.
const FUNCTION = ["function", "word less", says((each) => clip(each.function, 60))];
const QUEUE = ["queue", "word less", says(({ queue }) => clip(queue, 60))];
const QUEUES = [
  ["queue", "", ({ value }) => html`<b>${clip(value.name, 60)}</b>`], ["status", "", status], ["waiting", "n", says(({ waiting }) => count(waiting))],
  ["oldest", "at less", says(({ oldest }) => since(oldest))], ["running", "n less", says(({ held }) => count(held))], ["failed", "n less", says(({ failed }) => count(failed))],
  ["workers", "n less", says(({ workers }) => count(workers))], ["limits", "less", says(limits)],
];
const WORKERS = [
  ["worker", "", ({ value: { host, pid } }) => html`<b>${clip(host, 60)}</b> <span class="quiet">${pid}</span>`],
  ["runs", "n", says(({ runs, slots }) => (slots ? `${count(runs.length)} of ${count(slots)}` : `${count(runs.length)}, ends`))],
  ["takes from", "less", says(({ queues }) => clip(queues.join(", ") || "all queues", 200))], ["functions", "", says(({ functions }) => clip(functions.join(", "), 400))],
];
const SCHEDULES = [
  ["schedule", "", ({ value }) => html`<b>${clip(value.name, 60)}</b>`], ["cron", "", says(({ cron }) => clip(cron, 60))],
  ["zone", "word less", says(({ zone }) => clip(zone, 60))], FUNCTION, QUEUE,
  ["next", "", says(({ next }) => new Date(next * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }))],
];
const RUNS = [["run", "", runLink], FUNCTION, QUEUE];
const WORKED = [...RUNS, ["worker", "word less", says(({ at }) => clip(at, 60))], ["since", "at", says((run) => since(run.since))]];
const FAILED = [...RUNS, ["error", "", says(({ error }) => clip(error, 400))], ["failed", "at less", says((run) => since(run.since))]];

// Rows that stay while what they show is there: a button keeps its focus.
function rows(items, keyOf, columns) {
  const kept = new Map();
  onEnd(() => kept.forEach(({ end }) => end()));
  return () => {
    const found = new Map(items().map((each) => [keyOf(each), each]));
    for (const [key, { end }] of kept) if (!found.has(key) && kept.delete(key)) end();
    return [...found].map(([key, each]) => {
      if (kept.has(key)) kept.get(key).row.value = each;
      else {
        const row = signal(each);
        const [node, end] = root(() => html`<tr>${columns.map(([, of, cell]) => html`<td class=${of}>${cell(row)}</td>`)}</tr>`.firstElementChild);
        kept.set(key, { row, node, end });
      }
      return kept.get(key).node;
    });
  };
}

function table(title, items, keyOf, columns) {
  return html`<section aria-label=${title} ?hidden=${() => !items().length}>${title === "Queues" ? null : html`<h2>${title}</h2>`}
    <table><thead><tr>${columns.map(([heading, of]) => html`<th scope="col" class=${of}>${heading}</th>`)}</tr></thead><tbody>${rows(items, keyOf, columns)}</tbody></table></section>`;
}

export const queuesView = element("fl-queues", (host) => {
  document.title = "Queues · foldlog";
  const found = signal(null);
  const { error, look } = polled(async () => {
    found.value = await get("queues");
  });
  const all = (name) => () => found.value?.[name] ?? [];
  const worked = () => all("workers")().flatMap(({ host, pid, runs }) => runs.map((run) => ({ ...run, at: `${host} ${pid}` }))).sort((a, b) => Date.parse(a.since) - Date.parse(b.since));
  const act = async (name, asked, said) => {
    await post(name, asked);
    toast(said);
    await look();
  };
  const asking = (label, title, about, buttons, give) => html`<button @click=${() => dialog(title, (close) => submits(html`<p>${about}</p>`, buttons, async (value) => {
    await give(value);
    close();
  }))}>${label}</button>`;
  const turn = ({ paused, name }) => act("queue", { doing: paused ? "resume" : "pause", name }, paused ? "Its runs begin again." : "No run of it begins.");
  const pause = (row) => submits(null, [[() => (row.value.paused ? "Resume" : "Pause"), ""]], () => turn(row.value));
  const again = ({ value: { session_id, id: name } }) => submits(null, [["Send again", ""]],
    () => act("queue", { doing: "send-again", name, session_id }, "It goes on from its first step not done."));
  const remove = ({ value: { name } }) => asking("Remove", "Remove the schedule", `No more runs begin by ${clip(name, 60)}.`, [["Remove", "danger"]],
    () => act("queue", { doing: "unschedule", name }, "The schedule is removed."));
  const cancel = ({ value: { session_id, id: task_id } }) => asking("Cancel", "Cancel the run", `No further step of ${clip(task_id, 60)} begins, nor of the runs that it started.`,
    [["After this step", "danger"], ["At once", "danger", "hard"]],
    (how) => act("steer", { session_id, task_id, event_type: "CANCEL", payload: how ? { hard: true } : {} }, "The run is cancelled."));
  const start = () => dialog("Start a run", (close) => {
    const known = [...new Set(all("workers")().flatMap(({ functions }) => functions))].sort();
    const [id, session_id] = ["Id", "Session"].map((title) => ({ type: "string", title }));
    const name = { title: "Function", ...(known.length ? { enum: known } : { type: "string" }) };
    const properties = { name, arguments: { title: "Arguments by name", description: 'As JSON: {"city": "Oslo"}' }, id, session_id };
    const asked = form({ type: "object", title: "With", properties, required: ["name"] });
    return submits(asked.node, [["Start"]], () => act("queue", { doing: "start", ...asked.value() }, "It waits for a worker.").then(close));
  });
  const acted = (columns, action) => (host.about.read_only ? columns : [...columns, [html`<span class="hidden">action</span>`, "act", action]]);
  return html`<div class="page queues"><h1>Queues</h1>${host.about.read_only ? null : html`<p><button @click=${start}>Start a run</button></p>`}
    ${() => (error.value ? html`<p class="error" role="alert">${error.value}</p>` : null)}
    ${() => {
      if (found.value === null) return error.value ? null : html`<p class="empty" role="status">Loading…</p>`;
      if (Object.values(found.value).some((each) => each.length)) return null;
      return html`<div class="empty"><p>Nothing waits for a worker, and nobody works.</p><p class="quiet">To begin: <code>foldlog worker your_module</code></p></div>`;
    }}
    ${table("Queues", all("queues"), named, acted(QUEUES, pause))}
    ${table("Workers", all("workers"), ({ process }) => process, WORKERS)}
    ${table("Schedules", all("schedules"), named, acted(SCHEDULES, remove))}
    ${table("Running", () => worked().slice(0, RUNNING), runNamed, acted(WORKED, cancel))}
    ${() => (worked().length > RUNNING ? html`<p class="quiet">and ${plural(worked().length - RUNNING, "more run")}</p>` : null)}
    ${table("Failed", all("failed"), runNamed, acted(FAILED, again))}</div>`;
});
