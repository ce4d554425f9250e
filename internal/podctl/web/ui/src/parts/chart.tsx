// Chart draws values over time by uPlot, which is loaded with the first chart.
import { useEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import { show } from "../escape.ts";
import { theme } from "../theme.ts";
import { useChanges } from "../store/changes.ts";

/** ChartLine is one line. values are aligned with the chart's times; NaN is unknown. */
export interface ChartLine { key: string; label: string; values: number[]; dashed?: boolean }

interface Props {
  title: string;
  times: number[];
  lines: ChartLine[];
  /** The text of a value. */
  text: (value: number) => string;
  /** The values are bytes: the axis has steps of powers of two. */
  binary?: boolean;
  /** The seconds that are shown at most. */
  range: number;
}

/** shortest is the time in seconds that is shown at least. */
const shortest = 60;

/** steps are the steps of an axis of bytes. */
const steps = Array.from({ length: 45 }, (_, i) => 2 ** i);

type Constructor = typeof uPlot;
let loading: Promise<Constructor> | undefined;

/** plotter loads uPlot once. */
function plotter(): Promise<Constructor> {
  return loading ??= import("./plotter.ts").then((module) => module.default);
}

function data(props: Props): uPlot.AlignedData {
  const end = props.times[props.times.length - 1] ?? 0;
  let from = 0;
  while (from < props.times.length && props.times[from]! < end - props.range) from++;
  return [
    props.times.slice(from),
    ...props.lines.map((line) => line.values.slice(from).map((one) => (Number.isNaN(one) ? null : one))),
  ] as uPlot.AlignedData;
}

function options(props: Props, element: HTMLElement): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1, size: 4 },
    font: "11px system-ui, sans-serif",
  };
  return {
    width: element.clientWidth || 300,
    height: element.clientHeight || 170,
    cursor: { sync: { key: "podstream" }, drag: { x: false, y: false }, points: { size: 5 } },
    legend: { show: false },
    scales: {
      // Few values fill the chart too: a line at its edge shows nothing.
      x: { range: (_, min, max) => [max - Math.min(props.range, Math.max(shortest, max - min)), max] },
      y: { range: (_, __, max) => [0, max > 0 ? max * 1.12 : 1] },
    },
    axes: [
      { ...axis, space: 70, values: (_, marks) => marks.map((at) => new Date(at * 1000).toTimeString().slice(0, (marks[1] ?? at) - marks[0]! < 60 ? 8 : 5)) },
      { ...axis, ...(props.binary ? { incrs: steps } : {}), size: 58, space: 30, values: (_, marks) => marks.map((one) => props.text(one)) },
    ],
    series: [
      {},
      ...props.lines.map((line, i) => ({
        stroke: colour("--s" + ((i % 8) + 1)), width: 1.5, points: { show: false }, spanGaps: false,
        ...(line.dashed ? { dash: [5, 5] } : {}),
        ...(props.lines.length === 1 ? { fill: colour("--s1") + "22" } : {}),
      })),
    ],
  };
}

export function Chart(props: Props) {
  useChanges(theme);
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const [make, setMake] = useState<{ make: Constructor }>();
  const keys = props.lines.map((line) => line.key).join("\n") + "\n" + theme.now + props.range;
  useEffect(() => {
    let here = true;
    void plotter().then((constructor) => here && setMake({ make: constructor }));
    return () => {
      here = false;
    };
  }, []);
  useEffect(() => {
    const element = box.current;
    if (!make || !element) return undefined;
    const made = new make.make(options(props, element), data(props), element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: element.clientHeight }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [make, keys]);
  useEffect(() => plot.current?.setData(data(props)));
  const last = (line: ChartLine) => {
    for (let i = line.values.length - 1; i >= 0; i--) if (!Number.isNaN(line.values[i]!)) return props.text(line.values[i]!);
    return "unknown";
  };
  return (
    <figure class="panel chart" aria-label={props.title}>
      <h2>{props.title}</h2>
      <div class="plot" ref={box} aria-hidden="true" />
      <figcaption class="legend">
        {props.lines.map((line, i) => (
          <span title={show(line.label, 500)}>
            <i class={"c" + ((i % 8) + 1)} aria-hidden="true" /><span class="cut">{show(line.label, 120)}</span> <b>{last(line)}</b>
          </span>
        ))}
        {props.lines.length === 0 && <span class="muted">No values yet</span>}
      </figcaption>
    </figure>
  );
}
