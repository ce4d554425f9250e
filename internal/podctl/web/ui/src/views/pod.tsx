// One pod: why it waits, its containers, YAML of both halves, events, changes and charts.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Asof, emptiness } from "../parts/opening.tsx";
import { call, client, errorText } from "../api.ts";
import { Code, ConnectError } from "@connectrpc/connect";
import { eventColumns } from "./events.tsx";
import { eventsOf, pods, useStore } from "../store/stores.ts";
import type { GetPodResponse } from "../../gen/podweb/v1/podweb_pb.ts";
import { go, routes, setQuery } from "../routes.ts";
import { Grid } from "../parts/grid.tsx";
import { Overview } from "./overview.tsx";
import { PodActions } from "./podactions.tsx";
import { PodCharts } from "./charts.tsx";
import { PodChanges } from "./podchanges.tsx";
import type { PodRow } from "../../gen/podweb/v1/topics_pb.ts";
import { show } from "../escape.ts";
import { State } from "../parts/health.tsx";
import { stream } from "../store/stream.ts";
import { Tabs } from "../parts/tabs.tsx";
import { Text } from "../parts/text.tsx";
import { useChanges, useNow } from "../store/changes.ts";
import { useShortcuts } from "../keys.ts";

const tabs: [string, string][] = [
  ["overview", "Overview"], ["desired", "Desired YAML"], ["observed", "Observed YAML"], ["events", "Events"],
  ["changes", "Changes"], ["charts", "Charts"],
];

/** useDetails asks for all about a pod: at first, and at most once in 2 s after its row has changed. */
function useDetails(id: string, row: PodRow | undefined): { answer: GetPodResponse | undefined; error: string } {
  const [state, set] = useState<{ answer: GetPodResponse | undefined; error: string }>({ answer: undefined, error: "" });
  const last = useRef(0);
  useEffect(() => {
    const abort = new AbortController();
    const timer = window.setTimeout(async () => {
      last.current = Date.now();
      try {
        const answer = await client.getPod({ key: id }, { ...call, signal: abort.signal });
        set({ answer, error: "" });
      } catch (error) {
        if (abort.signal.aborted) return;
        stream.end(error);
        const gone = ConnectError.from(error).code === Code.NotFound;
        // What is known of it stays on the screen.
        set((before) => ({ answer: before.answer, error: gone ? "This pod is gone: it is neither desired nor observed." : errorText(error) }));
      }
    }, Math.max(0, last.current + 2000 - Date.now()));
    return () => {
      window.clearTimeout(timer);
      abort.abort();
    };
  }, [id, row, stream.opened]);
  return state;
}

export function PodView(props: { id: string }) {
  useStore(pods);
  useChanges(routes, stream);
  useNow(5000);
  const live = pods.get(props.id);
  const { answer, error } = useDetails(props.id, live);
  const row = live ?? answer?.row;
  const tab = routes.now.query.get("tab") ?? "overview";
  const gone = pods.loaded && !live;
  useShortcuts([
    { keys: "u", text: "Back to all pods", run: () => go(["pods"]) },
    ...tabs.map(([name, title], i) => ({ keys: String(i + 1), text: title, run: () => setQuery("tab", name) })),
  ]);
  return (
    <>
      <div class="head">
        <button type="button" class="button plain" onClick={() => go(["pods"])} aria-label="All pods">←</button>
        <h1 class="cut" title={row && show(row.name?.namespace + "/" + row.name?.name, 600)}>
          <span class="muted">{show(row?.name?.namespace, 253)}{row ? "/" : ""}</span>{show(row?.name?.name, 253)}
        </h1>
        {row && <State health={row.health} word={gone ? "gone" : row.status || "not observed"} />}
        {row && <span class="muted">{row.desired ? "desired by " + show(row.source, 100) : "not desired"}{row.stale ? " (stale)" : ""}</span>}
        <Asof store={pods} />
        {error && <span class="tag warn" role="alert">{show(error, 300)}</span>}
        <span class="grow" />
        {row && <PodActions row={row} />}
      </div>
      <div class="body">
        <section class={"panel stack grow" + (pods.stale || gone ? " old" : "")} aria-label="Pod">
          <Tabs label="Pod" tabs={tabs} current={tab} onTab={(name) => setQuery("tab", name === "overview" ? "" : name)} />
          <Tab tab={tab} id={props.id} row={row} answer={answer} error={error} />
        </section>
      </div>
    </>
  );
}

function Tab(props: { tab: string; id: string; row: PodRow | undefined; answer: GetPodResponse | undefined; error: string }) {
  const { answer, row } = props;
  switch (props.tab) {
    case "desired":
    case "observed": {
      const text = props.tab === "desired" ? answer?.desiredYaml : answer?.observedYaml;
      if (text) return <Text label={props.tab === "desired" ? "The desired pod" : "The observed status"} text={text} />;
      return <div class="empty">{!answer ? "Loading…" : show(answer.missing, 500) || "There is none."}</div>;
    }
    case "events": return <PodEvents id={props.id} />;
    case "changes": return <PodChanges id={props.id} />;
    case "charts": return <PodCharts id={props.id} />;
    default: return row ? <Overview row={row} answer={answer} /> : <div class="empty">{props.error ? "" : "Loading…"}</div>;
  }
}

function PodEvents(props: { id: string }) {
  const events = useStore(useMemo(() => eventsOf("events-of-pod", props.id), [props.id]));
  return (
    <Grid
      class="flat" label="Events of the pod" rows={events.sorted()} columns={eventColumns.filter((one) => one.title !== "Pod")}
      keyOf={(one) => one.key} empty={emptiness(events, "There are no events of this pod.")}
    />
  );
}
