"use strict";
// The page stays what its server says: a small document tells whether there is a new state, which replaces what differs.
(() => {
  const usual = 3000;
  const longest = 60000;
  const state = document.getElementById("live");
  const pause = document.getElementById("pause");
  let wait = usual;
  let timer;

  const parsed = async (address) => {
    const answer = await fetch(address, { cache: "no-cache" });
    if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  };

  const fill = async (row) => {
    const place = row.querySelector(":scope > [data-load]");
    if (!place || place.childElementCount > 0) return;
    try {
      place.replaceChildren(...(await parsed(place.dataset.load)).body.childNodes);
    } catch (error) {
      place.textContent = `This cannot be shown: ${error.message}. Close and open it to try again.`;
    }
  };

  // What is open stays open, with the new content.
  const renewed = (old, fresh) => {
    const next = document.adoptNode(fresh);
    if (old.open) {
      next.open = true;
      fill(next);
    }
    return next;
  };

  const mergeList = (list, fresh) => {
    const known = new Map([...list.children].map((row) => [row.dataset.key, row]));
    let at = list.firstElementChild;
    for (const row of [...fresh.children]) {
      const old = known.get(row.dataset.key);
      known.delete(row.dataset.key);
      if (!old) {
        list.insertBefore(document.adoptNode(row), at);
        continue;
      }
      let place = old;
      if (old.dataset.stamp !== row.dataset.stamp) {
        const after = old === at ? at.nextElementSibling : at;
        place = renewed(old, row);
        old.replaceWith(place);
        at = after;
        if (place.nextElementSibling !== at) list.insertBefore(place, at);
      } else if (old === at) {
        at = at.nextElementSibling;
      } else {
        list.insertBefore(old, at);
      }
    }
    for (const gone of known.values()) gone.remove();
  };

  const mergeFilter = (select, fresh) => {
    if (select.innerHTML === fresh.innerHTML) return;
    const chosen = select.value;
    select.replaceChildren(...fresh.children);
    select.value = [...select.options].some(({ value }) => value === chosen) ? chosen : "";
  };

  // Tables in a part stay open.
  const replacePart = (part, fresh) => {
    const open = [...part.querySelectorAll("details")].map((one) => one.open);
    const next = document.adoptNode(fresh);
    next.querySelectorAll("details").forEach((one, index) => { one.open = open[index] ?? false; });
    part.replaceWith(next);
  };

  const merge = (fresh) => {
    const focused = document.activeElement;
    const row = focused?.closest?.("[data-key]")?.dataset.key;
    for (const part of document.querySelectorAll("[data-part]")) {
      const next = fresh.getElementById(part.id);
      if (next && next.dataset.stamp !== part.dataset.stamp) replacePart(part, next);
    }
    for (const list of document.querySelectorAll("[data-list]")) {
      const next = fresh.getElementById(list.id);
      if (next) mergeList(list, next);
    }
    for (const select of document.querySelectorAll("select[data-filter]")) {
      const next = fresh.getElementById(select.id);
      if (next) mergeFilter(select, next);
    }
    document.body.dataset.revision = fresh.body.dataset.revision;
    document.dispatchEvent(new Event("pagechange"));
    // A row that was replaced had the focus.
    if (row && !focused.isConnected) {
      const rows = [...document.querySelectorAll("[data-key]")];
      rows.find((other) => other.dataset.key === row)?.querySelector("summary")?.focus({ preventScroll: true });
    }
  };

  const show = (words, stale) => {
    if (state.textContent === words) return;
    state.textContent = words;
    state.classList.toggle("stale", stale);
  };

  const paused = () => pause.getAttribute("aria-pressed") === "true";

  const poll = async () => {
    clearTimeout(timer);
    if (document.hidden || paused()) return;
    try {
      const answer = await fetch("revision.json", { cache: "no-cache" });
      if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
      const { revision, time } = await answer.json();
      if (paused()) return;
      if (String(revision) !== document.body.dataset.revision) merge(await parsed("./"));
      show(`Live, as of ${time}`, false);
      wait = usual;
    } catch (error) {
      show(`Not live: ${error.message}; trying again`, true);
      wait = Math.min(wait * 2, longest);
    }
    timer = setTimeout(poll, wait);
  };

  document.addEventListener("toggle", (event) => {
    if (event.target.open) fill(event.target);
  }, true);
  document.addEventListener("visibilitychange", poll);
  pause.addEventListener("click", () => {
    pause.setAttribute("aria-pressed", String(!paused()));
    show(paused() ? "Updates are paused" : "Updating", false);
    poll();
  });
  pause.hidden = false;
  timer = setTimeout(poll, usual);
})();
