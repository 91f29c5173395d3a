// The last state of each task. Mirrors projections/foldlog_projections/tasks.py.

import { put } from "./fold.js";

export const tasks = {
  initial: () => new Map(),
  replaces: (record) => record.task_id,
  apply(state, record, envelope) {
    if (envelope.type !== "task.changed") return put(state, record.task_id, record);
    const before = state.get(record.task_id);
    return before ? put(state, record.task_id, { ...before, ...record }) : state;
  },
};
