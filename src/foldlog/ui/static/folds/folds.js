// The common folds. Mirrors projections/foldlog_projections/folds.py.

import { Items } from "./items.js";

export const every = {
  initial: () => new Items(),
  apply: (state, _, envelope) => state.append(envelope),
};

export const last = {
  initial: () => null,
  apply: (_, record) => record,
  replaces: () => "",
};

// The last one, where some types say something about the record before them.
export const lastBut = (...beside) => ({
  ...last,
  apply: (state, record, { type }) => (beside.includes(type) ? state : record),
  replaces: (_, type) => (beside.includes(type) ? null : ""),
});
