// What every fold shares. Mirrors projections/foldlog_projections/fold.py.
//
// A fold is { initial(), apply(state, record, envelope), replaces?(record, type) }. States are
// never changed: `apply` returns another one that shares what stayed, so that any moment can be
// kept and shown again.

// The name under which an envelope replaces an earlier one of the same writer; null for nothing.
export function replacedBy(fold, envelope) {
  return fold.replaces ? fold.replaces(envelope.record, envelope.type) : null;
}

// Remembers, for each view, which ids it has applied and how far each writer has come.
export class Admission {
  constructor() {
    this.seen = new Set();
    this.newest = new Map();
  }

  // Whether an envelope takes effect: its id is new, and its writer has not replaced it already.
  // Returns "new", "overtaken" or "repeated".
  admit(fold, envelope) {
    if (this.seen.has(envelope.id)) return "repeated";
    this.seen.add(envelope.id);
    const replaced = replacedBy(fold, envelope);
    if (replaced === null || !envelope.writer) return "new";
    const key = JSON.stringify([replaced, envelope.writer]);
    if (envelope.number < (this.newest.get(key) ?? 0)) return "overtaken";
    this.newest.set(key, envelope.number);
    return "new";
  }
}

// A copy of a map with one more entry, or another value in the same place.
export function put(map, key, value) {
  return new Map(map).set(key, value);
}

// A copy of a map without some keys.
export function without(map, ...keys) {
  const copy = new Map(map);
  for (const key of keys) copy.delete(key);
  return copy;
}
