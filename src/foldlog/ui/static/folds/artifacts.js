// The artifacts that exist. Mirrors projections/foldlog_projections/artifacts.py.

import { put, without } from "./fold.js";

export const artifacts = {
  initial: () => new Map(),
  apply(state, record, envelope) {
    const held = state.get(record.artifact_id);
    if (envelope.type === "artifact.saved") {
      if (held) return state;
      return put(state, record.artifact_id, { id: envelope.id, ts: envelope.ts, saved: record });
    }
    return held && held.id === record.saved ? without(state, record.artifact_id) : state;
  },
};
