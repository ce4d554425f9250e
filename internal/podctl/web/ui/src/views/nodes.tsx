// The nodes of a gateway: desired pods, lag and refusals. A gateway observes nothing.
import { useMemo, useState } from "preact/hooks";
import { Asof, emptiness } from "../parts/opening.tsx";
import { Cards } from "../parts/cards.tsx";
import { type Column, Grid } from "../parts/grid.tsx";
import { full, millis, span } from "../time.ts";
import { go, routes, setQuery } from "../routes.ts";
import { Health, type NodeRow, type PodRow } from "../../gen/podweb/v1/topics_pb.ts";
import { healthClass } from "../parts/health.tsx";
import { matches } from "./pods.tsx";
import { nodes, podsOf, text, useStore } from "../store/stores.ts";
import { Refusals } from "../parts/refusals.tsx";
import { show } from "../escape.ts";
import { stateClass, stateWord } from "./consumers.tsx";
import { stream } from "../store/stream.ts";
import { useChanges, useNow } from "../store/changes.ts";

const tiles: { name: string; title: string; tone: string; has: (row: NodeRow) => boolean }[] = [
  { name: "", title: "nodes", tone: "", has: () => true },
  { name: "bad", title: "with a problem", tone: "bad", has: (row) => row.health === Health.BAD },
  { name: "behind", title: "behind", tone: "warn", has: (row) => row.lagRevisions > 0n },
  { name: "refusing", title: "refuse pods", tone: "bad", has: (row) => row.refusedPods > 0 || row.rejected },
  { name: "away", title: "not connected", tone: "warn", has: (row) => row.state === "" || row.state === "GONE" },
];

/** rank orders nodes: what is wrong first. */
function rank(row: NodeRow): number {
  return [2, 4, 3, 0, 1][row.health] ?? 2;
}

/** domainOf returns what all names have in common from their first dot on: cards leave it out. */
function domainOf(rows: readonly NodeRow[]): string {
  const domain = rows[0]?.name.replace(/^[^.]*/, "") ?? "";
  return rows.length > 1 && domain !== "" && rows.every((row) => row.name.endsWith(domain) && row.name !== domain) ? domain : "";
}

/** detail is the second line of a node's card. */
function detail(row: NodeRow): string {
  if (row.rejected) return "rejected a revision";
  if (row.refusedPods > 0) return row.refusedPods + " refused";
  if (row.heldSources.length > 0) return "a source is held";
  if (row.state === "" || row.state === "GONE") return "not connected";
  if (row.lagRevisions > 0n) return row.lagRevisions + " behind" + (row.laggingSince ? ", " + span(stream.now() - millis(row.laggingSince)!) : "");
  return stateWord(row.state);
}

export function NodesView() {
  useStore(nodes);
  useChanges(routes, stream);
  useNow(2000);
  const [key, setKey] = useState<string>();
  const filter = routes.now.query.get("q") ?? "";
  const only = routes.now.query.get("only") ?? "";
  const all = nodes.sorted();
  const tile = tiles.find((one) => one.name === only) ?? tiles[0]!;
  const rows = useMemo(
    () => all.filter((row) => tile.has(row) && (filter === "" || matches(filter, row.name, detail(row), ...row.consumers)))
      .sort((a, b) => rank(a) - rank(b) || text(a.name, b.name)),
    [all, filter, tile]);
  const chosen = rows.find((row) => row.key === key);
  const domain = useMemo(() => domainOf(all), [all]);
  return (
    <>
      <div class="head">
        <h1>Nodes</h1>
        <div class="tiles">
          {tiles.map((one) => {
            const count = all.filter(one.has).length;
            return one.name === "" || count > 0 || one === tile
              ? (
                <button type="button" class={"tile " + (count > 0 ? one.tone : "")} aria-pressed={one === tile} onClick={() => setQuery("only", one === tile ? "" : one.name)}>
                  <b>{count}</b> {one.title}
                </button>
              )
              : null;
          })}
        </div>
        <Asof store={nodes} />
        <span class="grow" />
        <input
          class="field" type="search" placeholder="Filter" aria-label="Filter nodes" value={filter}
          onInput={(event) => setQuery("q", event.currentTarget.value.slice(0, 200))}
        />
      </div>
      <div class="body">
        <p class="muted thin">A gateway observes nothing: these are the pods that should run on each node, and how far its consumers are. What runs, each node's own podexecd says.</p>
        <div class={chosen ? "split" : "split one"}>
          <Cards
            label="Nodes" rows={rows} keyOf={(row) => row.key} selected={chosen?.key} onOpen={(row) => setKey(row.key)}
            class={nodes.stale ? "old" : ""} cardClass={(row) => (row.health === Health.BAD ? "bad" : row.health === Health.GOOD ? "" : "warn")}
            card={(row) => (
              <>
                <span class={"state " + healthClass(row.health)}><strong class="cut">{show(row.name.slice(0, row.name.length - domain.length), 253) || "(no node)"}</strong></span>
                <span class="cut muted">{row.desiredPods} pods · {detail(row)}</span>
              </>
            )}
            full={(row) => row.name + ": " + row.desiredPods + " desired pods, " + detail(row)}
            empty={emptiness(nodes, all.length ? "No node matches." : "The gateway serves no node yet.")}
          />
          {chosen && <Node key={chosen.key} row={chosen} onClose={() => setKey(undefined)} />}
        </div>
      </div>
    </>
  );
}

const podColumns: Column<PodRow>[] = [
  { title: "Pod", width: "minmax(0, 1fr)", cell: (row) => show((row.name?.namespace ?? "") + "/" + (row.name?.name ?? ""), 500), full: (row) => (row.name?.namespace ?? "") + "/" + (row.name?.name ?? "") },
  { title: "Source", width: "minmax(0, 90px)", cell: (row) => show(row.source, 100) },
];

function Node(props: { row: NodeRow; onClose: () => void }) {
  const { row } = props;
  const pods = useStore(useMemo(() => podsOf("pods-of-node", [row.key]), [row.key]));
  return (
    <section class="panel stack" aria-label="Node">
      <div class="pad stack scroll half" tabIndex={0} role="region" aria-label="Consumers of the node">
        <div class="row">
          <h2>{show(row.name, 253) || "Pods without a node"}</h2>
          <span class="grow" />
          <button type="button" class="button plain" onClick={props.onClose} aria-label="Close the node">×</button>
        </div>
        <dl class="facts">
          <dt>Consumers</dt>
          <dd>{row.consumers.slice(0, 20).map((one) => show(one, 253)).join(", ") || "none"} {row.state && <span class={"state " + stateClass(row.state)}>{show(stateWord(row.state), 30)}</span>}</dd>
          <dt>Lag</dt><dd>{row.lagRevisions > 0n ? row.lagRevisions + " revisions since " + full(millis(row.laggingSince)) : "none"}</dd>
          <dt>Desired</dt><dd>{row.desiredPods} pods</dd>
          {row.heldSources.length > 0 && <><dt>Held sources</dt><dd>{row.heldSources.slice(0, 20).map((one) => <div>{show(one, 500)}</div>)}</dd></>}
        </dl>
        <Refusals list={row.refusals} omitted={Math.max(0, row.refusedPods - row.refusals.length)} />
      </div>
      <Grid
        class="flat" label="Desired pods of the node" rows={pods.sorted()} columns={podColumns} keyOf={(pod) => pod.key}
        onOpen={(pod) => go(["pods", pod.key])} empty={emptiness(pods, "No pod is desired on this node.")}
      />
    </section>
  );
}
