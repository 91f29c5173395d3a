// The remote bindings of a trace. Mirrors projections/foldlog_projections/bindings.py.

import { Table } from "./fold.js";

const keyOf = (record) => JSON.stringify([record.context_id, record.task_id]);

export const bindings = {
  initial: () => new Table(),
  replaces: keyOf,
  apply(state, record, envelope) {
    const key = keyOf(record);
    if (envelope.type !== "binding.terminal") return state.put(key, { saved: record, ended: false });
    return state.has(key) ? state.put(key, { ...state.get(key), ended: true }) : state;
  },
};
