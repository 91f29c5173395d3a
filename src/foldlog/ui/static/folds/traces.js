// A session's traces, the one saved last at the end. Mirrors projections/foldlog_projections/traces.py.

import { put, without } from "./fold.js";

export const traces = {
  initial: () => new Map(),
  replaces: (record) => record.trace_id,
  apply: (state, record) => put(without(state, record.trace_id), record.trace_id, record.content),
};
