// The pods: desired beside observed, and why a pod waits.
import { useMemo, useState } from "preact/hooks";
import { Asof, emptiness } from "../parts/opening.tsx";
import { type Column, Grid, sorted, type Sort } from "../parts/grid.tsx";
import { full, millis, span } from "../time.ts";
import { Health, type PodRow } from "../../gen/podweb/v1/topics_pb.ts";
import { healthRank, State } from "../parts/health.tsx";
import { pods, text, useStore } from "../store/stores.ts";
import { PodView } from "./pod.tsx";
import { routes, go, setQuery } from "../routes.ts";
import { show } from "../escape.ts";
import { stream } from "../store/stream.ts";
import { useChanges, useNow } from "../store/changes.ts";

/** fullName returns NAMESPACE/NAME. */
export function fullName(row: { name?: { namespace: string; name: string } | undefined }): string {
  return (row.name?.namespace ?? "") + "/" + (row.name?.name ?? "");
}

const name = (a: PodRow, b: PodRow) => text(fullName(a), fullName(b));
const since = (row: PodRow) => millis(row.since) ?? Infinity;

/** reasons returns why a pod waits, and the error behind that. */
function reasons(row: PodRow): string[] {
  return row.lastError && row.waitReasons.length > 0 ? [...row.waitReasons, row.lastError] : row.waitReasons;
}

const columns: Column<PodRow>[] = [
  {
    title: "Pod", width: "minmax(170px, 2.2fr)", full: fullName, compare: name,
    cell: (row) => (
      <>
        <span class="muted">{show(row.name?.namespace, 253)}/</span>
        <strong>{show(row.name?.name, 253)}</strong>
      </>
    ),
  },
  {
    title: "Desired", width: "minmax(80px, .8fr)", full: (row) => (row.desired ? row.source + " " + row.specDigest : "no source has this pod"),
    compare: (a, b) => Number(b.desired) - Number(a.desired) || text(a.source, b.source),
    cell: (row) =>
      row.desired
        ? (
          <>
            {show(row.source, 100)}{" "}
            {row.stale && <span class="tag warn" title="Known from podconfigd's store; its source has not confirmed it yet">stale</span>}
          </>
        )
        : <span class="muted">not desired</span>,
  },
  {
    title: "Observed", width: "minmax(176px, 1.4fr)", full: (row) => row.status,
    compare: (a, b) => healthRank(a.health) - healthRank(b.health) || text(a.status, b.status),
    cell: (row) => <State health={row.health} word={row.status || (row.observed ? "unknown" : "not observed")} />,
  },
  { title: "Ready", width: "62px", num: true, cell: (row) => show(row.ready, 20), compare: (a, b) => text(a.ready, b.ready) },
  {
    title: "Restarts", width: "72px", num: true, cell: (row) => (row.restarts < 0 ? "" : row.restarts),
    compare: (a, b) => b.restarts - a.restarts,
  },
  {
    title: "Why it waits", width: "minmax(180px, 4fr)", full: (row) => reasons(row).join("\n"),
    compare: (a, b) => b.waitReasons.length - a.waitReasons.length,
    cell: (row) => show(reasons(row).join(" "), 400),
  },
  {
    title: "Age", width: "74px", num: true, compare: (a, b) => since(b) - since(a), full: (row) => full(millis(row.since)),
    cell: (row) => {
      const at = millis(row.since);
      return at === undefined ? "" : span(stream.now() - at);
    },
  },
];

const tiles: { name: string; title: string; tone: string; has: (row: PodRow) => boolean }[] = [
  { name: "", title: "pods", tone: "", has: () => true },
  { name: "bad", title: "with a problem", tone: "bad", has: (row) => row.health === Health.BAD },
  { name: "working", title: "on their way", tone: "", has: (row) => row.health === Health.WORKING },
  { name: "waiting", title: "waiting", tone: "warn", has: (row) => row.waitReasons.length > 0 },
  { name: "unwanted", title: "not desired", tone: "warn", has: (row) => !row.desired },
  { name: "unknown", title: "not known", tone: "warn", has: (row) => row.health === Health.UNKNOWN },
];

/** matches reports whether each word of a filter is in one of the row's texts. */
export function matches(filter: string, ...texts: (string | undefined)[]): boolean {
  const all = texts.join("\n").toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => all.includes(word));
}

export function PodsView(props: { path: string[] }) {
  return props.path[0] ? <PodView key={props.path[0]} id={props.path[0]} /> : <List />;
}

function List() {
  useStore(pods);
  useChanges(routes, stream);
  useNow(5000);
  const [sort, setSort] = useState<Sort>({ column: 2, down: false });
  const filter = routes.now.query.get("q") ?? "";
  const only = routes.now.query.get("only") ?? "";
  const rows = pods.sorted();
  const tile = tiles.find((one) => one.name === only) ?? tiles[0]!;
  const shown = useMemo(() => {
    const some = rows.filter((row) => tile.has(row) &&
      (filter === "" || matches(filter, fullName(row), row.source, row.status, row.node, ...reasons(row))));
    return sort.column === 2 && !sort.down
      ? [...some].sort((a, b) => healthRank(a.health) - healthRank(b.health))
      : sorted(some, columns, sort);
  }, [rows, filter, tile, sort]);
  return (
    <>
      <div class="head">
        <h1>Pods</h1>
        <div class="tiles">
          {tiles.map((one) => {
            const count = rows.filter(one.has).length;
            return one.name === "" || count > 0 || one === tile
              ? (
                <button
                  type="button" class={"tile " + (count > 0 ? one.tone : "")} aria-pressed={one === tile}
                  onClick={() => setQuery("only", one === tile ? "" : one.name)}
                >
                  <b>{count}</b> {one.title}
                </button>
              )
              : null;
          })}
        </div>
        <Asof store={pods} />
        <span class="grow" />
        {pods.omitted > 0 && <span class="tag warn">{pods.omitted} more are not listed</span>}
        <input
          class="field" type="search" placeholder="Filter" aria-label="Filter pods" value={filter}
          onInput={(event) => setQuery("q", event.currentTarget.value.slice(0, 200))}
        />
      </div>
      <div class="body">
        <Grid
          label="Pods" rows={shown} columns={columns} keyOf={(row) => row.key} sort={sort} onSort={setSort}
          class={pods.stale ? "old" : ""}
          onOpen={(row) => go(["pods", row.key])} rowClass={(row) => (row.desired ? "" : "was")}
          empty={emptiness(pods, rows.length ? "No pod matches the filter." : "No pod is desired, and none runs.")}
        />
      </div>
    </>
  );
}
