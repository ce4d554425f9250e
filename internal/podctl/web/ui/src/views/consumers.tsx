// The consumers of podconfigd: how far behind each is, and what it refused.
import { useMemo, useState } from "preact/hooks";
import { Asof, emptiness } from "../parts/opening.tsx";
import { type Column, Grid, sorted, type Sort } from "../parts/grid.tsx";
import { consumers, text, useStore } from "../store/stores.ts";
import type { ConsumerRow } from "../../gen/podweb/v1/topics_pb.ts";
import { full, millis, span } from "../time.ts";
import { matches } from "./pods.tsx";
import { Refusals } from "../parts/refusals.tsx";
import { routes, setQuery } from "../routes.ts";
import { show } from "../escape.ts";
import { stream } from "../store/stream.ts";
import { useChanges, useNow } from "../store/changes.ts";

const states: Record<string, string> = { LIVE: "ok", CATCHING_UP: "info", PARKED: "warn", GONE: "" };

/** stateWord returns the words for a consumer's state. */
export function stateWord(state: string): string {
  return state.toLowerCase().replace("_", " ");
}

/** stateClass returns the class of a consumer's state. */
export function stateClass(state: string): string {
  return states[state] ?? "";
}

const refused = (row: ConsumerRow) => row.refusals.length + row.omittedRefusals;
const since = (row: ConsumerRow) => millis(row.laggingSince) ?? Infinity;

const columns: Column<ConsumerRow>[] = [
  {
    title: "Consumer", width: "minmax(120px, 2fr)", full: (row) => row.name, compare: (a, b) => text(a.name, b.name),
    cell: (row) => <><strong>{show(row.name, 253)}</strong>{row.objects && <> <span class="tag">objects</span></>}</>,
  },
  {
    title: "State", width: "96px", compare: (a, b) => text(a.state, b.state),
    cell: (row) => <span class={"state " + stateClass(row.state)}>{show(stateWord(row.state), 30)}</span>,
  },
  {
    title: "Lag", width: "92px", num: true, compare: (a, b) => Number(b.lagRevisions - a.lagRevisions),
    full: (row) => (row.lagRevisions ? row.lagRevisions + " revisions since " + full(millis(row.laggingSince)) : "up to date"),
    cell: (row) =>
      row.lagRevisions > 0n
        ? (
          <>
            {String(row.lagRevisions)}{" "}
            <span class="bar-line" style={{ width: Math.min(40, 3 + 8 * Math.log10(Number(row.lagRevisions))) + "px" }} />
          </>
        )
        : <span class="muted">0</span>,
  },
  {
    title: "Behind for", width: "82px", num: true, compare: (a, b) => since(a) - since(b),
    cell: (row) => (row.laggingSince ? span(stream.now() - since(row)) : ""),
  },
  { title: "At revision", width: "84px", num: true, cell: (row) => String(row.revision), compare: (a, b) => Number(b.revision - a.revision) },
  {
    title: "Refused", width: "68px", num: true, compare: (a, b) => refused(b) - refused(a),
    cell: (row) => row.rejected ? <span class="tag bad">rejected</span> : refused(row) > 0 ? <span class="tag bad">{refused(row)}</span> : "",
  },
  { title: "Identity", width: "minmax(56px, 1fr)", cell: (row) => show(row.identity, 253), full: (row) => row.identity, compare: (a, b) => text(a.identity, b.identity) },
];

export function ConsumersView() {
  useStore(consumers);
  useChanges(routes, stream);
  useNow(2000);
  const [sort, setSort] = useState<Sort>({ column: 0, down: false });
  const [key, setKey] = useState("");
  const filter = routes.now.query.get("q") ?? "";
  const all = consumers.sorted();
  const rows = useMemo(
    () => sorted(all.filter((row) => filter === "" || matches(filter, row.name, row.identity, row.peer, stateWord(row.state))), columns, sort),
    [all, filter, sort]);
  const chosen = rows.find((row) => row.key === key) ?? rows[0];
  return (
    <>
      <div class="head">
        <h1>Consumers</h1>
        <span class="muted">{all.filter((row) => row.lagRevisions > 0n).length} of {all.length} behind</span>
        <Asof store={consumers} />
        <span class="grow" />
        <input
          class="field" type="search" placeholder="Filter" aria-label="Filter consumers" value={filter}
          onInput={(event) => setQuery("q", event.currentTarget.value.slice(0, 200))}
        />
      </div>
      <div class="body">
        <div class="split">
          <Grid
            label="Consumers" rows={rows} columns={columns} keyOf={(row) => row.key} class={consumers.stale ? "old" : ""}
            sort={sort} onSort={setSort} selected={chosen?.key} onSelect={(row) => setKey(row.key)}
            empty={emptiness(consumers, all.length ? "No consumer matches." : "podconfigd has no consumers.")}
          />
          {chosen ? <Consumer row={chosen} /> : <section class="panel" aria-label="Consumer" />}
        </div>
      </div>
    </>
  );
}

function Consumer(props: { row: ConsumerRow }) {
  const { row } = props;
  return (
    <section class="panel pad scroll" aria-label="Consumer" tabIndex={0}>
      <h2>{show(row.name, 253)}</h2>
      <dl class="facts">
        <dt>Identity</dt><dd class="mono">{show(row.identity, 253)}</dd>
        <dt>Peer</dt><dd class="mono">{show(row.peer, 200) || "–"}</dd>
        <dt>Connected</dt><dd>{full(millis(row.connectedTime)) || "–"}</dd>
        <dt>Follows</dt><dd>{row.objects ? "ConfigMaps and Secrets" : "pods"}{row.mode ? ", " + show(row.mode, 60) : ""}{row.format ? ", " + show(row.format, 60) : ""}</dd>
        <dt>Filter</dt><dd class="mono">{show(row.filter, 1000) || "none"}</dd>
        <dt>Sent</dt><dd>revision {String(row.revision)}{row.lagRevisions > 0n ? ", " + row.lagRevisions + " behind since " + full(millis(row.laggingSince)) : ""}</dd>
        <dt>Reported</dt>
        <dd>{row.reportedRevision > 0n ? "revision " + row.reportedRevision + (row.rejected ? " rejected as a whole" : " applied") : "nothing"}</dd>
        {row.heldSources.length > 0 && <><dt>Held sources</dt><dd>{row.heldSources.slice(0, 20).map((one) => <div>{show(one, 500)}</div>)}</dd></>}
      </dl>
      <Refusals list={row.refusals} omitted={row.omittedRefusals} />
    </section>
  );
}
