// What every fold shares. Mirrors projections/foldlog_projections/fold.py.
//
// A fold is { initial(), apply(state, record, envelope), replaces?(record, type) }. States are
// never changed: `apply` returns another one that shares what stayed, so that any moment can be
// stored and shown again.

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
    const replaced = fold.replaces?.(envelope.record, envelope.type) ?? null; // of the same writer
    if (replaced === null || !envelope.writer) return "new";
    const key = JSON.stringify([replaced, envelope.writer]);
    if (envelope.number < (this.newest.get(key) ?? 0)) return "overtaken";
    this.newest.set(key, envelope.number);
    return "new";
  }
}

const GONE = Symbol("gone");

// A map that is never changed: `put` and `without` return another one. All of them share one
// history, and each sees its part, so that a change costs the same however large the map is.
export class Table {
  constructor(history = { changed: [], entries: [], newest: new Map() }, version = 0, size = 0) {
    Object.assign(this, { history, version, size });
  }

  get(key) {
    let entry = this.history.newest.get(key);
    while (entry && entry.since[0] > this.version) entry = entry.before;
    const value = entry?.values[lastUpTo(entry.since, this.version)];
    return value === GONE ? undefined : value;
  }

  has(key) {
    return this.get(key) !== undefined;
  }

  put(key, value) {
    const { history, version, size } = this;
    const made = new Table(history, version + 1, size + (value !== GONE) - this.has(key));
    let entry = history.newest.get(key);
    if (version < history.changed.length) {
      // Something was put already: the same, where a moment is folded again; else they part.
      while (entry && entry.since[0] > made.version) entry = entry.before;
      const place = entry ? lastUpTo(entry.since, made.version) : -1;
      if (entry?.since[place] === made.version && entry.values[place] === value) return made;
      let other = new Table();
      for (const each of this) other = other.put(...each);
      return other.put(key, value);
    }
    if (!entry || entry.values.at(-1) === GONE) {
      entry = { key, before: entry, since: [], values: [] }; // what comes again is the last
      history.entries.push(entry);
      history.newest.set(key, entry);
    }
    history.changed.push(key);
    entry.since.push(made.version);
    entry.values.push(value);
    return made;
  }

  without(keys) {
    return keys.filter((key) => this.has(key)).reduce((made, key) => made.put(key, GONE), this);
  }

  // The keys that have another value than in `before`, and perhaps some that have not.
  changedSince(before) {
    if (before.history !== this.history) return new Set([...before.keys(), ...this.keys()]);
    const [from, to] = [before.version, this.version].sort((a, b) => a - b);
    return new Set(this.history.changed.slice(from, to));
  }

  *[Symbol.iterator]() {
    for (const { key, since, values } of this.history.entries) {
      if (since[0] > this.version) return;
      const value = values[lastUpTo(since, this.version)];
      if (value !== GONE) yield [key, value];
    }
  }

  keys() {
    return Array.from(this, ([key]) => key);
  }

  values() {
    return Array.from(this, ([, value]) => value);
  }
}

// The first place below a count at which, and behind which, a test holds.
export function firstWhere(count, test) {
  let low = 0;
  for (let high = count; low < high; ) {
    const middle = (low + high) >> 1;
    if (test(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

const lastUpTo = (versions, version) => firstWhere(versions.length, (place) => versions[place] > version) - 1;
