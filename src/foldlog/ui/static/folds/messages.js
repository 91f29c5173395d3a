// A session's conversations. Mirrors projections/foldlog_projections/messages.py.

import { put } from "./fold.js";

const EMPTY = { messages: new Map(), version: 0, updated_at: 0 };

export const messages = {
  initial: () => new Map(),
  apply(state, record, envelope) {
    const name = record.conversation ?? "main";
    const before = state.get(name) ?? EMPTY;
    let kept = before.messages;
    if (envelope.type === "message.added") {
      kept = put(kept, record.id, { ...record, envelope });
    } else {
      const gone = new Set(record.ids ?? kept.keys());
      kept = new Map([...kept].filter(([id]) => !gone.has(id)));
    }
    const after = { messages: kept, version: before.version + 1, updated_at: envelope.recorded_at };
    return put(state, name, after);
  },
};
