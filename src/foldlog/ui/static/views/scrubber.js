// The moment that is shown: drag, play, step, or follow. A native slider does the keyboard.

import { computed, effect, element, html, onEnd, signal } from "../core/reactive.js";
import { clock, count, moment } from "../core/format.js";
import { groupOf } from "./labels.js";

const SPEEDS = [1, 4, 16, 64]; // records a second
export const scrubber = element("fl-scrubber", (host) => {
  const { run } = host;
  const playing = signal(false);
  const speed = signal(SPEEDS[1]);
  const total = computed(() => run.log.count.value);
  const canvas = document.createElement("canvas");
  canvas.setAttribute("aria-hidden", "true");

  effect(() => {
    if (!playing.value) return;
    const timer = setInterval(() => {
      const next = run.count.value + Math.max(1, Math.round(speed.value / 16));
      run.show(next);
      if (next >= run.log.count.value) playing.value = false;
    }, 1000 / Math.min(speed.value, 16));
    onEnd(() => clearInterval(timer));
  });
  const play = (host.play = () => {
    if (!playing.value && run.count.value >= total.value) run.show(0);
    playing.value = !playing.value;
  });
  const step = (host.step = (by) => {
    playing.value = false;
    run.show(run.count.value + by);
  });

  let frame = 0;
  effect(() => {
    total.value;
    run.log.version.value;
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => draw(canvas, run.log.records));
  });
  const watcher = new ResizeObserver(() => draw(canvas, run.log.records));
  watcher.observe(host);
  onEnd(() => watcher.disconnect());

  const slider = html`<input type="range" min="0" step="1" aria-label="Moment"
    aria-valuetext=${() => valueText(run)}
    @input=${(event) => {
      playing.value = false;
      run.show(Number(event.target.value));
    }}>`.firstElementChild;
  effect(() => Object.assign(slider, { max: total.value, value: run.count.value })); // in this order

  return html`<div class="transport" role="group" aria-label="Playback">
      <button class="icon" title="Back one record (←)" aria-label="Back one record" @click=${() => step(-1)}>‹</button>
      <button class="icon play" title="Play (space)" aria-label=${() => (playing.value ? "Stop" : "Play")} @click=${play}>${() => (playing.value ? "❚❚" : "►")}</button>
      <button class="icon" title="On one record (→)" aria-label="On one record" @click=${() => step(1)}>›</button>
      <label class="speed"><span class="hidden">Speed</span><select aria-label="Records a second" @change=${(event) => (speed.value = Number(event.target.value))}>
        ${SPEEDS.map((each) => html`<option value=${each} ?selected=${each === 4}>${each}/s</option>`)}</select></label>
    </div>
    <div class="track">${canvas}${slider}</div>
    <output class="where" aria-live="off">
      <span class="n">${() => `${count(run.count.value)} / ${count(total.value)}`}</span>
      <time title=${() => (run.current.value ? moment(run.current.value.recorded_at) : "")}>${() => (run.current.value ? clock(run.current.value.recorded_at) : "before all")}</time>
    </output>
    <button class="live" aria-pressed=${() => String(run.isNow.value)} data-state=${() => run.state.value}
      title="Jump to now and follow (l)" @click=${() => {
        playing.value = false;
        if (run.isNow.value) run.show(total.value);
        else run.now();
      }}>${() => liveText(run)}</button>`;
});

function liveText(run) {
  const state = run.state.value;
  if (!run.isNow.value) return state === "past" ? "To the end" : "Jump to now";
  if (state === "live") return "Following";
  return { loading: "Loading", reconnecting: "Reconnecting" }[state] ?? "The end";
}

function valueText(run) {
  const current = run.current.value;
  return current ? `record ${run.count.value}, ${moment(current.recorded_at)}` : "before the first record";
}

// The number of records of each group along the log, as columns.
function draw(canvas, records) {
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (!width) return;
  const scale = devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const colours = new Map(); // as the style sheet has them
  const colour = (group) => {
    const probe = html`<i class="dot" data-group=${group}></i>`.firstElementChild;
    canvas.after(probe);
    colours.set(group, getComputedStyle(probe).backgroundColor);
    probe.remove();
    return colours.get(group);
  };
  const columns = Math.min(records.length, Math.floor(width / 3));
  const each = width / columns;
  for (let column = 0; column < columns; column++) {
    const from = Math.floor((column * records.length) / columns);
    const to = Math.max(Math.floor(((column + 1) * records.length) / columns), from + 1);
    const count = Math.min(to - from, 12);
    for (let at = 0; at < count; at++) {
      const group = groupOf(records[from + Math.floor((at * (to - from)) / count)]);
      context.fillStyle = colours.get(group) ?? colour(group);
      context.fillRect(column * each, (at * height) / count, Math.max(each - 1, 1), Math.max(height / count - 0.5, 1));
    }
  }
}
