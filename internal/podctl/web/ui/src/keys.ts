// The keyboard: shortcuts of the page and of the view in front. They don't fire while the user types, in the terminal, or
// in a dialog.
import { useLayoutEffect } from "preact/hooks";

export interface Shortcut { keys: string; text: string; run: () => void }

const sets = new Set<Shortcut[]>();
let started = "";
let startedAt = 0;

/** shortcuts returns all that work now, for the list of them. */
export function shortcuts(): Shortcut[] {
  return [...sets].flat();
}

/** useShortcuts registers shortcuts while the component is in the document. keys is one key, or two in a row: "g p". */
export function useShortcuts(list: Shortcut[]) {
  // An effect of useEffect runs after the next frame: until then the keys of a view that is shown already would be lost.
  useLayoutEffect(() => {
    sets.add(list);
    return () => {
      sets.delete(list);
    };
  });
}

function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.closest("dialog, .tty")) return true;
  if (target instanceof HTMLInputElement) return !["checkbox", "radio", "range", "button"].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (typing(event.target)) {
    if (event.key === "Escape" && event.target instanceof HTMLInputElement) focusMain();
    return;
  }
  const two = started && performance.now() - startedAt < 1500 ? started + " " + event.key : "";
  started = "";
  const all = shortcuts();
  const found = all.find((one) => one.keys === two) ?? all.find((one) => one.keys === event.key);
  if (found) {
    event.preventDefault();
    found.run();
  } else if (all.some((one) => one.keys.startsWith(event.key + " "))) {
    started = event.key;
    startedAt = performance.now();
  }
});

// What a view gives the keyboard to: the first of these that it has.
const first = ["[data-first]", ".grid", ".text", "[role=tab][aria-selected=true]", ".head select", ".head button"];

/** focusMain gives the keyboard to the view: to its first grid, or another part of it, or to the view itself. */
export function focusMain() {
  const main = document.getElementById("main");
  for (const selector of first) {
    const found = main?.querySelector<HTMLElement>(selector);
    if (found) {
      found.focus();
      return;
    }
  }
  main?.focus();
}
