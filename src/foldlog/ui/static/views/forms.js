// A form from a JSON schema, and what was filled in.

import { html } from "../core/reactive.js";

let numbered = 0;

// { node, value() }. Knows objects, texts, numbers, booleans, enumerations and lists of texts; for
// anything else it asks for JSON. `value()` throws where something is missing or no JSON.
export function form(schema, name = "answer", required = true) {
  const id = `field-${(numbered += 1)}`;
  const title = schema.title ?? name;
  const about = schema.description ? html`<small>${schema.description}</small>` : null;
  const labelled = (control, read) => ({
    node: html`<div class="field"><label for=${id}>${title}${required ? null : " (optional)"}</label>${control}${about}</div>`,
    value: () => read(control),
  });
  const missing = () => {
    throw new Error(`${title} is missing`);
  };
  if (Array.isArray(schema.enum)) {
    const control = html`<select id=${id}>${schema.enum.map((each, place) => html`<option value=${place}>${String(each)}</option>`)}</select>`.firstElementChild;
    return labelled(control, () => schema.enum[Number(control.value)]);
  }
  if (schema.type === "object" && schema.properties) {
    const needed = new Set(schema.required ?? []);
    const parts = Object.entries(schema.properties).map(([key, part]) => [key, form(part, key, needed.has(key))]);
    const node = html`<fieldset><legend>${title}</legend>${about}${parts.map(([, part]) => part.node)}</fieldset>`;
    const value = () => Object.fromEntries(parts.map(([key, part]) => [key, part.value()]).filter(([, v]) => v !== undefined));
    return { node, value };
  }
  if (schema.type === "boolean") {
    const control = html`<input type="checkbox" id=${id}>`.firstElementChild;
    if (schema.default) control.checked = true;
    return labelled(control, () => control.checked);
  }
  if (schema.type === "number" || schema.type === "integer") {
    const step = schema.type === "integer" ? "1" : "any";
    const control = html`<input type="number" id=${id} step=${step} min=${schema.minimum ?? null} max=${schema.maximum ?? null}>`.firstElementChild;
    return labelled(control, () => (control.value === "" ? (required ? missing() : undefined) : Number(control.value)));
  }
  if (schema.type === "string") {
    const control = html`<textarea id=${id} rows="2"></textarea>`.firstElementChild;
    control.value = schema.default ?? "";
    return labelled(control, () => control.value || (required ? missing() : undefined));
  }
  if (schema.type === "array" && schema.items?.type === "string") {
    const control = html`<textarea id=${id} rows="3" placeholder="one a line"></textarea>`.firstElementChild;
    return labelled(control, () => control.value.split("\n").filter(Boolean));
  }
  const control = html`<textarea id=${id} rows="3" placeholder="JSON"></textarea>`.firstElementChild;
  return labelled(control, () => {
    if (!control.value) return required ? missing() : undefined;
    try {
      return JSON.parse(control.value);
    } catch {
      throw new Error(`${title} is no JSON`);
    }
  });
}

// The schema that a question brings with it, if any.
export function schemaOf(asked) {
  if (!asked || typeof asked !== "object") return null;
  const schema = asked.schema ?? asked.json_schema ?? asked.input_schema ?? asked.requestedSchema;
  if (schema && typeof schema === "object") return schema;
  const choices = asked.options ?? asked.choices;
  return Array.isArray(choices) && choices.length ? { enum: choices, title: "answer" } : null;
}
