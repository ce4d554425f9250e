// podctl web ends when the page isn't used for a while: user input is reported at most once a minute.
import { millis } from "../time.ts";
import { client } from "../api.ts";
import { stream } from "./stream.ts";

const every = 60000;
let sent = 0;

function used() {
  if (Date.now() - sent < every || stream.state !== "live") return;
  sent = Date.now();
  client.keepAlive({}, { timeoutMs: 10000 }).catch((error) => stream.end(error));
}

/** keepAlive reports user input until the returned function is called. */
export function keepAlive(): () => void {
  const kinds = ["keydown", "pointerdown", "wheel"];
  for (const kind of kinds) window.addEventListener(kind, used, { passive: true, capture: true });
  return () => {
    for (const kind of kinds) window.removeEventListener(kind, used, { capture: true });
  };
}

/** leftMillis returns the time until podctl web ends by itself if the page isn't used; undefined if it doesn't. */
export function leftMillis(): number | undefined {
  const ends = millis(stream.session?.endsAt);
  return ends === undefined ? undefined : ends - stream.now();
}
