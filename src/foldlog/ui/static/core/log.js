// The records of a run in log order, and the state of every view at any moment of it.
//
// This is the one mechanism: live, past, shared and compared runs are all this fold. A moment is a
// count of records. States share what did not change, so that one is stored every STRIDE records and
// any other is at most STRIDE steps away.

import { Admission, firstWhere } from "../folds/fold.js";
import { foldOf } from "../folds/registry.js";
import { signal } from "./reactive.js";

const STRIDE = 256;

export class Log {
  constructor() {
    this.count = signal(0);
    this.version = signal(0); // grows when records were put in between, or went
    this.clear();
  }

  clear() {
    this.records = [];
    this.types = new Set(); // with "event.message" for events that say something
    this.totals = { tokens: 0, cost: 0, latency: 0, calls: 0, errors: 0 };
    this.admissions = new Map();
    this.kept = [new Map()]; // kept[n]: the states after n * STRIDE records
    this.recent = { count: 0, states: new Map() };
    this.count.value = 0;
    this.version.value += 1;
  }

  // Take records in, each id of a view once. Those that come late go to their place.
  append(records) {
    let reordered = false;
    for (const record of records) {
      record.name = JSON.stringify(record.view);
      const fold = foldOf(record.view[0]);
      if (!this.admissions.has(record.name)) this.admissions.set(record.name, new Admission());
      const admitted = this.admissions.get(record.name).admit(fold, record);
      if (admitted === "repeated") continue;
      record.overtaken = admitted === "overtaken";
      record.place = placeOf(record.position);
      reordered = this.insert(record) || reordered;
      this.add(record);
    }
    this.count.value = this.records.length;
    if (reordered) this.version.value += 1;
  }

  insert(record) {
    const { records } = this;
    let at = records.length;
    while (at > 0 && before(record.place, records[at - 1].place)) at -= 1;
    if (at === records.length) {
      records.push(record);
      return false;
    }
    records.splice(at, 0, record);
    this.kept.length = Math.min(this.kept.length, Math.floor(at / STRIDE) + 1);
    if (this.recent.count > at) this.recent = { count: 0, states: new Map() };
    return true;
  }

  add({ view, record, type }) {
    const { totals } = this;
    const found = costsOf(view[0], record);
    const span = type === "event.saved" && record.payload?.mapping ? record.payload : {};
    if (!span.whole) for (const name of ["tokens", "cost", "latency"]) totals[name] += found[name]; // `whole`: has others inside
    this.types.add(type === "event.saved" && record.kind.startsWith("message.") ? "event.message" : type);
    if (span.operation === "execute_tool" || record.update_type === "TOOL_CALL") totals.calls += 1;
    if (record.error || (span.error && !span.whole) || record.update_type === "ERROR") totals.errors += 1;
  }

  // The states of all views after the first `count` records, by the view's name.
  statesAt(count) {
    if (this.recent.count === count) return this.recent.states;
    const stride = Math.min(Math.floor(count / STRIDE), this.kept.length - 1);
    let from = stride * STRIDE;
    let states = this.kept[stride];
    if (this.recent.count <= count && this.recent.count > from) {
      from = this.recent.count;
      states = this.recent.states;
    }
    states = new Map(states);
    for (let place = from; place < count; place++) {
      step(states, this.records[place]);
      if ((place + 1) % STRIDE === 0 && this.kept.length === (place + 1) / STRIDE) {
        this.kept.push(new Map(states));
      }
    }
    this.recent = { count, states };
    return states;
  }

  // How many records stand at or before a position.
  countAt(position) {
    const place = placeOf(position);
    return firstWhere(this.records.length, (at) => before(place, this.records[at].place));
  }
}

function step(states, envelope) {
  const fold = foldOf(envelope.view[0]);
  const state = states.has(envelope.name) ? states.get(envelope.name) : fold.initial();
  states.set(envelope.name, envelope.overtaken ? state : fold.apply(state, envelope.record, envelope));
}

// A position as numbers that compare: the sequences of all shards together, then the index.
function placeOf(position) {
  let sum = 0;
  let index = 0;
  let within = Infinity;
  for (const part of position.slice(1).split(",")) {
    const [seq, rest] = part.split("~")[0].split(".");
    sum += Number(seq);
    if (rest !== undefined) index += Number(rest);
    if (rest !== undefined || seq !== "0") within = rest === undefined ? Infinity : 0;
  }
  return [sum, within === Infinity ? Infinity : index];
}

const before = (a, b) => a[0] < b[0] || (a[0] === b[0] && a[1] < b[1]);

const number = (value) => (typeof value === "number" && Number.isFinite(value) ? value : 0);

// What an event says that it cost. Latency in seconds.
export function costsOf(kind, record) {
  const found = { tokens: 0, cost: 0, latency: 0 };
  if (kind === "planner") {
    found.tokens = number(record.token_estimate);
    found.latency = number(record.latency_ms) / 1000;
    found.cost = number(record.extra?.cost_usd ?? record.extra?.cost);
  } else if (kind === "events" || kind === "updates" || kind === "messages") {
    const body = record.payload ?? record.content ?? record.body;
    if (!body || typeof body !== "object") return found;
    const usage = body.usage ?? body;
    const parts = number(usage.input_tokens) + number(usage.output_tokens);
    found.tokens = number(usage.total_tokens ?? usage.tokens) || parts;
    found.latency = number(body.latency_ms) / 1000 || number(body.duration_s);
    found.cost = number(body.cost_usd ?? body.total_cost_usd ?? body.cost);
  } else if (kind === "runs") {
    found.tokens = number(record.input_tokens) + number(record.output_tokens);
    found.cost = number(record.cost_usd);
  }
  return found;
}
