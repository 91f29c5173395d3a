// The state of an agent, key by key. Mirrors projections/foldlog_projections/agents/agentstates.py.

import { patch } from "./delta.js";

export const agentstates = {
  initial: () => ({ entries: new Map(), turn: "", waiting: [] }),
  apply(state, record, envelope) {
    const waiting = record.turn === state.turn ? state.waiting : [];
    const changes = [...waiting, ...record.changes];
    if (record.partial) return { ...state, turn: record.turn, waiting: changes };
    const entries = new Map(state.entries);
    for (const change of changes) {
      if (change.gone) entries.delete(change.key);
      else entries.set(change.key, entry(entries.get(change.key), change, envelope));
    }
    return { entries, turn: "", waiting: [] };
  },
};

function entry(before, change, { ts }) {
  // The parts of a delta that was cut are bytes: what they make is not shown here.
  const cut = typeof change.delta === "string";
  const value = cut ? "(a large value, not shown)" : patch(before?.value ?? null, change.delta);
  return { type: change.type, schema: change.schema, private: change.private, ts, value };
}
