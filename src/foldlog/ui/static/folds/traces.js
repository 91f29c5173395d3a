// A session's traces, the one saved last at the end. Mirrors projections/foldlog_projections/traces.py.

import { Table } from "./fold.js";

export const traces = {
  initial: () => new Table(),
  replaces: (record) => record.trace_id,
  apply: (state, record) => state.without([record.trace_id]).put(record.trace_id, record.content),
};
