// What everything was at the moment that is shown, and what the event before it changed.

import { computed, element, html } from "../core/reactive.js";
import { clip, clock, count, moment, plural, visible } from "../core/format.js";
import { get } from "../core/api.js";
import { foldOf } from "../folds/registry.js";
import { Items } from "../folds/items.js";
import { artifact, content } from "../render/content.js";
import { changes } from "../render/diff.js";
import { json } from "../render/json.js";
import { plain } from "../render/plain.js";
import { parentOf } from "./labels.js";

// Views of some kinds, as [keys, state].
export function viewsOf(states, ...kinds) {
  const found = [];
  for (const [name, state] of states) {
    const [kind, ...keys] = JSON.parse(name);
    if (kinds.includes(kind)) found.push({ kind, keys, state, name });
  }
  return found;
}

export const stateView = element("fl-state", (host) => {
  const { run } = host;
  const states = run.states;
  const changed = computed(() => run.current.value?.view[0]);
  const shown = new Set();
  const pane = (title, kinds, body) => {
    for (const kind of kinds) shown.add(kind);
    const found = computed(() => body(states.value));
    return html`${() => {
      const { size, nodes } = found.value;
      if (!size) return null;
      const isNew = kinds.includes(changed.value) && !run.isNow.value;
      const details = html`<details class="pane" data-changed=${isNew ? "" : null}><summary>
        <h3>${title}</h3><span class="n">${count(size)}</span></summary></details>`.firstElementChild;
      const fill = () => details.open && details.childElementCount === 1 && details.append(nodes());
      details.open = opened.get(title) ?? OPEN.has(title);
      details.addEventListener("toggle", () => {
        opened.set(title, details.open);
        fill();
      });
      fill();
      return details;
    }}`;
  };
  return html`<section class="now" aria-label="This event">${() => thisEvent(run)}</section>
    <section class="panes" aria-label="State at this moment">
      ${pane("Waiting", ["session", "tasks", "pauses", "runs"], waitingPane)}
      ${pane("Tasks", ["tasks"], (all) => tasksPane(all, run))}
      ${pane("Agent tasks", ["a2atasks"], (all) => each(all, ["a2atasks"], (v) => v.keys[1], (v) => v.state.body ?? undefined))}
      ${pane("Context", ["session"], contextPane)}
      ${pane("Memory", ["memory"], (all) => each(all, ["memory"], (v) => v.keys[0], (v) => v.state?.state))}
      ${pane("Scoped keys", ["scoped"], (all) => each(all, ["scoped"], (v) => v.keys[1], (v) => v.state?.value))}
      ${pane("Agent state", ["agentstates"], agentPane)}
      ${pane("Artifacts", ["artifacts"], (all) => artifactPane(all, run))}
      ${pane("Checkpoints", ["checkpoints"], checkpointPane)}
      ${pane("Trajectories", ["trajectory"], (all) => each(all, ["trajectory"], (v) => v.keys[1], (v) => v.state?.trajectory))}
      ${pane("Everything else", [], (all) => otherPane(all, run, shown))}
    </section>`;
});

const OPEN = new Set(["Waiting", "Tasks", "Context", "Memory"]);
const TOLD = new Set(["lists", "messages", "updates", "planner", "events", "steering", "steps", "tasks", "feedback"]); // groups of records
const opened = new Map(); // panes stay as the reader left them

const entry = (name, value, open = 1) => html`<div class="entry"><div class="name">${clip(String(name), 90)}</div>${content(value ?? null, { open })}</div>`;

function each(all, kinds, nameOf, valueOf) {
  const found = viewsOf(all, ...kinds).filter((view) => valueOf(view) !== undefined);
  return { size: found.length, nodes: () => html`${found.map((view) => entry(nameOf(view), valueOf(view)))}` };
}

const STATUS = (status) => html`<span class="status" data-status=${status}>${status.toLowerCase()}</span>`;

function tasksPane(all) {
  const found = viewsOf(all, "tasks").flatMap(({ state }) => state.values());
  const byId = new Map(found.map((task) => [task.task_id, task]));
  const depth = (task, seen = 0) => {
    const parent = byId.get(parentOf(task));
    return parent && seen < 20 ? 1 + depth(parent, seen + 1) : 0;
  };
  return { size: found.length, nodes: () => html`${found.slice(0, 500).map((task) => html`<details class="task" css=${{ "--depth": depth(task) }}>
    <summary>${STATUS(task.status)}<span class="name">${clip(task.task_id, 60)}</span>
      <span class="quiet">${clip(task.description ?? task.context_snapshot?.query ?? "", 90)}</span></summary>
    ${task.error ? html`<p class="error">${visible(task.error)}</p>` : null}
    ${task.progress !== null && task.progress !== undefined ? entry("progress", task.progress) : null}
    ${task.result !== null && task.result !== undefined ? entry("result", task.result) : null}
    ${entry("context when it was spawned", task.context_snapshot, 0)}
    <p class="quiet">${task.task_type?.toLowerCase()}, priority ${task.priority}, ${task.updated_at}</p>
  </details>`)}` };
}

