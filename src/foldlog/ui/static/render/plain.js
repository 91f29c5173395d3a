// A state of a fold as plain values, for trees, comparisons, and tests against Python's folds.

import { Table } from "../folds/fold.js";
import { Items } from "../folds/items.js";

export function plain(state) {
  if (state instanceof Items) return Array.from(state, (each) => each.record);
  if (state instanceof Map || state instanceof Table) {
    return Object.fromEntries([...state].map(([key, value]) => [key, plain(value)]));
  }
  if (Array.isArray(state)) return state.map(plain);
  if (state && typeof state === "object") {
    return Object.fromEntries(Object.entries(state).map(([key, value]) => [key, plain(value)]));
  }
  return state;
}
