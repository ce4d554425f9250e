// The events of pods, the newest first. A repeated event stays one row.
import { useMemo } from "preact/hooks";
import { Asof, emptiness } from "../parts/opening.tsx";
import { type Column, Grid } from "../parts/grid.tsx";
import { clock, full, millis, span } from "../time.ts";
import { events, useStore } from "../store/stores.ts";
import type { EventRow } from "../../gen/podweb/v1/topics_pb.ts";
import { fullName, matches } from "./pods.tsx";
import { go, routes, setQuery } from "../routes.ts";
import { show } from "../escape.ts";
import { stream } from "../store/stream.ts";
import { useChanges } from "../store/changes.ts";

export const eventColumns: Column<EventRow>[] = [
  {
    title: "Last", width: "84px", cell: (row) => <span class="mono">{clock(millis(row.lastTime))}</span>,
    full: (row) => "last " + full(millis(row.lastTime)) + ", first " + full(millis(row.firstTime)),
  },
  { title: "Type", width: "92px", cell: (row) => <span class={"state " + (row.type === "Warning" ? "bad" : "ok")}>{show(row.type, 20)}</span> },
  { title: "Reason", width: "minmax(80px, 116px)", cell: (row) => <strong>{show(row.reason, 100)}</strong>, full: (row) => row.reason },
  { title: "Pod", width: "minmax(130px, 1.6fr)", cell: (row) => show((row.pod?.namespace ?? "") + "/" + (row.pod?.name ?? ""), 500), full: (row) => (row.pod?.namespace ?? "") + "/" + (row.pod?.name ?? "") },
  { title: "Container", width: "minmax(60px, 90px)", cell: (row) => show(row.container, 100) },
  {
    title: "Count", width: "90px", num: true,
    cell: (row) => row.count > 1 ? row.count + "× in " + span((millis(row.lastTime) ?? 0) - (millis(row.firstTime) ?? 0)) : row.count,
  },
  { title: "Message", width: "minmax(160px, 3fr)", cell: (row) => show(row.message, 600), full: (row) => row.message },
];

export function EventsView() {
  useStore(events);
  useChanges(routes, stream);
  const filter = routes.now.query.get("q") ?? "";
  const warnings = routes.now.query.get("only") === "warnings";
  const all = events.sorted();
  const rows = useMemo(() => all.filter((row) => (!warnings || row.type === "Warning") && (filter === "" ||
    matches(filter, row.reason, row.message, row.container, fullName({ name: row.pod })))), [all, filter, warnings]);
  return (
    <>
      <div class="head">
        <h1>Events</h1>
        <button type="button" class="button" aria-pressed={warnings} onClick={() => setQuery("only", warnings ? "" : "warnings")}>
          Only warnings ({all.filter((row) => row.type === "Warning").length})
        </button>
        <Asof store={events} />
        <span class="grow" />
        <input
          class="field" type="search" placeholder="Filter" aria-label="Filter events" value={filter}
          onInput={(event) => setQuery("q", event.currentTarget.value.slice(0, 200))}
        />
      </div>
      <div class="body">
        <Grid
          label="Events, the newest first" rows={rows} columns={eventColumns} keyOf={(row) => row.key} class={events.stale ? "old" : ""}
          onOpen={(row) => row.podKey && go(["pods", row.podKey], { tab: "events" })}
          empty={emptiness(events, all.length ? "No event matches." : "There are no events yet.")}
        />
      </div>
    </>
  );
}
