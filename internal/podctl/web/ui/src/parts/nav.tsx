// The list of views, with what needs attention in each.
import type { FunctionComponent } from "preact";
import type { Session } from "../../gen/podweb/v1/podweb_pb.ts";
import { Health } from "../../gen/podweb/v1/topics_pb.ts";
import { href } from "../routes.ts";
import { pods, sources, useStore } from "../store/stores.ts";
import { PodsView } from "../views/pods.tsx";
import { TimelineView } from "../views/timeline.tsx";
import { ApplyView } from "../views/apply.tsx";
import { ChartsView } from "../views/charts.tsx";
import { ConsumersView } from "../views/consumers.tsx";
import { EventsView } from "../views/events.tsx";
import { ExecView } from "../views/exec.tsx";
import { LogsView } from "../views/logs.tsx";
import { NodesView } from "../views/nodes.tsx";
import { SourcesView } from "../views/sources.tsx";

export interface View {
  name: string;
  title: string;
  /** The second key of its shortcut, after g. */
  key: string;
  View: FunctionComponent<{ path: string[] }>;
}

const all: (View & { node?: boolean; gateway?: boolean })[] = [
  { name: "nodes", title: "Nodes", key: "n", View: NodesView, gateway: true },
  { name: "pods", title: "Pods", key: "p", View: PodsView },
  { name: "timeline", title: "Timeline", key: "t", View: TimelineView },
  { name: "sources", title: "Sources", key: "s", View: SourcesView },
  { name: "consumers", title: "Consumers", key: "c", View: ConsumersView },
  { name: "logs", title: "Logs", key: "l", View: LogsView, node: true },
  { name: "events", title: "Events", key: "e", View: EventsView, node: true },
  { name: "charts", title: "Charts", key: "h", View: ChartsView, node: true },
  { name: "exec", title: "Terminal", key: "x", View: ExecView, node: true },
  { name: "apply", title: "Apply", key: "a", View: ApplyView },
];

/** views returns the views that there are: a gateway observes nothing, and has a grid of nodes. */
export function views(session: Session | undefined): View[] {
  const gateway = session?.gateway ?? false;
  return all.filter((view) => (gateway ? !view.node : !view.gateway));
}

function Count(props: { name: string }) {
  useStore(pods);
  useStore(sources);
  if (props.name === "pods" && pods.loaded) {
    const bad = pods.sorted().filter((row) => row.health === Health.BAD).length;
    return bad > 0
      ? <span class="count bad">{bad}<span class="hidden"> with a problem</span></span>
      : <span class="count">{pods.sorted().length}</span>;
  }
  if (props.name === "sources" && sources.loaded) {
    const bad = sources.sorted().reduce((sum, row) => sum + row.findings.length + row.omittedFindings + (row.lastError ? 1 : 0), 0);
    if (bad > 0) return <span class="count warn">{bad}<span class="hidden"> findings</span></span>;
  }
  return null;
}

export function Nav(props: { views: View[]; current: View }) {
  return (
    <nav class="nav" aria-label="Views">
      {props.views.map((view) => (
        <a href={href([view.name])} aria-current={view === props.current ? "page" : undefined}>
          {view.title}
          <Count name={view.name} />
        </a>
      ))}
      <div class="foot">Press <kbd>?</kbd> for all keys</div>
    </nav>
  );
}
