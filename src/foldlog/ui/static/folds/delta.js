// Deltas between values. Mirrors projections/foldlog_projections/delta.py.

// What `delta` makes of `value`, which stays as it is.
export function patch(value, delta) {
  switch (delta[0]) {
    case 0:
      return delta[1];
    case 1: {
      const made = { ...value };
      for (const key of delta[2]) delete made[key];
      for (const [key, change] of Object.entries(delta[1])) made[key] = patch(made[key], change);
      return made;
    }
    case 2: {
      const [, edits, at, dropped, items] = delta;
      const made = [...value];
      for (const [index, change] of edits) made[index] = patch(made[index], change);
      made.splice(at, dropped, ...items);
      return made;
    }
    case 3:
      return value + delta[1];
    default:
      throw new Error(`operation ${delta[0]} is not known to this version`);
  }
}

// The delta whose parts these are. Parts of encoded bytes cannot be put together here.
export function joined(parts) {
  return typeof parts[0] === "string" ? [[0, "(a large value, not shown)"]] : parts;
}
