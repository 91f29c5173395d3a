// What was said in a run, by any recorder: messages of every framework, message events,
// updates, steering, and what waits.

import { parsedJson } from "../render/content.js";

const list = (value) => (Array.isArray(value) ? value : value === undefined || value === null ? [] : [value]);
const isText = (value) => typeof value === "string" && value !== "";
const ROLES = { user: "user", assistant: "assistant", tool: "tool", system: "system", model: "assistant", agent: "assistant",
  ai: "assistant", human: "user", function: "tool", developer: "system" };
const roleOf = (name) => ROLES[String(name ?? "").replace("ROLE_", "").toLowerCase()];

// Parts of a message's content, in any of the shapes that frameworks give them.
function take(said, part) {
  if (isText(part)) said.texts.push(part);
  if (!part || typeof part !== "object") return;
  const kind = part.type ?? part.part_kind ?? part.kind ?? "";
  const call = part.function_call ?? part.functionCall ?? part.function;
  const reply = part.function_response ?? part.functionResponse;
  const about = { id: part.tool_use_id ?? part.tool_call_id ?? part.call_id ?? part.id, name: part.name ?? part.tool_name };
  if (call && typeof call === "object") said.calls.push({ id: part.id ?? call.id, name: call.name, value: call.arguments ?? call.args });
  else if (reply) {
    const isError = Boolean(reply.response?.error) || reply.response?.status === "error";
    said.results.push({ id: reply.id, name: reply.name, value: reply.response, isError });
  } else if (/tool_use|tool-call|function_call$|tool_call$/.test(kind)) {
    said.calls.push({ ...about, value: part.input ?? part.arguments ?? part.args });
  } else if (/tool_result|tool-return|retry-prompt|function_call_output|function_result|function_response|tool_call_response/.test(kind)) {
    const isError = Boolean(part.is_error || part.exception) || kind === "retry-prompt" || /failed|denied|retried/.test(part.outcome);
    said.results.push({ ...about, value: part.content ?? part.output ?? (part.result || part.exception) ?? part.response, isError });
  } else if (/thinking|reasoning/.test(kind)) {
    const text = part.thinking ?? part.text ?? part.content ?? list(part.summary).map((s) => s.text).join("\n");
    if (isText(text)) said.thoughts.push(text);
  } else if (isText(part.text)) said.texts.push(part.text);
  else if (part.content && /text|prompt|message/.test(kind)) list(part.content).forEach((each) => take(said, each));
  else if (isText(part.content) && kind !== "blob") said.texts.push(part.content);
  else if (Object.keys(part).length) said.others.push(part);
}

export function message(body, role, author) {
  const said = { author, texts: [], calls: [], results: [], thoughts: [], others: [] };
  const inner = body?.message && typeof body.message === "object" ? body.message : body;
  const named = inner?.role ?? inner?.content?.role ?? body?.role ?? body?.type ?? body?.kind;
  if (isText(body)) said.texts.push(body);
  else if (body && typeof body === "object") {
    said.author ??= body.author ?? body.author_name ?? (roleOf(named) ? inner.name : null);
    const parts = inner.parts ?? inner.contents ?? inner.content?.parts ?? inner.content;
    if (roleOf(role ?? named) === "tool" && (isText(parts) || inner.tool_call_id)) {
      said.results.push({ id: inner.tool_call_id, name: inner.name, value: parts, isError: inner.status === "error" });
    } else if (parts !== undefined) list(parts).forEach((part) => take(said, part));
    else take(said, inner);
    for (const call of list(inner.tool_calls)) take(said, call);
    if (inner.function_call && parts !== undefined) take(said, { function: inner.function_call });
    for (const text of [inner.reasoning_content, inner.thinking]) if (isText(text)) said.thoughts.push(text);
  }
  if (role && !roleOf(role)) said.author ??= role;
  const isResult = said.results.length && !said.texts.length && !said.calls.length;
  said.role = isResult ? "tool" : roleOf(role ?? named) ?? "assistant";
  for (const each of [...said.calls, ...said.results]) each.value = unwrapped(each.value);
  for (const each of said.results) each.isError ||= /^(An error occurred|Error:)/.test(each.value);
  return said;
}

