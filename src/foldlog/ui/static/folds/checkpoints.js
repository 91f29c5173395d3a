// A thread's checkpoints: which there are, and which channels each has changed. The page shows
// what the records say; projections/foldlog_projections/checkpoints.py puts values together.

import { Table } from "./fold.js";

const nameOf = (record) => (record.ns ? `${record.ns} ${record.id}` : record.id);

export const checkpoints = {
  initial: () => new Table(),
  apply(state, record, { type, recorded_at }) {
    if (type === "checkpoint.put") {
      return state.put(nameOf(record), { ...record, at: recorded_at, writes: [] });
    }
    if (type === "checkpoint.written") {
      const name = record.ns ? `${record.ns} ${record.checkpoint}` : record.checkpoint;
      const before = state.get(name);
      return before ? state.put(name, { ...before, writes: [...before.writes, record] }) : state;
    }
    if (type === "checkpoint.removed") return new Table();
    return record.id ? state.without([nameOf(record)]) : state;
  },
};
