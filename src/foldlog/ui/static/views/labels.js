// What a record is called, and what it says in a line.

import { clip } from "../core/format.js";
import { costsOf } from "../core/log.js";

const short = (value) => {
  if (value === null || value === undefined) return "";
  return clip(typeof value === "string" ? value : JSON.stringify(value) ?? "", 200);
};

function firstText(value, depth = 4) {
  if (typeof value === "string") return value;
  if (!value || typeof value !== "object" || !depth) return "";
  const named = Array.isArray(value)
    ? value
    : [value.text, value.content, value.instruction, value.question, value.description, value.reason, value.message, value.value, value.parts, value.title, value.digest];
  for (const each of named) {
    const found = firstText(each, depth - 1);
    if (found) return found;
  }
  return "";
}

// What a delta touches, by name.
const changed = (delta) => {
  const [kind, first] = Array.isArray(delta) ? delta : [];
  const names = (kind === 0 || kind === 1) && first && typeof first === "object" ? Object.keys(first) : [];
  return names.join(", ");
};

const called = (content) => {
  const input = content.arguments ?? content.args ?? content.input;
  return `${content.name ?? content.tool ?? "tool"}(${input === undefined ? "" : short(input)})`;
};

// What somebody is asked, in a line: a tool to allow, or a text.
export function question(asked) {
  const inside = asked?.payload ?? asked;
  const [call] = Array.isArray(inside?.asked) ? inside.asked : [];
  if (call?.tool) return `${call.tool}(${short(call.arguments)})`;
  return inside?.digest?.join?.("; ") || firstText(inside) || firstText(asked) || short(inside);
}