// The text of blocks of text, and what a text holds as JSON.
function unwrapped(value) {
  if (Array.isArray(value) && value.length && value.every((each) => isText(each?.text))) value = value.map((each) => each.text).join("\n");
  return isText(value) ? parsedJson(value) ?? value : value;
}

// All that was said up to a moment, as { envelope, role, author, texts, calls, results, thoughts,
// others } or notes { envelope, title, inside, ... }. What has an `id` takes the place of what had it.
export function conversation(run, states, count) {
  const { records, types } = run.log;
  const sources = { messages: types.has("message.added"), all: ["message.added", "conversation.saved", "event.message"].some((type) => types.has(type)) };
  const sourcesKey = JSON.stringify(sources);
  const found = new Map();
  const names = new Map(); // of the tools that were called
  const parts = new Map(); // what more may be said of, by name
  const more = new Map();
  for (let place = 0; place < count; place++) {
    const envelope = records[place];
    envelope.count = place + 1;
    if (envelope.sourcesKey !== sourcesKey) {
      envelope.sourcesKey = sourcesKey;
      envelope.said = list(saidBy(envelope, sources));
      for (const said of envelope.said) said.envelope = envelope;
    }
    const { about, under } = envelope.line;
    const of = about.map((each) => parts.get(`${envelope.name} ${each}`) ?? parts.get(each)).filter(Boolean);
    if (under === null && of.length) {
      for (const part of of) more.set(part, [...(more.get(part) ?? []), envelope]);
      continue;
    }
    const [first] = envelope.said;
    if (first && under !== null) {
      if (first.depth !== undefined) first.depth = (parts.get(`${envelope.name} ${under}`)?.depth ?? -1) + 1;
      for (const each of about) for (const key of [each, `${envelope.name} ${each}`]) parts.set(key, first);
    }
    for (const said of envelope.said) {
      if (said.isIn && !said.isIn(states.get(envelope.name))) continue;
      for (const { id, name } of said.calls ?? []) names.set(id, name);
      for (const each of said.results ?? []) each.name ??= names.get(each.id);
      const before = found.get(said.id);
      if (said.isOld && before) continue;
      if (said.isMore && before) [said.texts, said.isMore] = [[[...before.texts, ...said.texts].join("")], false];
      found.set(said.id ?? said, said);
    }
  }
  return [...found.values()].map((said) => withMore(said, more.get(said)));
}

// What was said, and what became of it; the same object while that stays the same.
function withMore(said, more) {
  if (!more) return said;
  const last = more.at(-1);
  if (said.with?.more.length !== more.length || said.with.more.at(-1) !== last) said.with = { ...said, more };
  return said.with;
}

// A record in the words that its kind declares, as src/foldlog/story.py tells it.
const told = ({ what: title, text, group, tone, under }) =>
  tone === "aside" || group === "lists" ? [] : { role: "note", group, title, inside: text || null, isError: tone === "failed", isAsked: tone === "waiting" && under !== null, depth: 0 };

// Without the name of what it is about.
export function shortly({ what, text, about }) {
  for (const name of about) if (what.includes(` ${name} `)) what = what.slice(what.lastIndexOf(` ${name} `) + name.length + 2);
  return text ? `${what}: ${text}` : what;
}

const note = (group, title, inside, more) => ({ role: "note", group, title: String(title).toLowerCase().replace(/[_-]/g, " "), inside, ...more });

