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
    this.state = signal("loading"); // loading, live, reconnecting, past
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

  // Follow the run: what there is, then what comes. `at`: the position of the moment to show;
  // without `follow` it ends with what there is.
  open({ at = null, follow = true } = {}) {
    const source = new EventSource(address("events", this.query));
    const end = () => source.close();
    const on = (name, act) => source.addEventListener(name, ({ data }) => act(data && JSON.parse(data)));
    const again = () => {
      end();
      if (!this.ending.signal.aborted) this.open({ at, follow });
    };
    on("message", (records) => this.log.append(records));
    let resumes = false; // a stream that does brings what is new
    on("views", (found) => {
      const firsts = new Map(found.map(([view, first]) => [JSON.stringify(view), first]));
      const knows = (name) => this.log.admissions.get(name)?.seen.has(firsts.get(name));
      const isCleared = [...this.log.admissions.keys()].some((name) => !knows(name));
      if (isCleared) this.log.clear();
      if (resumes && [...firsts].some(([name, first]) => first && !knows(name))) again();
      resumes = true;
    });
    on("live", () => {
      if (at) this.moment.value = this.log.countAt(at);
      at = null;
      this.error.value = null;
      this.state.value = follow ? "live" : "past";
      if (!follow) end();
    });
    on("failed", ({ error }) => (this.error.value = error)); // the browser connects again
    on("error", () => {
      this.state.value = "reconnecting";
      if (source.readyState === EventSource.CLOSED) this.refused(again);
    });
    this.ending.signal.addEventListener("abort", end);
  }

  // The browser tries no more: say why, and try again once somebody is let in.
  async refused(again) {
    try {
      await get("about", {}, this.ending.signal);
      this.error.value = null;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.error.value = error;
    }
    setTimeout(again, 2000);
  }

  // Show the moment after so many records; from the last on, follow again only if asked to.
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
