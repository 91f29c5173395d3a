// A session's conversations. Mirrors projections/foldlog_projections/messages.py.

import { Table } from "./fold.js";

export const messages = {
  initial: () => new Map(),
  apply(state, record, envelope) {
    const name = record.conversation ?? "main";
    const before = state.get(name) ?? { messages: new Table(), version: 0 };
    let kept = before.messages;
    if (envelope.type === "message.added") kept = kept.put(record.id, record);
    else kept = record.ids ? kept.without(record.ids) : new Table();
    const after = { messages: kept, version: before.version + 1, updated_at: envelope.recorded_at };
    return new Map(state).set(name, after);
  },
};
