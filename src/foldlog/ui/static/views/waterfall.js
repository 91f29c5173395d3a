// Steps, calls of models and of tools, nested and by time: of runs, and of traces of OpenTelemetry.

import { computed, element, html } from "../core/reactive.js";
import { clip, clock, count, duration, money, visible } from "../core/format.js";
import { virtualList } from "../core/virtual.js";
import { content } from "../render/content.js";
import { viewsOf } from "./state.js";

const KINDS = { chat: "model", text_completion: "model", generate_content: "model", embeddings: "model", execute_tool: "tool", invoke_agent: "agent" };
const STATES = { started: "running", asked: "waiting", doubted: "waiting", RUNNING: "running", PAUSED: "waiting", PENDING: "pending", FAILED: "failed", CANCELLED: "cancelled", COMPLETE: "done" };
const open = new Set(); // what the reader has opened stays so

function ofRun({ name, keys, state }, tasks) {
  const steps = state.steps.values().map((step) => ({
    source: step, id: step.step, parent: step.parent || "", name: step.step, kind: step.kind, start: step.ts, seconds: step.seconds,
    status: STATES[step.phase] ?? step.phase, tokens: (step.input_tokens ?? 0) + (step.output_tokens ?? 0), cost: step.cost_usd ?? 0,
    input: step.question ?? step.arguments, output: step.result, more: step.by ? `answered by ${step.by}` : step.attempt > 1 ? `attempt ${step.attempt}` : "",
    error: step.phase === "failed" || step.error ? [step.error, step.message].filter(Boolean).join(": ") : "",
  }));
  const task = tasks.find(({ task_id: id }) => id === keys[1]);
  const start = Math.min(...steps.map((each) => each.start), Date.parse(task?.created_at) / 1000 || Infinity);
  const sum = (field) => steps.reduce((total, each) => total + each[field], 0);
  const root = { source: state, id: "", parent: null, name: keys[1], kind: "run", start, status: STATES[task?.status] ?? "running", tokens: sum("tokens"), cost: sum("cost"),
    input: task?.description, output: task?.result, error: task?.error ?? "" };
  const end = Date.parse(task?.updated_at) / 1000;
  if (/done|failed|cancelled/.test(root.status)) root.seconds = Math.max(end, ...steps.map((each) => each.start + (each.seconds ?? 0))) - start;
  return { name, spans: Number.isFinite(start) ? [root, ...steps] : [] };
}

function ofTrace({ name, state }) {
  const spans = [...state].filter(({ record }) => record.payload?.mapping).map((envelope) => {
    const { payload: each, node_id: id, node_name: named, ts } = envelope.record;
    const usage = each.usage ?? {};
    return { source: envelope, id, parent: each.parent_span_id, name: named ?? each.name, kind: KINDS[each.operation] ?? "step", start: ts, seconds: each.latency_ms / 1000,
      status: each.error ? "failed" : "done", tokens: usage.total_tokens ?? (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0), cost: each.cost_usd ?? 0,
      input: each.arguments ?? each.input, output: each.result ?? each.output, error: each.error ? each.error.message ?? JSON.stringify(each.error) : "" };
  });
  return { name, spans };
}

// The spans of a run or a trace, each below the one that it is in, with their places in time.
function laid({ name, spans }, now) {
  const ids = new Set(spans.map((each) => each.id));
  const inside = Map.groupBy(spans, ({ id, parent }) => (ids.has(parent) && parent !== id ? parent : null));
  const ends = spans.map((each) => each.start + (each.seconds ?? 0));
  const from = Math.min(...spans.map((each) => each.start));
  const length = Math.max(...ends, spans.some((each) => each.seconds === undefined) ? now : 0) - from || 1e-3;
  const rows = [];
  const add = (span, depth) => {
    const seconds = span.seconds ?? Math.max(from + length - span.start, 0);
    rows.push({ ...span, key: `${name} ${span.id}`, depth, length, left: (span.start - from) / length, width: seconds / length });
    for (const each of (inside.get(span.id) ?? []).toSorted((a, b) => a.start - b.start)) add(each, depth + 1);
  };
  for (const each of inside.get(null) ?? []) add(each, 0);
  return rows;
}

export function spansAt(states, now) {
  const tasks = viewsOf(states, "tasks").flatMap(({ state }) => state.values());
  const found = [...viewsOf(states, "runs").map((view) => ofRun(view, tasks)), ...viewsOf(states, "events").map(ofTrace)];
  return found.filter(({ spans }) => spans.length).flatMap((each) => laid(each, now));
}

export const waterfall = element("fl-waterfall", (host) => {
  const { run } = host;
  let known = new Map(); // rows that stay as they were keep their place in the page
  const rows = computed(() => {
    const before = known;
    known = new Map();
    return spansAt(run.states.value, run.current.value?.recorded_at ?? 0).map((row) => {
      const old = before.get(row.key);
      const isSame = old && Object.entries(row).every(([field, value]) => field === "source" || Object.is(old[field], value));
      known.set(row.key, isSame ? old : row);
      return known.get(row.key);
    });
  });
  const list = virtualList({ label: "Waterfall", guess: 30, items: () => rows.value, render: bar });
  return html`${() => (rows.value.length ? null : html`<p class="empty">No steps at this moment. Runs and traces have them.</p>`)}${list}`;
});

function bar(row) {
  const { key, name, kind, status, seconds, tokens, cost, depth } = row;
  const made = html`<details class="span" data-kind=${kind} css=${{ "--depth": depth, "--from": row.left, "--wide": row.width }}>
    <summary><span class="what"><span class="name">${clip(String(name), 60)}</span> <span class="tag">${kind}</span></span>
      <span class="status" data-status=${status}>${status}</span>
      <span class="track" aria-hidden="true"><i class="bar" data-status=${status}></i></span>
      <span class="spent">${tokens ? html`<span>${count(tokens)} tok</span>` : null}${cost ? html`<span>${money(cost)}</span>` : null}
        <span>${seconds === undefined ? "…" : duration(seconds)}</span></span></summary></details>`.firstElementChild;
  const fill = () => made.open && made.childElementCount === 1 && made.append(about(row));
  made.open = open.has(key);
  made.addEventListener("toggle", () => {
    open[made.open ? "add" : "delete"](key);
    fill();
  });
  fill();
  return made;
}

function about({ start, input, output, error, more }) {
  const part = (title, value) => (value === undefined || value === null || value === "" ? null : html`<h3>${title}</h3>${content(value, { open: 2 })}`);
  return html`<div class="inside"><p class="quiet">${[`began ${clock(start)}`, more].filter(Boolean).join(" · ")}</p>
    ${error ? html`<p class="error">${visible(error)}</p>` : null}${part("Input", input)}${part("Output", output)}</div>`;
}
