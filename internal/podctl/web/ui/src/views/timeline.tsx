// The timeline: every revision with each op and its source, as it happens, and back to where the history begins.
import { useEffect, useMemo, useState } from "preact/hooks";
import { Asof, emptiness } from "../parts/opening.tsx";
import { clock, full, millis } from "../time.ts";
import { type Column, Grid } from "../parts/grid.tsx";
import { fullName, matches } from "./pods.tsx";
import { type Line, timeline } from "../store/timeline.ts";
import { Moment } from "./moment.tsx";
import { type Revision, RevisionKind } from "../../gen/podweb/v1/topics_pb.ts";
import { routes, setQuery } from "../routes.ts";
import { Scrub } from "./scrub.tsx";
import { show } from "../escape.ts";
import { stream } from "../store/stream.ts";
import { useChanges } from "../store/changes.ts";
import { useShortcuts } from "../keys.ts";
import { useStore } from "../store/stores.ts";

/** kindText says how a revision is known, if not exactly. */
export function kindText(revision: Revision): string {
  switch (revision.kind) {
    case RevisionKind.CATCH_UP: return "catch-up";
    case RevisionKind.INITIAL: return "initial";
    default: return "";
  }
}

/** names lists the first pods of an op. */
function names(line: Line): string {
  const op = line.op;
  if (!op) return line.missed ? line.missed + " revisions came too fast and were left out" : "no op concerns this view";
  if (op.sourceBecameReady && op.pods.length === 0) return "the source is ready";
  const rest = op.pods.length - 4 + op.omittedPods;
  return op.pods.slice(0, 4).map((pod) => show(fullName(pod), 120)).join(", ") + (rest > 0 ? " and " + rest + " more" : "");
}

/** what is the first changed line of the op's only pod, or how many pods changed in which way. */
function what(line: Line): string {
  const pods = line.op?.pods ?? [];
  if (pods.length === 1) {
    if (pods[0]!.statusOnly) return "only the status";
    const lines = pods[0]!.change.split("\n", 40);
    const changed = lines.find((one) => one.startsWith("+")) ?? lines.find((one) => one.startsWith("-")) ?? lines[0];
    return show(changed?.replace(/\s+/g, " "), 200);
  }
  return pods.length === 0 ? "" : pods.length + (line.op?.omittedPods ?? 0) + " pods";
}

const columns: Column<Line>[] = [
  {
    title: "Revision", width: "112px", num: false,
    cell: (line) =>
      line.first && line.revision
        ? (
          <>
            <span class="mono">{String(line.revision.revision)}</span>
            {kindText(line.revision) && <> <span class="tag restore">{kindText(line.revision)}</span></>}
            {line.revision.newInstance && <span class="tag warn" title="podconfigd's store was replaced: the numbers start again">new store</span>}
          </>
        )
        : "",
  },
  {
    title: "Time", width: "106px", full: (line) => full(millis(line.revision?.time)) + (line.revision?.timeReceived ? " (received)" : ""),
    cell: (line) => (line.first ? <span class="muted mono">{clock(millis(line.revision?.time), true)}</span> : ""),
  },
  {
    title: "Op", width: "100px",
    cell: (line) => (line.op ? <span class={"tag " + opClass(line.op.op)}>{show(line.op.op, 20)}</span> : line.missed ? <span class="tag warn">gap</span> : ""),
  },
  { title: "Source", width: "minmax(50px, 84px)", cell: (line) => show(line.op?.source, 100) },
  { title: "Pods", width: "minmax(140px, 3fr)", cell: names, full: names },
  { title: "Change", width: "minmax(100px, 2fr)", cell: (line) => <span class="mono muted">{what(line)}</span> },
];

/** opClass returns the class of an op's tag. */
export function opClass(op: string): string {
  return /^[A-Z]{1,12}$/.test(op) ? op.toLowerCase() : "";
}

export function TimelineView() {
  useStore(timeline);
  useChanges(routes, stream);
  const [key, setKey] = useState("");
  const past = timeline.past;
  const window = past?.window ?? timeline.live;
  const all = window.lines();
  const filter = routes.now.query.get("q") ?? "";
  const lines = useMemo(() => (filter === ""
    ? all
    : all.filter((line) => line.op && matches(filter, line.op.op, line.op.source, String(line.revision?.revision),
      ...line.op.pods.map(fullName)))), [all, filter]);
  const chosen = lines.find((line) => line.key === key) ?? (past ? lines[0] : undefined);
  // A link to a revision, from another view.
  const asked = routes.now.query.get("at");
  useEffect(() => {
    if (asked && /^\d{1,19}$/.test(asked)) void timeline.scrub(BigInt(asked));
  }, [asked]);
  const live = () => {
    setKey("");
    setQuery("at", "");
    timeline.goLive();
  };
  const step = (by: bigint) => {
    const at = (past?.at ?? timeline.newest) + by;
    const begin = timeline.begin?.sequence ?? 1n;
    setKey("");
    if (at > timeline.newest) live();
    else void timeline.scrub(at < begin ? begin : at);
  };
  useShortcuts([
    { keys: "l", text: "Follow the timeline live", run: live },
    { keys: "h", text: "Hold the timeline", run: () => timeline.hold() },
    { keys: "[", text: "One revision back", run: () => step(-1n) },
    { keys: "]", text: "One revision on", run: () => step(1n) },
    { keys: "{", text: "50 revisions back", run: () => step(-50n) },
    { keys: "}", text: "50 revisions on", run: () => step(50n) },
  ]);
  const waiting = past ? Number(timeline.newest - past.at) : 0;
  return (
    <>
      <div class="head">
        <h1>Timeline</h1>
        {past
          ? (
            <>
              <button type="button" class="button primary" onClick={live}>Follow live</button>
              <span class="muted">{waiting > 0 ? waiting + (waiting === 1 ? " newer revision" : " newer revisions") : "held"}{past.loading ? ", loading…" : ""}</span>
            </>
          )
          : <button type="button" class="button" onClick={() => timeline.hold()} disabled={timeline.live.size === 0}>Hold</button>}
        {past?.error && <span class="tag bad" role="alert">{show(past.error, 200)}</span>}
        <Asof store={timeline} />
        <span class="grow" />
        <input
          class="field" type="search" placeholder="Filter" aria-label="Filter the timeline" value={filter}
          onInput={(event) => setQuery("q", event.currentTarget.value.slice(0, 200))}
        />
      </div>
      <div class="body">
        <Scrub onScrub={(at) => {
          setKey("");
          void timeline.scrub(at);
        }} />
        <div class="split">
          <Grid
            label="Revisions, the newest first" rows={lines} columns={columns} keyOf={(line) => line.key}
            class={stream.state === "live" ? "" : "old"}
            anchor={past ? String(past.at) : "live"} selected={chosen?.key}
            onSelect={(line) => {
              timeline.hold();
              setKey(line.key);
            }}
            onEnd={(end) => end && void timeline.older()}
            empty={emptiness(timeline, filter ? "No op matches the filter." : "There are no revisions yet.")}
          />
          <Moment line={chosen} />
        </div>
      </div>
    </>
  );
}
