// Small conveniences; every page works without them but for the live forecast.
(() => {
  "use strict";
  const secret = document.querySelector('meta[name="form-secret"]');
  document.addEventListener("htmx:configRequest", (event) => {
    if (secret) event.detail.headers["X-Form-Secret"] = secret.content;
  });
  document.addEventListener("dragover", (event) => {
    const zone = event.target.closest && event.target.closest(".drop");
    if (zone) { event.preventDefault(); zone.classList.add("over"); }
  });
  document.addEventListener("dragleave", (event) => {
    const zone = event.target.closest && event.target.closest(".drop");
    if (zone) zone.classList.remove("over");
  });
  document.addEventListener("drop", (event) => {
    const zone = event.target.closest && event.target.closest(".drop");
    if (!zone) return;
    event.preventDefault();
    zone.classList.remove("over");
    const input = zone.querySelector('input[type="file"]');
    if (input && event.dataTransfer.files.length) {
      input.files = event.dataTransfer.files;
      input.dispatchEvent(new Event("change", { bubbles: true }));
    }
  });
  document.addEventListener("click", async (event) => {
    const button = event.target.closest && event.target.closest("[data-copy]");
    if (!button) return;
    const text = document.getElementById(button.dataset.copy).textContent;
    await navigator.clipboard.writeText(text.trim());
    button.textContent = "Copied";
  });
  const watched = document.querySelector("[data-events]");
  if (watched && window.EventSource) {
    let first = true;
    const source = new EventSource(watched.dataset.events);
    source.addEventListener("changed", () => {
      if (!first) watched.hidden = false;
      first = false;
    });
    window.addEventListener("pagehide", () => source.close());
  }
})();
