// CPU, memory and network over time: of the node, of the pods that use the most, and of one pod's containers.
import { useMemo, useState } from "preact/hooks";
import { Asof, emptiness } from "../parts/opening.tsx";
import { bytes, cores } from "../time.ts";
import { Chart, type ChartLine } from "../parts/chart.tsx";
import { type Metric, type Series, Stats, stats } from "../store/stats.ts";
import { stream } from "../store/stream.ts";
import { useChanges } from "../store/changes.ts";
import { useStore } from "../store/stores.ts";

const rate = (value: number) => bytes(value) + "/s";
const shown: { metric: Metric; title: string; text: (value: number) => string; binary: boolean }[] = [
  { metric: "cpu", title: "CPU by pod", text: cores, binary: false },
  { metric: "memory", title: "Memory by pod", text: bytes, binary: true },
  { metric: "received", title: "Received by pod", text: rate, binary: true },
  { metric: "sent", title: "Sent by pod", text: rate, binary: true },
];
const ranges: [number, string][] = [[300, "5 min"], [900, "15 min"], [1800, "30 min"]];

function lineOf(series: Series, metric: Metric, label: string): ChartLine {
  return { key: series.key, label, values: series.values[metric] };
}

const podLabel = (series: Series) => (series.pod?.namespace ?? "") + "/" + (series.pod?.name ?? "");

function Ranges(props: { range: number; onRange: (range: number) => void }) {
  return (
    <div class="row" role="group" aria-label="Time shown">
      {ranges.map(([seconds, title]) => (
        <button type="button" class="button" aria-pressed={props.range === seconds} onClick={() => props.onRange(seconds)}>{title}</button>
      ))}
    </div>
  );
}

export function ChartsView() {
  useStore(stats);
  useChanges(stream);
  const [range, setRange] = useState(900);
  const node = stats.series.get("/");
  return (
    <>
      <div class="head">
        <h1>Charts</h1>
        <Ranges range={range} onRange={setRange} />
        <Asof store={stats} />
      </div>
      <div class={"body scroll" + (stream.state === "live" ? "" : " old")} tabIndex={0} role="region" aria-label="Charts" data-first>
        {stats.times.length === 0
          ? <div class="panel empty">{emptiness(stats, "There are no values yet. The first ones come after two samples.")}</div>
          : (
            <>
              <h2 class="minor">Node</h2>
              <div class="charts">
                <Chart title="CPU" range={range} times={stats.times} text={cores} lines={node ? [lineOf(node, "cpu", "node")] : []} />
                <Chart title="Memory" range={range} times={stats.times} text={bytes} binary lines={node ? [lineOf(node, "memory", "node")] : []} />
                <Chart
                  title="Network" range={range} times={stats.times} text={rate} binary
                  lines={node ? [{ ...lineOf(node, "received", "received"), key: "r" }, { ...lineOf(node, "sent", "sent"), key: "s" }] : []}
                />
              </div>
              <h2 class="minor">Pods that use the most</h2>
              <div class="charts">
                {shown.map(({ metric, title, text, binary }) => (
                  <Chart
                    title={title} range={range} times={stats.times} text={text} binary={binary}
                    lines={stats.top(metric, 8, (one) => one.podKey !== "" && one.container === "").map((one) => lineOf(one, metric, podLabel(one)))}
                  />
                ))}
              </div>
            </>
          )}
      </div>
    </>
  );
}

export function PodCharts(props: { id: string }) {
  const own = useStore(useMemo(() => new Stats("stats-of-pod", props.id), [props.id]));
  const [range, setRange] = useState(900);
  const pod = own.series.get(props.id + "/");
  const limit = pod && pod.memoryLimit > 0 ? [{ key: "limit", label: "limit", values: own.times.map(() => pod.memoryLimit), dashed: true }] : [];
  const containers = (metric: Metric) =>
    own.top(metric, 7, (one) => one.container !== "").sort((a, b) => (a.container < b.container ? -1 : 1))
      .map((one) => lineOf(one, metric, one.container));
  return (
    <div class="scroll pad stack" tabIndex={0} role="region" aria-label="Charts">
      <Ranges range={range} onRange={setRange} />
      {own.times.length === 0
        ? <div class="empty">{emptiness(own, "There are no values of this pod yet.")}</div>
        : (
          <div class="charts">
            <Chart title="CPU" range={range} times={own.times} text={cores} lines={containers("cpu")} />
            <Chart title="Memory" range={range} times={own.times} text={bytes} binary lines={[...containers("memory"), ...limit]} />
            <Chart
              title="Network" range={range} times={own.times} text={rate} binary
              lines={pod ? [{ ...lineOf(pod, "received", "received"), key: "r" }, { ...lineOf(pod, "sent", "sent"), key: "s" }] : []}
            />
          </div>
        )}
    </div>
  );
}
