// The sources and their findings, with the place of each mistake.
import { useMemo } from "preact/hooks";
import { Asof, emptiness } from "../parts/opening.tsx";
import { clock, full, millis, span } from "../time.ts";
import { type Column, Grid } from "../parts/grid.tsx";
import { type Finding, type SourceRow } from "../../gen/podweb/v1/topics_pb.ts";
import { FindingText, severityClass, place } from "../parts/finding.tsx";
import { matches } from "./pods.tsx";
import { routes, setQuery } from "../routes.ts";
import { show } from "../escape.ts";
import { sources, useStore } from "../store/stores.ts";
import { stream } from "../store/stream.ts";
import { useChanges, useNow } from "../store/changes.ts";

/** Item is a source, or one of its findings. */
interface Item { key: string; source: SourceRow; finding?: Finding }

const columns: Column<Item>[] = [
  {
    title: "Source", width: "minmax(110px, 1fr)", full: (item) => item.source.location,
    cell: (item) =>
      item.finding
        ? <span class={"indent tag " + severityClass(item.finding.severity)}>{show(item.finding.severity.toLowerCase(), 20)}</span>
        : <strong>{show(item.source.name, 100)}</strong>,
  },
  {
    title: "State", width: "minmax(150px, 2fr)", full: (item) => (item.finding ? place(item.finding) : item.source.lastError),
    cell: (item) => {
      if (item.finding) return <span class="mono">{show(shortPlace(item.finding), 300)}</span>;
      if (item.source.lastError) return <span class="state bad"><span class="cut">{show(item.source.lastError, 200)}</span></span>;
      return item.source.ready ? <span class="state ok">ready</span> : <span class="state info">not ready yet</span>;
    },
  },
  {
    title: "Pods", width: "60px", num: true, cell: (item) => (item.finding ? "" : item.source.pods),
  },
  {
    title: "Last heard", width: "minmax(90px, 3fr)", full: (item) => item.finding?.message ?? full(millis(item.source.lastHeard)),
    cell: (item) => {
      if (item.finding) return show(item.finding.message, 300);
      const at = millis(item.source.lastHeard);
      return at === undefined ? "never" : span(stream.now() - at) + " ago";
    },
  },
];

/** shortPlace is the file without its directories, with line and column. */
function shortPlace(finding: Finding): string {
  return place(finding).replace(/^.*\/(?=[^/])/, "");
}

export function SourcesView() {
  useStore(sources);
  useChanges(routes, stream);
  useNow(2000);
  const filter = routes.now.query.get("q") ?? "";
  const rows = sources.sorted();
  const items = useMemo(() => {
    const all: Item[] = [];
    for (const source of rows) {
      all.push({ key: source.key, source });
      source.findings.forEach((finding, i) => {
        if (filter === "" || matches(filter, finding.severity, finding.origin, finding.field, finding.message)) {
          all.push({ key: source.key + "." + i, source, finding });
        }
      });
    }
    return all;
  }, [rows, filter]);
  const key = routes.now.query.get("item") ?? "";
  const chosen = items.find((item) => item.key === key) ?? items.find((item) => item.finding) ?? items[0];
  return (
    <>
      <div class="head">
        <h1>Sources</h1>
        <span class="muted">{rows.reduce((sum, row) => sum + row.findings.length + row.omittedFindings, 0)} findings</span>
        <Asof store={sources} />
        <span class="grow" />
        <input
          class="field" type="search" placeholder="Filter findings" aria-label="Filter findings" value={filter}
          onInput={(event) => setQuery("q", event.currentTarget.value.slice(0, 200))}
        />
      </div>
      <div class="body">
        <div class="split">
          <Grid
            label="Sources and findings" rows={items} columns={columns} keyOf={(item) => item.key} class={sources.stale ? "old" : ""}
            selected={chosen?.key} onSelect={(item) => setQuery("item", item.key)}
            empty={emptiness(sources, "No source is configured.")}
          />
          {chosen
            ? chosen.finding
              ? (
                <section class="panel pad scroll" aria-label="Finding" tabIndex={0}>
                  <FindingText finding={chosen.finding} />
                  <p class="muted">From the source {show(chosen.source.name, 100)}.</p>
                </section>
              )
              : <Source row={chosen.source} />
            : <section class="panel" aria-label="Source" />}
        </div>
      </div>
    </>
  );
}

function Source(props: { row: SourceRow }) {
  const { row } = props;
  return (
    <section class="panel pad scroll" aria-label="Source" tabIndex={0}>
      <h2>{show(row.name, 100)}</h2>
      <dl class="facts">
        <dt>Location</dt><dd class="mono">{show(row.location, 500) || "–"}</dd>
        {row.digest && (<><dt>Digest</dt><dd class="mono">{show(row.digest, 100)}</dd></>)}
        <dt>Ready</dt><dd>{row.ready ? "since revision " + row.readyRevision : "not yet"}</dd>
        <dt>Pods</dt><dd>{row.pods}</dd>
        <dt>Last read</dt><dd>{row.lastRead ? full(millis(row.lastRead)) : "never"}</dd>
        <dt>Last heard</dt><dd>{row.lastHeard ? clock(millis(row.lastHeard)) : "never"}</dd>
        <dt>Findings</dt><dd>{row.findings.length}{row.omittedFindings > 0 ? ", and " + row.omittedFindings + " more that are not listed" : ""}</dd>
      </dl>
      {row.lastError && <p class="whole tag bad">{show(row.lastError, 2000)}</p>}
    </section>
  );
}
