// The frame of the page: the bar with the state of the connections, the list of views, and the view in front.
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { Bar } from "./parts/bar.tsx";
import { Announcer } from "./parts/announce.tsx";
import { Help } from "./parts/help.tsx";
import { focusMain, useShortcuts } from "./keys.ts";
import { keepAlive } from "./store/idle.ts";
import { Nav, views } from "./parts/nav.tsx";
import { go, routes } from "./routes.ts";
import { show } from "./escape.ts";
import { stream } from "./store/stream.ts";
import { theme } from "./theme.ts";
import { useChanges } from "./store/changes.ts";

/** Locked is the page without a session. */
export function Locked(props: { reason: string }) {
  return (
    <main class="boot">
      <h1>This tab has no session</h1>
      {props.reason && <p role="alert">{show(props.reason)}</p>}
      <p>
        The page keeps its token in memory only, so a reload ends its session. A link works once, and for 60 seconds.
      </p>
      <p>Press Enter in the terminal of <code>podctl web</code> for a new link, or start it again.</p>
    </main>
  );
}

export function App() {
  useChanges(routes, stream, theme);
  const [help, setHelp] = useState(false);
  const offered = views(stream.session);
  const name = routes.now.path[0]!;
  const view = offered.find((one) => one.name === name) ?? offered[0]!;
  useEffect(() => keepAlive(), []);
  useEffect(() => {
    document.title = view.title + " · Podstream";
  }, [view]);
  // After a change of the view the keyboard is in the new view, unless the user is still in the list of views. An effect of
  // useEffect runs after the next frame: it would take the keyboard from what a key pressed meanwhile has opened.
  useLayoutEffect(() => {
    if (!document.activeElement?.closest(".nav, dialog")) focusMain();
  }, [routes.now.path.join("/")]);
  useShortcuts([
    ...offered.map((one) => ({ keys: "g " + one.key, text: one.title, run: () => go([one.name]) })),
    { keys: "?", text: "This list", run: () => setHelp(true) },
    { keys: "t", text: "Light or dark", run: () => theme.toggle() },
    { keys: "m", text: "The keyboard to the view", run: focusMain },
    { keys: "/", text: "Filter", run: () => document.querySelector<HTMLElement>("#main [type=search]")?.focus() },
  ]);
  return (
    <div class="frame">
      <a
        class="skip" href="#main"
        onClick={(event) => {
          event.preventDefault();
          focusMain();
        }}
      >
        Go to the view
      </a>
      <Bar onHelp={() => setHelp(true)} />
      <Nav views={offered} current={view} />
      <main class="main" id="main" tabIndex={-1} aria-label={view.title}>
        <view.View key={view.name} path={routes.now.path.slice(1)} />
      </main>
      <Announcer />
      {help && <Help onClose={() => setHelp(false)} />}
    </div>
  );
}
