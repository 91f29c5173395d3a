// A thread's checkpoints: which there are, and which channels each has changed. The page shows
// what the records say; projections/foldlog_projections/langgraph/checkpoints.py puts values together.

import { Table } from "./fold.js";

const nameOf = (ns, id) => (ns ? `${ns} ${id}` : id);
const namesOf = (ids) => Object.entries(ids).flatMap(([ns, some]) => some.map((id) => nameOf(ns, id)));

export const checkpoints = {
  initial: () => new Table(),
  apply(state, record, { type, recorded_at }) {
    const name = nameOf(record.ns, record.id);
    const before = state.get(name) ?? { writes: [] }; // what was written may come first
    if (type === "checkpoint.put") return state.put(name, { ...before, ...record, at: recorded_at });
    if (type === "checkpoint.written") return state.put(name, { at: recorded_at, ...before, writes: [...before.writes, record] });
    if (type === "checkpoint.removed") return state.without(namesOf(record.ids));
    if (type !== "checkpoint.pruned") return state;
    const kept = new Set(namesOf(record.kept));
    return state.without(state.keys().filter((each) => !kept.has(each)));
  },
};
