// What was said in a run, whoever recorded it: one list of { role, author, texts, calls, results ... }.

import { parsedJson } from "../render/content.js";

const list = (value) => (Array.isArray(value) ? value : value === undefined || value === null ? [] : [value]);
const isText = (value) => typeof value === "string" && value !== "";

// Parts of a message's content, in any of the shapes that frameworks give them.
function take(said, part) {
  if (isText(part)) {
    said.texts.push(part);
    return;
  }
  if (!part || typeof part !== "object") return;
  const kind = part.type ?? part.part_kind ?? part.kind ?? "";
  const call = part.function_call ?? part.functionCall ?? part.function;
  const reply = part.function_response ?? part.functionResponse;
  if (call && typeof call === "object") {
    said.calls.push({ id: part.id ?? call.id, name: call.name, input: call.arguments ?? call.args });
  } else if (reply) said.results.push({ id: reply.id, name: reply.name, output: reply.response });
  else if (/tool_use|tool-call|function_call$|tool_call$/.test(kind)) {
    const input = part.input ?? part.arguments ?? part.args;
    said.calls.push({ id: part.id ?? part.call_id ?? part.tool_call_id, name: part.name ?? part.tool_name, input });
  } else if (/tool_result|tool-return|function_call_output|function_result|function_response|tool_call_response/.test(kind)) {
    const output = part.content ?? part.output ?? part.result ?? part.response;
    said.results.push({ id: part.tool_use_id ?? part.call_id ?? part.tool_call_id ?? part.id, name: part.tool_name, output });
  } else if (/thinking|reasoning/.test(kind)) {
    const text = part.thinking ?? part.text ?? part.content ?? list(part.summary).map((s) => s.text).join("\n");
    if (isText(text)) said.thoughts.push(text);
  } else if (isText(part.text)) said.texts.push(part.text);
  else if (isText(part.content) && kind !== "blob") said.texts.push(part.content);
  else if (/image|file|input_audio|document/.test(kind)) said.others.push(part);
  else if (Object.keys(part).length) said.others.push(part);
}

const ROLES = { model: "assistant", agent: "assistant", ai: "assistant", human: "user", function: "tool", developer: "system" };

export function message(body, role, author) {
  const said = { role, author, texts: [], calls: [], results: [], thoughts: [], others: [] };
  if (isText(body)) said.texts.push(body);
  else if (body && typeof body === "object") {
    const inner = body.message && typeof body.message === "object" ? body.message : body;
    const named = inner.role ?? inner.content?.role ?? body.role ?? body.type ?? body.kind;
    said.role ??= named;
    said.author ??= body.author ?? inner.name ?? null;
    const parts = inner.parts ?? inner.contents ?? inner.content?.parts ?? inner.content;
    const isOutput = named === "tool" || named === "function" || said.role === "tool";
    if (isOutput && (isText(parts) || inner.tool_call_id)) {
      said.results.push({ id: inner.tool_call_id, name: inner.name, output: parts });
    } else if (parts !== undefined) list(parts).forEach((part) => take(said, part));
    else take(said, inner);
    for (const call of list(inner.tool_calls)) take(said, call);
    if (inner.function_call && parts !== undefined) take(said, { function: inner.function_call });
    for (const text of [inner.reasoning_content, inner.thinking]) if (isText(text)) said.thoughts.push(text);
  }
  said.role = ROLES[said.role] ?? said.role ?? "assistant";
  if (!["user", "assistant", "tool", "system"].includes(said.role)) {
    said.author ??= said.role;
    said.role = "assistant";
  }
  for (const each of [...said.calls, ...said.results]) {
    for (const name of ["input", "output"]) {
      if (isText(each[name])) each[name] = parsedJson(each[name]) ?? each[name];
    }
  }
  return said;
}

// All that was said up to a moment. Each record keeps what it says.
export function conversation(run, states, count) {
  const { records } = run.log;
  const isThere = ({ name, record }) => states.get(name).get(record.conversation ?? "main").messages.get(record.id) === record;
  const format = [...states].some(([name, state]) => name.startsWith('["messages"') && state.size) ? "messages" : null;
  const found = [];
  const events = records.some(isMessageEvent);
  for (let place = 0; place < count; place++) {
    const envelope = records[place];
    if (envelope.said === undefined || envelope.saidAs !== (format ?? events)) {
      envelope.saidAs = format ?? events;
      envelope.said = saidBy(envelope, format, events);
    }
    if (!envelope.said) continue;
    if (envelope.type === "message.added" && !isThere(envelope)) continue;
    found.push(...(envelope.turns ?? [envelope]));
    envelope.count = place + 1;
  }
  return found;
}

const isMessageEvent = ({ type, record }) => type === "event.saved" && record.kind.startsWith("message.");

function saidBy(envelope, format, events) {
  const { type, record } = envelope;
  if (type === "message.added") {
    const said = message(record.body, record.role, record.author);
    if (record.conversation && record.conversation !== "main") said.conversation = record.conversation;
    return said;
  }
  if (type === "event.saved" && record.payload?.mapping) return !format && !events && spanned(envelope);
  if (isMessageEvent(envelope)) return format ? null : message(record.payload, record.kind.slice(8));
  if (type === "steering.saved") return format || events ? steered(record, format ?? events) : steered(record);
  if (type === "feedback.saved") return { role: "note", author: record.author, feedback: record };
  if (type === "artifact.saved") return { role: "note", artifact: record };
  if (type === "update.saved") return updated(record, Boolean(format) || events);
  return null;
}

// A call of a model, as its span has it: what it was told since the answer before, and its answer.
function spanned(envelope) {
  const { input, output, whole } = envelope.record.payload;
  const news = list(input).slice(list(input).findLastIndex((each) => each.role === "assistant") + 1);
  const told = whole ? [] : [...news, ...list(output)];
  return (envelope.turns = told.map((each) => Object.assign(Object.create(envelope), { said: message(each), of: envelope })));
}

function steered(record, isTold) {
  const { payload, event_type: type } = record;
  if (type === "USER_MESSAGE") return isTold ? null : message(payload.text, "user", payload.by);
  return { role: "note", steering: record };
}

function updated(record, isTold) {
  const { content, update_type: type } = record;
  if (type === "CHECKPOINT" || type === "ERROR" || type === "NOTIFICATION") return { role: "note", update: record };
  if (isTold) return null;
  if (type === "RESULT") return message(content, "assistant");
  if (type === "THINKING") {
    const said = message(content, "assistant");
    return { ...said, texts: [], thoughts: said.texts };
  }
  if (type !== "TOOL_CALL") return null;
  const said = message(null, "assistant");
  const input = content?.arguments ?? content?.args ?? content?.input;
  const output = content?.result ?? content?.output;
  said.calls.push({ id: content?.tool_call_id, name: content?.name ?? content?.tool, input });
  if (output !== undefined) said.results.push({ id: content?.tool_call_id, output });
  return said;
}
