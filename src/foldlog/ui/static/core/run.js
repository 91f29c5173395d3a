// A run on the page: its log, the moment that is shown, and where its records come from.

import { address, get } from "./api.js";
import { Log } from "./log.js";
import { computed, signal } from "./reactive.js";

export class Run {
  constructor(kind, id) {
    this.kind = kind;
    this.id = id;
    this.log = new Log();
    this.moment = signal(null); // null: now, and it goes on; else a count of records
    this.state = signal("loading"); // loading, live, reconnecting, past, failed
    this.error = signal(null);
    this.pictures = null; // of a shared file
    this.count = computed(() => Math.min(this.moment.value ?? Infinity, this.log.count.value));
    this.isNow = computed(() => this.moment.value === null);
    this.states = computed(() => {
      this.log.version.value;
      return this.log.statesAt(this.count.value);
    });
    this.current = computed(() => this.log.records[this.count.value - 1] ?? null);
    this.ending = new AbortController();
  }

  get query() {
    return { [this.kind]: this.id };
  }

  // Read what there is page by page, then follow. `until`: a position at which to stop.
  async open({ at = null, follow = true } = {}) {
    try {
      const after = await this.read(500); // the first screen soon
      if (at) this.moment.value = this.log.countAt(at);
      if (follow) this.follow(after);
      else this.state.value = "past";
    } catch (error) {
      if (error.name === "AbortError") return;
      this.error.value = error;
      this.state.value = "failed";
    }
  }

  follow(after) {
    const source = new EventSource(address("events", { ...this.query, after }));
    let views = null;
    source.addEventListener("open", () => {
      this.state.value = "live";
    });
    source.addEventListener("message", (event) => this.log.append(JSON.parse(event.data)));
    source.addEventListener("views", (event) => {
      const found = JSON.parse(event.data).map((view) => JSON.stringify(view));
      // A view that came up while the connection was down: what it had before is read as well.
      if (views && found.some((name) => !views.has(name))) this.read();
      views = new Set(found);
    });
    source.addEventListener("failed", (event) => {
      this.error.value = new Error(JSON.parse(event.data).error.message);
      this.state.value = "failed";
      source.close();
    });
    source.addEventListener("error", () => {
      if (this.state.value !== "failed") this.state.value = "reconnecting";
    });
    this.ending.signal.addEventListener("abort", () => source.close());
  }

  // Read all there is, in pages, and return where they end.
  async read(limit = 5000) {
    let after = null;
    for (let more = true; more; limit = 5000) {
      const page = await get("records", { ...this.query, after, limit }, this.ending.signal);
      this.log.append(page.records);
      ({ position: after, more } = page);
    }
    return after;
  }

  // Show the moment after so many records; from the last on, follow again only if told to.
  show(count) {
    this.moment.value = Math.max(0, Math.min(count, this.log.count.value));
  }

  now() {
    this.moment.value = null;
  }

  end() {
    this.ending.abort();
  }

  static shared(data) {
    const run = new Run(data.run.kind, data.run.id);
    run.log.append(data.records);
    run.pictures = data.pictures;
    run.state.value = "past";
    return run;
  }
}
