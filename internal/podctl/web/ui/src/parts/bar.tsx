// The bar at the top: which node this is, and whether what is shown is current. It has the same size in each state, so
// that the layout stays when a stream breaks.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Connection, ConnectionState } from "../../gen/podweb/v1/topics_pb.ts";
import type { Daemon } from "../../gen/podweb/v1/podweb_pb.ts";
import { announce } from "./announce.tsx";
import { call, client, errorText } from "../api.ts";
import { clock, full, millis, span } from "../time.ts";
import { leftMillis } from "../store/idle.ts";
import { show } from "../escape.ts";
import { stream } from "../store/stream.ts";
import { theme } from "../theme.ts";
import { useChanges, useNow } from "../store/changes.ts";

/** health returns the class and the word of a connection's state. */
export function health(connection: Connection | undefined): [string, string] {
  switch (connection?.state) {
    case ConnectionState.LIVE: return ["ok", "live"];
    case ConnectionState.BROKEN: return ["bad", "broken"];
    case ConnectionState.ENDED: return ["", "off"];
    default: return ["info", "connecting"];
  }
}

/** asked returns the daemons that the page shows: a gateway has no podexecd. */
function asked(): readonly Daemon[] {
  const session = stream.session;
  return session?.daemons.filter((one) => !session.gateway || one.name !== "podexecd") ?? [];
}

/** standing describes the stream in one sentence; empty while all is live. */
function standing(): string {
  switch (stream.state) {
    case "opening": return "The stream is being opened.";
    case "over": return "The session has ended: podctl web was ended or restarted. What is shown is of " + clock(stream.since) + ".";
    case "broken":
      return "The stream broke at " + clock(stream.since) + ": " + show(stream.text, 500) + " What is shown is of then; the page tries again.";
  }
  const broken = asked().filter((one) => one.connection?.state === ConnectionState.BROKEN);
  return broken.map((one) =>
    one.name + " can't be reached since " + clock(millis(one.connection?.since)) + ": " + show(one.connection?.text, 300) +
    " What is shown of it is of then.").join(" ");
}

function Chip(props: { name: string; state: string; word: string; title: string }) {
  return (
    <span class={"state " + props.state} title={props.title}>
      <span class="muted">{props.name}</span> {props.word}
    </span>
  );
}

export function Bar(props: { onHelp: () => void }) {
  useChanges(stream, theme);
  useNow(5000);
  const [error, setError] = useState("");
  const said = useRef(false);
  const session = stream.session;
  const node = session?.daemons.find((one) => one.nodeName)?.nodeName;
  const text = error || standing();
  const left = leftMillis();
  const ending = stream.state === "live" && left !== undefined && left < 120000;
  useEffect(() => {
    if (text && stream.state !== "opening") announce(text);
    else if (!text && said.current) announce("All streams go on.");
    said.current = text !== "" && stream.state !== "opening";
  }, [text]);
  const another = async () => {
    try {
      const { ticket } = await client.newTicket({}, call);
      if (!/^[A-Za-z0-9_-]{1,512}$/.test(ticket)) return;
      window.open(location.pathname + "#token=" + ticket, "_blank", "noopener");
      setError("");
    } catch (failure) {
      stream.end(failure);
      setError(show(errorText(failure), 500));
    }
  };
  return (
    <header class="bar">
      <span class="brand"><img src="icon.svg" alt="" /> Podstream</span>
      <span class="where">
        {node && <strong class="cut">{show(node, 253)}</strong>}
        {session?.gateway && <span class="tag info">gateway</span>}
        {session?.recording && <span class="tag restore cut" title={show(session.recording)}>recording {show(session.recording, 60)}</span>}
      </span>
      <span class={"grow cut standing " + (stream.state === "over" ? "bad" : "warn")} title={text}>
        {text || (ending ? "podctl web ends in " + span(left) + " unless the page is used." : "")}
      </span>
      {session && session.cspReports > 0 && (
        <Chip
          name="content policy" state="bad" word={session.cspReports + (session.cspReports === 1 ? " violation" : " violations")}
          title="A browser has reported that the page violated its content security policy. This is an error of podctl, or an attack: end podctl web."
        />
      )}
      {stream.state === "live"
        ? asked().map((one) => {
          const [state, word] = health(one.connection);
          return (
            <Chip
              name={show(one.name, 20)} state={state} word={word}
              title={show(one.endpoint, 200) + " " + show(one.version, 100) + " " + show(one.connection?.text, 300)}
            />
          );
        })
        : <Chip name="podctl web" state={stream.state === "over" ? "bad" : stream.state === "broken" ? "bad" : "info"} word={stream.state} title={show(stream.text, 500)} />}
      {stream.state === "broken" && <button type="button" class="button" onClick={() => stream.retry()}>Try now</button>}
      <button type="button" class="button plain" onClick={another} disabled={stream.state !== "live"} title="Open another tab">New tab</button>
      <button
        type="button" class="button plain" onClick={() => theme.toggle()}
        title={"The clock of podctl: " + full(stream.now())}
      >
        {theme.now === "dark" ? "Light" : "Dark"}
      </button>
      <button type="button" class="button plain" aria-label="Keys and help" onClick={props.onHelp}>?</button>
    </header>
  );
}
