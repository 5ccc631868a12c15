// Small conveniences; every page works without them but for the live forecast and the progress of the lab.
(() => {
  "use strict";
  const near = (event, what) => (event.target instanceof Element ? event.target.closest(what) : null);
  const secret = document.querySelector('meta[name="form-secret"]');
  document.addEventListener("htmx:configRequest", (event) => {
    if (secret) event.detail.headers["X-Form-Secret"] = secret.content;
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.xhr.status >= 400 && event.detail.xhr.status < 600) event.detail.shouldSwap = true;
  });
  // a preview that arrives while its form is being changed keeps what was changed since it was asked for
  let changed = {};
  const fields = "#preview input[id], #preview select[id]";
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (near(event, "#preview, #upload")) changed = {};
  });
  document.addEventListener("input", (event) => {
    if (event.target.matches(fields)) changed[event.target.id] = event.target.type === "checkbox" ? event.target.checked : event.target.value;
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id !== "preview") return;
    const found = Object.keys(changed).map((id) => document.getElementById(id)).filter(Boolean);
    for (const field of found) field[field.type === "checkbox" ? "checked" : "value"] = changed[field.id];
    if (!found.length) return;
    found[found.length - 1].focus();
    event.detail.target.querySelector("button.recheck").click();
  });
  for (const kind of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      const zone = near(event, ".drop");
      if (!zone) return;
      event.preventDefault();
      zone.classList.toggle("over", kind === "dragover");
      const input = zone.querySelector('input[type="file"]');
      if (kind === "drop" && input && event.dataTransfer.files.length) {
        input.files = event.dataTransfer.files;
        input.dispatchEvent(new Event("change", { bubbles: true }));
      }
    });
  }
  document.addEventListener("change", (event) => {
    const form = near(event, "form");
    if (!form) return;
    const pick = near(event, ".drop")?.querySelector(".pick");
    if (pick && event.target.files.length) {
      pick.textContent = event.target.files[0].name;
      if (form.id === "upload") form.requestSubmit();
    }
    if (event.target.matches("[data-recheck]")) {
      const again = form.querySelector("button.recheck");
      if (again) again.click();
    }
  });
  // a time, a cost or an error: lower is better, as long as nobody chose
  const lower = /^(ns|us|µs|ms|s|sec|seconds?|min|minutes?|h|hours?|days?|costs?|errors?|defects?|complaints?)$/i;
  const direction = document.getElementById("direction");
  document.addEventListener("input", (event) => {
    if (!direction) return;
    if (event.target === direction) direction.dataset.chosen = "yes";
    if (event.target.id === "unit" && !direction.dataset.chosen) direction.value = lower.test(event.target.value.trim()) ? "lower" : "";
  });
  document.addEventListener("click", async (event) => {
    const button = near(event, "[data-copy]");
    if (!button) return;
    const text = document.getElementById(button.dataset.copy).textContent;
    try {
      await navigator.clipboard.writeText(text.trim());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it and copy";
    }
  });
  for (const each of document.querySelectorAll("[data-origin]")) each.textContent = location.origin + each.textContent;
  const watched = document.querySelector("[data-events]");
  if (watched && window.EventSource) {
    const source = new EventSource(watched.dataset.events);
    source.addEventListener("changed", (event) => {
      const now = JSON.parse(event.data).digest;
      if (now && now !== watched.dataset.digest) watched.hidden = false;
    });
    addEventListener("pagehide", () => source.close());
  }
})();
