// The last state of each task. Mirrors projections/foldlog_projections/tasks.py.

import { Table } from "./fold.js";

export const tasks = {
  initial: () => new Table(),
  replaces: (record) => record.task_id,
  apply(state, record, envelope) {
    if (envelope.type !== "task.changed") return state.put(record.task_id, record);
    const before = state.get(record.task_id);
    return before ? state.put(record.task_id, { ...before, ...record }) : state;
  },
};
