// Changes tells views that a store has changed. A burst of changes is one notification, at most every 150 ms, before a
// frame is drawn: 50 revisions in a second are drawn 6 times.
import { useEffect, useState } from "preact/hooks";

const interval = 150;
const pending = new Set<Changes>();
let timer: number | undefined;
let last = 0;

function flush() {
  timer = undefined;
  last = performance.now();
  const now = [...pending];
  pending.clear();
  for (const changes of now) changes.tell();
}

function schedule() {
  if (timer !== undefined) return;
  timer = window.setTimeout(() => {
    // A hidden tab gets no frames; its views are drawn late, while the stores stay bounded.
    if (document.hidden) flush();
    else requestAnimationFrame(flush);
  }, Math.max(0, interval - (performance.now() - last)));
}

/** Changes is what a store owns to tell of its changes. */
export class Changes {
  private readonly listeners = new Set<() => void>();

  /** changed schedules a notification. */
  changed() {
    pending.add(this);
    schedule();
  }

  /** tell calls the listeners. Only flush and listeners of the user's own actions call it. */
  tell() {
    for (const listener of [...this.listeners]) listener();
  }

  /** listen registers a listener, and returns the function that removes it. */
  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** useChanges draws the component again when one of the stores has changed. */
export function useChanges(...all: { changes: Changes }[]): void {
  const [, draw] = useState(0);
  useEffect(() => {
    const ends = all.map((store) => store.changes.listen(() => draw((n) => n + 1)));
    // The stores may have changed between the first drawing and this.
    draw((n) => n + 1);
    return () => ends.forEach((end) => end());
  }, all);
}

/** useNow draws the component every second or so, for ages. It returns the time. */
export function useNow(every = 1000): number {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    const id = window.setInterval(() => set(Date.now()), every);
    return () => window.clearInterval(id);
  }, [every]);
  return now;
}
