// Every envelope, in order. Mirrors projections/foldlog_projections/items.py.
//
// Lists of growing length share one array: each knows how much of it is its own.

export class Items {
  constructor(shared = [], length = 0) {
    this.shared = shared;
    this.length = length;
  }

  append(envelope) {
    if (this.shared.length > this.length && this.shared[this.length] !== envelope) {
      return new Items([...this.shared.slice(0, this.length), envelope], this.length + 1);
    }
    if (this.shared.length === this.length) this.shared.push(envelope);
    return new Items(this.shared, this.length + 1);
  }

  at(place) {
    return place < this.length ? this.shared[place] : undefined;
  }

  // The last `count` envelopes, oldest first.
  latest(count) {
    return this.shared.slice(Math.max(this.length - count, 0), this.length);
  }

  *[Symbol.iterator]() {
    for (let place = 0; place < this.length; place++) yield this.shared[place];
  }
}
