// The artifacts that exist. Mirrors projections/foldlog_projections/artifacts.py.

import { Table } from "./fold.js";

export const artifacts = {
  initial: () => new Table(),
  apply(state, record, envelope) {
    const held = state.get(record.artifact_id);
    if (envelope.type === "artifact.saved") {
      if (held) return state;
      return state.put(record.artifact_id, { id: envelope.id, ts: envelope.ts, saved: record });
    }
    return held && held.id === record.saved ? state.without([record.artifact_id]) : state;
  },
};