function saidBy({ type, record, name, line }, sources) {
  switch (type) {
    case "message.added": {
      const said = message(record.body, record.role, record.author);
      const isSaid = record.role || said.texts.length || said.calls.length || said.results.length || said.thoughts.length;
      const { type: kind, uuid, ...rest } = record.body ?? {};
      const conversation = record.conversation === "main" ? null : record.conversation;
      const isIn = (state) => state.get(record.conversation ?? "main").messages.get(record.id) === record;
      return { ...(isSaid ? said : note("other", kind ?? record.format, rest)), conversation, isIn };
    }
    case "conversation.saved":
      return (record.messages ?? []).flatMap((each, at) => {
        const isIn = (state) => state.entries.get(record.entries[at][0]) === each;
        const parts = each.kind === "request" ? each.parts.map((part) => ({ parts: [part] })) : [each];
        return parts.map((part) => ({ ...message(part, asked(part.parts[0]) ?? "assistant"), isIn }));
      });
    case "agent_task.saved":
      return ofTask(record, name);
    case "checkpoint.written":
      return record.writes.flatMap(written);
    case "event.saved":
      if (record.payload?.mapping) return sources.all ? [] : spanned(record.payload);
      if (!record.kind.startsWith("message.")) return told(line);
      return sources.messages ? [] : message(record.payload, record.kind.slice(8));
    case "steering.saved": {
      if (record.event_type !== "USER_MESSAGE") return told(line);
      return sources.all ? [] : message(record.payload.text, "user", record.payload.by);
    }
    case "pause.saved": {
      const { reason, payload } = record.payload ?? {};
      const calls = list(payload?.asked).filter((each) => each?.tool).map((each) => ({ name: each.tool, value: unwrapped(each.arguments) }));
      const isSaid = calls.length || payload?.parts; // A2A's question is a message of its task
      const waits = (states) => states.get(name)?.waiting === record;
      return note("steering", `asks: ${reason ?? "to go on"}`, isSaid ? null : payload ?? record.payload, { calls, waits, open: 1 });
    }
    case "artifact.saved":
      return { role: "note", artifact: record };
    case "update.saved":
      return updated(record, sources.all);
  }
  return told(line);
}

// A call of a model, as its span has it: its input since the answer before, and its answer.
function spanned({ input, output, whole }) {
  const news = list(input).slice(list(input).findLastIndex((each) => each.role === "assistant") + 1);
  return whole ? [] : [...news, ...list(output)].map((each) => message(each));
}

// Who says a part of Pydantic AI's request to a model.
const asked = ({ part_kind: kind = "" }) => ({ "system-prompt": "system", "user-prompt": "user", "tool-return": "tool", "retry-prompt": "tool" })[kind];

// What a version of an A2A task says: its messages, and the parts of its artifacts.
function ofTask({ event, change }, name) {
  const { task, statusUpdate, artifactUpdate } = event ?? { task: change?.[0] === 0 ? change[1] : null };
  const { state, message: status } = statusUpdate?.status ?? {};
  const found = [...(task?.history ?? []), ...list(status)].map((each) => ({ ...message(each, each.role), id: `${name} ${each.messageId}`, isOld: true }));
  if (status) Object.assign(found.at(-1), { isError: /FAILED|REJECTED/.test(state), status: state.replace("TASK_STATE_", "").toLowerCase().replace("_", " ") });
  if (!artifactUpdate) return found;
  const { artifact, append } = artifactUpdate;
  const label = artifact.name || artifact.artifactId;
  return { ...message(artifact, "assistant", label), author: null, conversation: label, id: `${name} ${artifact.artifactId}`, isMore: append };
}

// What a node of LangGraph's wrote to a channel: messages, a question, an error, or a value.
function written({ channel, data }) {
  if (channel === "__interrupt__") return list(data).map((each) => note("steering", "asks", each.value ?? each, { open: 1 }));
  if (channel === "__error__") return note("updates", "error", data, { isError: true });
  if (channel.startsWith("branch:") || channel.startsWith("__") || data === null) return [];
  const isMessage = (each) => each?.content !== undefined && roleOf(each.role ?? each.type);
  if (!list(data).some(isMessage)) return note("checkpoints", channel, data);
  return list(data).filter(isMessage).map((each) => ({ ...message(each), id: each.id ?? undefined }));
}

function updated({ content, update_type: type, task_id: task }, isTold) {
  if (type === "CHECKPOINT" || type === "ERROR" || type === "NOTIFICATION") return note("updates", type, content, { task, isError: type === "ERROR" });
  if (isTold) return [];
  if (type === "RESULT") return message(content, "assistant");
  if (type === "THINKING") return { ...message(null, "assistant"), thoughts: message(content).texts };
  if (type !== "TOOL_CALL") return [];
  const { tool_call_id: id, name, tool, arguments: given, args, input, result, output = result } = content ?? {};
  const results = output === undefined ? [] : [{ id, value: output }];
  return { ...message(null, "assistant"), calls: [{ id, name: name ?? tool, value: given ?? args ?? input }], results };
}
