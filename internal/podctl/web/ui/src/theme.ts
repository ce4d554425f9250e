// The page's colours: the browser's preference, or the user's choice, which lasts as long as the tab.
import { Changes } from "./store/changes.ts";

export type Theme = "light" | "dark";
const key = "podstream-theme";
const prefers = window.matchMedia("(prefers-color-scheme: dark)");

class ThemeStore {
  readonly changes = new Changes();
  private chosen: Theme | undefined;
  // Chromium sends no change event if prefers.matches is read after the change and before the next frame. So it is read once
  // here, and never while a view is drawn.
  private preferred: Theme = prefers.matches ? "dark" : "light";

  constructor() {
    const kept = sessionStorage.getItem(key);
    if (kept === "light" || kept === "dark") this.chosen = kept;
    prefers.addEventListener("change", (event) => {
      this.preferred = event.matches ? "dark" : "light";
      this.apply();
    });
    this.apply();
  }

  get now(): Theme {
    return this.chosen ?? this.preferred;
  }

  toggle() {
    this.chosen = this.now === "dark" ? "light" : "dark";
    sessionStorage.setItem(key, this.chosen);
    this.apply();
  }

  private apply() {
    document.documentElement.dataset.theme = this.now;
    this.changes.tell();
  }
}

export const theme = new ThemeStore();
