"use strict";
(() => {
  const form = document.getElementById("filters");
  const search = document.getElementById("text");
  const said = document.getElementById("said");
  const filters = [...document.querySelectorAll("[data-filter]")];

  const collect = () => [...document.querySelectorAll("[data-item]")].map((element) => ({
    element,
    kind: element.dataset.item,
    values: Object.fromEntries(filters.map(({ id }) => [id, element.dataset[id]?.split(" ")])),
    text: element.dataset.words ?? element.textContent.toLowerCase(),
  }));

  let items = collect();

  // An item without values for a filter is none of those that it narrows.
  const shows = (item, wanted) =>
    wanted.choices.every(([id, value]) => item.values[id]?.includes(value) ?? true) &&
    wanted.words.every((word) => item.text.includes(word));

  const apply = () => {
    const wanted = {
      choices: filters.map(({ id, value }) => [id, value]).filter(([, value]) => value),
      words: search.value.toLowerCase().split(/\s+/).filter(Boolean),
    };
    const counts = {};
    for (const item of items) {
      const shown = shows(item, wanted);
      if (item.element.hidden === shown) item.element.hidden = !shown;
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
  document.addEventListener("pagechange", () => {
    items = collect();
    apply();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (event.key === "/" && !typing) {
      event.preventDefault();
      search.focus();
    }
  });
  apply();
})();
