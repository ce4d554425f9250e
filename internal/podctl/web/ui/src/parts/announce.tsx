// Announcements for screen readers: at most one every 4 s, the latest wins, so that a busy stream doesn't talk all the
// time.
import { useEffect, useState } from "preact/hooks";
import { Changes } from "../store/changes.ts";

const pause = 4000;
const changes = new Changes();
let text = "";
let waiting: string | undefined;
let free = 0;
let timer: number | undefined;

/** announce has a screen reader read a text when it is idle. */
export function announce(next: string) {
  waiting = next;
  if (timer !== undefined) return;
  timer = window.setTimeout(() => {
    timer = undefined;
    free = performance.now() + pause;
    text = waiting ?? "";
    waiting = undefined;
    changes.tell();
  }, Math.max(50, free - performance.now()));
}

/** Announcer is the live region. It is in the document once. */
export function Announcer() {
  const [, draw] = useState(0);
  useEffect(() => changes.listen(() => draw((n) => n + 1)), []);
  return <div class="hidden" role="status" aria-live="polite">{text}</div>;
}
