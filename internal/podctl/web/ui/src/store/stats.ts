// The use of CPU, memory and network over time, at most 30 min: of the node and each pod, or of one pod's containers.
import { create } from "@bufbuild/protobuf";
import {
  type Connection, type Delivery, type PodName, type StatsSample, type Topic, TopicSchema,
} from "../../gen/podweb/v1/topics_pb.ts";
import { Changes } from "./changes.ts";
import { type Feed, stream } from "./stream.ts";
import { millis } from "../time.ts";

export const metrics = ["cpu", "memory", "received", "sent"] as const;
export type Metric = (typeof metrics)[number];

/** Series is the use of one pod, container or node. The arrays have a value for each of Stats.times; NaN is unknown. */
export interface Series {
  key: string;
  podKey: string;
  pod: PodName | undefined;
  container: string;
  memoryLimit: number;
  values: Record<Metric, number[]>;
}

const mostTimes = 400;
const mostSeries = 1000;

export class Stats implements Feed {
  readonly changes = new Changes();
  cursor = "";
  connection: Connection | undefined;
  loaded = false;
  /** In seconds, rising. */
  times: number[] = [];
  series = new Map<string, Series>();
  private users = 0;

  constructor(readonly id: string, private readonly podKey: string) {}

  topic(): Topic {
    return create(TopicSchema, { topic: { case: "stats", value: { podKey: this.podKey } } });
  }

  use(): () => void {
    if (this.users++ === 0) stream.add(this);
    return () => {
      if (--this.users === 0) stream.remove(this);
    };
  }

  apply(delivery: Delivery) {
    if (delivery.connection) this.connection = delivery.connection;
    if (delivery.reset) {
      this.times = [];
      this.series.clear();
    }
    if (delivery.items.case === "stats") for (const sample of delivery.items.value.samples) this.add(sample);
    if (delivery.more) return;
    this.loaded = true;
    this.changes.changed();
  }

  /** latest returns the newest known value of a series. */
  latest(series: Series, metric: Metric): number {
    const values = series.values[metric];
    for (let i = values.length - 1; i >= Math.max(0, values.length - 3); i--) if (!Number.isNaN(values[i]!)) return values[i]!;
    return NaN;
  }

  /** top returns the series of pods, or of containers, with the highest newest values. */
  top(metric: Metric, count: number, wanted: (series: Series) => boolean): Series[] {
    return [...this.series.values()].filter((one) => wanted(one) && !Number.isNaN(this.latest(one, metric)))
      .sort((a, b) => this.latest(b, metric) - this.latest(a, metric)).slice(0, count);
  }

  private add(sample: StatsSample) {
    const at = (millis(sample.time) ?? 0) / 1000;
    if (at <= (this.times[this.times.length - 1] ?? 0)) return;
    this.times.push(at);
    const count = this.times.length;
    for (const value of sample.values) {
      const key = value.podKey + "/" + value.container;
      let series = this.series.get(key);
      if (!series) {
        if (this.series.size >= mostSeries) continue;
        const before = () => new Array<number>(count - 1).fill(NaN);
        series = {
          key, podKey: value.podKey, pod: value.pod, container: value.container, memoryLimit: 0,
          values: { cpu: before(), memory: before(), received: before(), sent: before() },
        };
        this.series.set(key, series);
      }
      series.memoryLimit = Number(value.memoryLimit);
      const known = (one: number) => (one < 0 ? NaN : one);
      series.values.cpu[count - 1] = known(value.cpu);
      series.values.memory[count - 1] = known(Number(value.memory));
      series.values.received[count - 1] = known(value.received);
      series.values.sent[count - 1] = known(value.sent);
    }
    const drop = Math.max(0, count - mostTimes);
    if (drop > 0) this.times.splice(0, drop);
    for (const [key, series] of this.series) {
      let known = false;
      for (const metric of metrics) {
        const values = series.values[metric];
        while (values.length < count) values.push(NaN);
        if (drop > 0) values.splice(0, drop);
        known ||= values.some((one) => !Number.isNaN(one));
      }
      // A pod that is gone for as long as is kept.
      if (!known) this.series.delete(key);
    }
  }
}

/** stats is the use of the node and of each pod. */
export const stats = new Stats("stats", "");
