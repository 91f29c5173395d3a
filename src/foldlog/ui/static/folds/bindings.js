// The remote bindings of a trace. Mirrors projections/foldlog_projections/bindings.py.

import { put } from "./fold.js";

const keyOf = (record) => JSON.stringify([record.context_id, record.task_id]);

export const bindings = {
  initial: () => new Map(),
  replaces: keyOf,
  apply(state, record, envelope) {
    const key = keyOf(record);
    if (envelope.type !== "binding.terminal") return put(state, key, { saved: record, ended: false });
    return state.has(key) ? put(state, key, { ...state.get(key), ended: true }) : state;
  },
};
