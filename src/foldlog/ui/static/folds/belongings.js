// Which other views belong to a session. Mirrors projections/foldlog_projections/belongings.py.

import { Table } from "./fold.js";

export const belongings = {
  initial: () => new Table(),
  apply: (state, record) => state.put(JSON.stringify([record.kind, ...record.keys]), true),
};
