// Content as it is best read: text as Markdown, pictures and files of artifacts, all else as a tree.

import { html } from "../core/reactive.js";
import { address } from "../core/api.js";
import { bytes, visible } from "../core/format.js";
import { json } from "./json.js";
import { markdown } from "./markdown.js";

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);
const DATA_PICTURE = /^data:image\/(png|jpeg|gif|webp|avif);base64,[A-Za-z0-9+/=]+$/;

export function content(value, options) {
  if (typeof value === "string") {
    const parsed = parsedJson(value);
    if (parsed !== undefined) return json(parsed, options);
    if (DATA_PICTURE.test(value)) return picture(value, "A picture");
    return markdown(value);
  }
  if (value && typeof value === "object" && !Array.isArray(value)) {
    const names = Object.keys(value);
    const text = value.text ?? value.answer;
    if (typeof text === "string" && names.length === 1) return markdown(text);
  }
  return json(value, options);
}

// What a text holds where it is a JSON object or list; else undefined.
export function parsedJson(text) {
  if (!/^\s*[[{]/.test(text) || text.length > 200_000) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function picture(source, name) {
  const image = document.createElement("img");
  image.className = "picture";
  image.loading = "lazy";
  image.alt = name;
  image.src = source;
  return image;
}

// An artifact: its picture, or a link to it. In a shared file only pictures came along.
export function artifact(run, saved) {
  const id = saved.artifact_id;
  const name = visible(saved.filename ?? id);
  const about = `${saved.mime_type ?? "bytes"}, ${bytes(saved.size_bytes)}`;
  const session = run.kind === "session" ? run.id : null;
  const source = run.pictures ? run.pictures[id] : address("artifact", { id, session });
  const shown = PICTURES.has(saved.mime_type) && source ? picture(source, name) : null;
  return html`<figure class="artifact">
    ${shown}
    <figcaption>
      ${run.pictures ? name : html`<a href=${source} target="_blank" rel="noopener">${name}</a>`}
      <span class="quiet">${about}</span>
    </figcaption>
  </figure>`;
}
