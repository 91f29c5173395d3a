// Dialogs, messages, and forms that both the page and its dialogs use.

import { html } from "../core/reactive.js";

export function dialog(title, body) {
  const node = html`<dialog aria-label=${title}><header><h2>${title}</h2>
    <button class="icon close" aria-label="Close">×</button></header></dialog>`.firstElementChild;
  const close = () => node.close();
  node.querySelector(".close").addEventListener("click", close);
  node.append(body(close));
  node.addEventListener("close", () => node.remove());
  document.body.append(node);
  node.showModal();
  return node;
}

export function toast(text, tone = "") {
  const region = document.getElementById("toasts");
  const node = html`<p class="toast" data-tone=${tone}>${text}</p>`.firstElementChild;
  region.append(node);
  node.addEventListener("click", () => node.remove());
  setTimeout(() => node.remove(), 6000);
}

// Run what a form does; its button waits, and an error is shown in its place.
export function submits(form, act) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const buttons = form.querySelectorAll("button");
    for (const each of buttons) each.disabled = true;
    const problem = form.querySelector(".problem");
    problem.textContent = "";
    try {
      await act(event.submitter?.value);
    } catch (error) {
      problem.textContent = error.errors ? error.errors.join("; ") : error.message;
    }
    for (const each of buttons) each.disabled = false;
  });
  return form;
}
