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
