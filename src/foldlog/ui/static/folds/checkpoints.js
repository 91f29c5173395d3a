// A thread's checkpoints: which there are, and which channels each has changed. The page shows
// what the records say; projections/foldlog_projections/checkpoints.py puts values together.

import { put, without } from "./fold.js";

const nameOf = (record) => (record.ns ? `${record.ns} ${record.id}` : record.id);

export const checkpoints = {
  initial: () => new Map(),
  apply(state, record, { type, recorded_at }) {
    if (type === "checkpoint.put") {
      return put(state, nameOf(record), { ...record, at: recorded_at, writes: [] });
    }
    if (type === "checkpoint.written") {
      const name = record.ns ? `${record.ns} ${record.checkpoint}` : record.checkpoint;
      const before = state.get(name);
      return before ? put(state, name, { ...before, writes: [...before.writes, record] }) : state;
    }
    if (type === "checkpoint.removed") return new Map();
    return record.id ? without(state, nameOf(record)) : state;
  },
};
