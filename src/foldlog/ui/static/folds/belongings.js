// Which other views belong to a session. Mirrors projections/foldlog_projections/belongings.py.

import { put } from "./fold.js";

export const belongings = {
  initial: () => new Map(),
  apply: (state, record) => put(state, JSON.stringify([record.kind, ...record.keys]), true),
};