// What waits for a person at this moment.
export function waitingIn(all) {
  const found = [];
  const isAsking = ({ state }) => state.steps.values().some(({ phase }) => phase === "asked" || phase === "doubted");
  const parked = new Set(viewsOf(all, "runs").filter(isAsking).map(({ keys }) => keys[1])); // by their questions
  for (const { kind, keys, state } of viewsOf(all, "session", "tasks", "pauses", "runs")) {
    if (kind === "session") for (const each of state.pending.values()) found.push({ what: "patch", name: each.patch_id, asked: each.patch });
    if (kind === "tasks") {
      for (const task of state.values()) if (task.status === "PAUSED" && !parked.has(task.task_id)) found.push({ what: "task", name: task.task_id, asked: task.description ?? task.context_snapshot?.query });
    }
    if (kind === "pauses" && state.waiting) found.push({ what: "pause", name: keys[0], asked: state.waiting.payload });
    if (kind === "runs") {
      for (const each of state.steps.values()) {
        if (each.phase === "asked") found.push({ what: "question", name: each.step, asked: each.question });
        if (each.phase === "doubted") found.push({ what: "step", name: each.step, asked: each.arguments });
      }
    }
  }
  return found;
}

function waitingPane(all) {
  const found = waitingIn(all);
  return { size: found.length, nodes: () => html`${found.map(({ what, name, asked }) => html`<div class="entry"><div class="name"><span class="tag" data-group="steering">${what}</span> ${clip(name, 80)}</div>${content(asked ?? "", { open: 1 })}</div>`)}` };
}

function contextPane(all) {
  const [view] = viewsOf(all, "session");
  if (!view || (!view.state.context && !view.state.groups.size)) return { size: 0 };
  const { context, version, groups, decided } = view.state;
  return { size: version || groups.size, nodes: () => html`${Object.entries(context ?? {}).filter(([, v]) => v && Object.keys(v).length).map(([name, value]) => entry(name, value))}
    ${groups.size ? entry("groups", plain(groups)) : null}${decided.size ? entry("patches decided", plain(decided), 0) : null}` };
}

function agentPane(all) {
  const found = viewsOf(all, "agentstates").flatMap(({ keys, state }) => [...state.entries].map(([name, value]) => [`${keys.join(" ")} · ${name}`, value.value]));
  return { size: found.length, nodes: () => html`${found.map(([name, value]) => entry(name, value))}` };
}

function artifactPane(all, run) {
  const found = viewsOf(all, "artifacts").flatMap(({ state }) => state.values());
  return { size: found.length, nodes: () => html`${found.map(({ saved }) => artifact(run, saved))}` };
}

function checkpointPane(all) {
  const found = viewsOf(all, "checkpoints").flatMap(({ state }) => [...state]);
  return { size: found.length, nodes: () => html`${found.slice(-50).map(([name, each]) => html`<div class="entry"><div class="name">${clip(name, 60)} <span class="quiet">${clock(each.at)}</span></div>${json({ changed: Object.keys(each.values ?? {}), parent: each.parent, metadata: each.metadata, writes: each.writes }, { open: 0 })}</div>`)}` };
}

// What no pane above shows, lists and what the timeline shows as it is left out.
function otherPane(all, { log }, shown) {
  const views = new Map(log.records.map(({ name, view, line }) => [name, { view, isTold: TOLD.has(line.group) }]));
  const found = [...all].map(([name, state]) => ({ ...views.get(name), state })).filter(({ view, isTold }) => !isTold && !shown.has(view[0]));
  return { size: found.length, nodes: () => html`${found.map(({ view, state }) => entry(view.join(" "), state instanceof Items ? plain(state).slice(-20) : plain(state), 0))}` };
}

function thisEvent(run) {
  const envelope = run.current.value;
  if (!envelope) return html`<p class="quiet">Before the first record.</p>`;
  const { group, what: title, text } = envelope.line;
  const before = run.log.statesAt(run.count.value - 1).get(envelope.name) ?? foldOf(envelope.view[0]).initial();
  const after = run.states.value.get(envelope.name);
  return html`<header><i class="dot" data-group=${group}></i><h2>${clip(title, 80)}</h2>
      <time class="quiet">${moment(envelope.recorded_at)}</time></header>
    <p class="quiet position">${envelope.type} in ${clip(envelope.view.join(" "), 80)} at <code>${envelope.position.split("~")[0]}</code></p>
    ${text ? html`<p class="gist" dir="auto">${clip(text, 300)}</p>` : null}
    <details class="raw"><summary>The record</summary>${json(envelope.record, { open: 2 })}</details>
    ${envelope.cut && run.pictures === null ? whole(envelope) : null}
    <details class="diff" open><summary>What it changed</summary>${what(before, after, envelope)}</details>`;
}

function what(before, after, envelope) {
  if (envelope.overtaken) return html`<p class="quiet">Nothing: its writer had saved a newer one.</p>`;
  if (after instanceof Items) return html`<p class="quiet">One more of ${plural(after.length, "record")} in ${clip(envelope.view.join(" "), 60)}.</p>`;
  return changes(before, after);
}

function whole({ view, id, position }) {
  const button = html`<button class="link">Load the whole record</button>`.firstElementChild;
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const found = await get("record", { view: view.join("\n"), id, position });
      button.replaceWith(json(found.record, { open: 1 }));
    } catch (error) {
      button.replaceWith(String(error.message));
    }
  });
  return button;
}
