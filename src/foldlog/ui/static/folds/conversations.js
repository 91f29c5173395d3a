// A conversation of Pydantic AI. Mirrors projections/foldlog_projections/pydantic_ai/conversations.py.

import { Table } from "./fold.js";

export const conversations = {
  initial: () => ({ revision: null, record: null, carried: null, entries: new Table() }),
  apply(state, { revision, expected, record, carried, entries, messages }, { type }) {
    if ((expected ?? null) !== state.revision) return state; // another one was first
    if (type === "conversation.deleted") return conversations.initial();
    const added = (found, [id], at) => found.put(id, messages[at]);
    return { revision, record, carried, entries: (entries ?? []).reduce(added, state.entries) };
  },
};
