"use strict";
(() => {
  const form = document.getElementById("filters");
  const field = (id) => document.getElementById(id);
  const said = field("said");
  const items = [...document.querySelectorAll("[data-item]")].map((element) => ({
    element,
    kind: element.dataset.item,
    namespaces: (element.dataset.namespace || "").split(" "),
    verdict: element.dataset.verdict,
    severities: (element.dataset.severity || "").split(" "),
    text: element.textContent.toLowerCase(),
  }));

  const shows = (item, wanted) =>
    (!wanted.namespace || item.namespaces.includes(wanted.namespace)) &&
    (!wanted.verdict || item.kind !== "workload" || item.verdict === wanted.verdict) &&
    (!wanted.severity || item.kind !== "conflict" || item.severities.includes(wanted.severity)) &&
    wanted.words.every((word) => item.text.includes(word));

  const apply = () => {
    const wanted = {
      namespace: field("namespace").value,
      verdict: field("verdict").value,
      severity: field("severity").value,
      words: field("text").value.toLowerCase().split(/\s+/).filter(Boolean),
    };
    const counts = {};
    for (const item of items) {
      const shown = shows(item, wanted);
      item.element.hidden = !shown;
      const count = (counts[item.kind] ??= { shown: 0, all: 0 });
      count.all += 1;
      count.shown += shown ? 1 : 0;
    }
    for (const place of document.querySelectorAll("[data-count]")) {
      const { shown, all } = counts[place.dataset.count] ?? { shown: 0, all: 0 };
      place.textContent = shown === all ? String(all) : `${shown} of ${all}`;
    }
  };

  // Without the clipboard, the text is selected, so that a key copies it.
  const select = (element) => {
    const selection = window.getSelection();
    selection.removeAllRanges();
    const range = document.createRange();
    range.selectNodeContents(element);
    selection.addRange(range);
  };

  const tell = (button, words) => {
    const before = "Copy";
    button.textContent = words;
    said.textContent = words;
    setTimeout(() => { button.textContent = before; }, 2000);
  };

  const copy = async (button) => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      tell(button, "Copied");
    } catch {
      select(code);
      tell(button, document.execCommand("copy") ? "Copied" : "Selected");
    }
  };

  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("change", apply);
  form.addEventListener("reset", () => setTimeout(apply));
  form.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (event.key === "/" && !typing) {
      event.preventDefault();
      field("text").focus();
    }
  });
  apply();
})();