// { group, title, text, tone }: the group colours it and is what filters choose.
export function label({ type, record, view }) {
  switch (type) {
    case "task.saved":
    case "task.changed": {
      const status = record.status ?? "changed";
      const text = record.error ?? record.description ?? record.context_snapshot?.query ?? short(record.result ?? record.progress);
      return { group: "task", title: `task ${status.toLowerCase()}`, text: `${record.task_id}${text ? ` · ${text}` : ""}`, tone: status };
    }
    case "update.saved":
      return update(record);
    case "steering.saved": {
      const text = firstText(record.payload) || short(record.payload);
      return { group: "steering", title: record.event_type.toLowerCase().replace("_", " "), text };
    }
    case "planner.saved": {
      const text = record.thought ?? record.error ?? short(record.extra);
      const title = [record.event_type.replaceAll("_", " "), record.node_name].filter(Boolean).join(" ");
      return { group: "planner", title, text, tone: record.error ? "FAILED" : "" };
    }
    case "event.saved": {
      const { payload } = record;
      const call = payload?.tool_calls?.[0]?.function ?? (payload?.arguments && payload);
      const text = firstText(payload?.error ?? payload?.output ?? payload) || (call ? called(call) : short(payload?.mapping ? payload.name : payload));
      if (record.kind.startsWith("message.")) return { group: "message", title: record.kind.slice(8), text };
      return { group: /tool/.test(record.kind) ? "tool" : "event", title: [record.kind, record.node_name].filter(Boolean).join(" "), text, tone: payload?.error || /error|fail/.test(record.kind) ? "FAILED" : "" };
    }
    case "message.added":
      return { group: "message", title: record.author ?? record.role ?? "message", text: firstText(record.body) || short(record.body) };
    case "memory.saved":
      return { group: "memory", title: "memory", text: short(record.state) };
    case "context.changed":
      return { group: "context", title: `context v${record.version}`, text: changed(record.delta) };
    case "state.saved":
      return { group: "step", title: "snapshot", text: changed(record.delta) };
    case "belonging.added":
      return { group: "other", title: "belongs to it", text: [record.kind, ...record.keys].join(" ") };
    case "patch.queued":
      return { group: "steering", title: "patch waits", text: short(record.patch?.digest ?? record.patch), tone: "PAUSED" };
    case "patch.decided":
      return { group: "steering", title: `patch ${record.outcome}`, text: record.patch_id };
    case "artifact.saved":
      return { group: "artifact", title: "artifact", text: record.filename ?? record.artifact_id };
    case "feedback.saved":
      return { group: "feedback", title: `feedback ${record.score ?? ""}`, text: record.comment ?? "" };
    case "scoped.written":
      return { group: "memory", title: `key ${view[2]}`, text: short(record.value) };
    case "scoped.embedded":
      return { group: "memory", title: `vector of ${view[2]}`, text: record.model };
    case "agent.turned":
      return { group: "memory", title: record.label || "agent turn", text: record.changes.map((c) => c.key).join(", ") };
    case "pause.saved":
      return { group: "steering", title: "pause waits", text: question(record.payload), tone: "PAUSED" };
    case "pause.consumed":
      return { group: "steering", title: "pause ended", text: "" };
    case "conversation.saved":
      return { group: "message", title: "conversation", text: firstText((record.messages ?? []).at(-1)) };
    case "agent_task.saved": {
      const state = record.state.replace("TASK_STATE_", "");
      const text = firstText(record.event?.statusUpdate?.status ?? record.event?.artifactUpdate?.artifact ?? record.event?.task?.history?.at(-1));
      return { group: "task", title: state.toLowerCase().replace("_", " "), text, tone: /FAILED|REJECTED/.test(state) ? "FAILED" : /REQUIRED/.test(state) ? "PAUSED" : "" };
    }
    case "checkpoint.written": {
      const [first] = record.writes.filter((each) => each.data !== null);
      return { group: "checkpoint", title: first?.channel.replaceAll("__", "") ?? "wrote", text: firstText(first?.data) || short(first?.data), tone: first?.channel === "__interrupt__" ? "PAUSED" : "" };
    }
    case "checkpoint.put":
      return { group: "checkpoint", title: "checkpoint", text: `${record.ns ? `${record.ns} ` : ""}${Object.keys(record.values ?? {}).join(", ")}` };
  }
  if (type.startsWith("step.")) {
    const failed = type === "step.failed";
    const text = record.message ?? short(record.request ?? record.result ?? record.event_type);
    return { group: "step", title: `${type.slice(5)} ${record.address}`, text, tone: failed ? "FAILED" : type === "step.waiting" ? "PAUSED" : "" };
  }
  const group = { message: "message", trajectory: "event", execution: "step", checkpoint: "checkpoint", workflow: "checkpoint" }[type.split(".")[0]] ?? "other";
  return { group, title: type.replace(/[._]/g, " "), text: short(record) };
}

function update(record) {
  const { content, update_type: type } = record;
  if (type === "TOOL_CALL") return { group: "tool", title: content?.name ?? content?.tool ?? "tool call", text: called(content ?? {}) };
  if (type === "STATUS_CHANGE") {
    const text = [record.task_id, content?.reason].filter(Boolean).join(" · ");
    return { group: "task", title: `now ${String(content?.status ?? "").toLowerCase()}`, text, tone: content?.status };
  }
  const tone = type === "ERROR" ? "FAILED" : type === "CHECKPOINT" ? "PAUSED" : "";
  return { group: "update", title: type.toLowerCase(), text: firstText(content) || short(content), tone };
}

export const GROUPS = {
  message: "Messages",
  task: "Tasks",
  step: "Steps",
  tool: "Tool calls",
  update: "Updates",
  planner: "Planner",
  steering: "Steering",
  event: "Events",
  context: "Context",
  memory: "Memory",
  artifact: "Artifacts",
  feedback: "Feedback",
  checkpoint: "Checkpoints",
  other: "Other",
};

export const groupOf = (envelope) => {
  const { group } = envelope.group ? envelope : label(envelope);
  return (envelope.group ??= group in GROUPS ? group : "other");
};

export const costs = (envelope) => costsOf(envelope.view[0], envelope.record);

// The task that a record is about, and the one that this task was spawned from.
export const taskOf = ({ record }) => record.task_id ?? null;
export const parentOf = (task) => {
  const parent = task.context_snapshot?.spawned_from_task_id;
  return parent && parent !== task.task_id ? parent : null;
};
