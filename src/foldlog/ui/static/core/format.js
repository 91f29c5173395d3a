// Times, sizes and texts for people. Foreign text never moves the cursor nor reorders what is
// around it: what a terminal or the bidi algorithm would obey is shown as its code.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

export function visible(text) {
  return text.replace(HIDDEN, (c) => `⟨${c.codePointAt(0).toString(16).padStart(4, "0")}⟩`);
}

export function clip(text, length = 160) {
  const line = visible(text.length > length * 4 ? text.slice(0, length * 4) : text);
  const even = line.replace(/\s+/g, " ").trim();
  return even.length > length ? `${even.slice(0, length - 1)}…` : even;
}

export function clock(seconds) {
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return String(seconds);
  return date.toLocaleTimeString([], { hour12: false }) + `.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

export function moment(seconds) {
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return String(seconds);
  return `${date.toLocaleDateString([], { day: "numeric", month: "short", year: "numeric" })}, ${clock(seconds)}`;
}

export function ago(seconds) {
  if (!seconds) return "–";
  const past = Math.max(Date.now() / 1000 - seconds, 0);
  const [size, unit] = [[129_600, 86_400, "d"], [5_400, 3_600, "h"], [90, 60, "min"], [5, 1, "s"]].find(([from]) => past >= from)?.slice(1) ?? [];
  return unit ? `${Math.round(past / size)} ${unit} ago` : "just now";
}

export function duration(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  return seconds < 90 ? `${seconds.toFixed(1)} s` : `${(seconds / 60).toFixed(1)} min`;
}

export const count = (value) => Number(value).toLocaleString("en");
export const plural = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;

export function bytes(value) {
  for (const unit of ["B", "kB", "MB"]) {
    if (value < 1000) return `${unit === "B" ? value : value.toFixed(1)} ${unit}`;
    value /= 1000;
  }
  return `${value.toFixed(1)} GB`;
}

export const money = (value) => `$${value < 0.1 ? value.toFixed(4) : value.toFixed(2)}`;
