// The stores of the page, each a copy of one topic.
import { useEffect } from "preact/hooks";
import type { ConsumerRow, EventRow, NodeRow, PodRow, SourceRow } from "../../gen/podweb/v1/topics_pb.ts";
import { millis } from "../time.ts";
import { useChanges } from "./changes.ts";
import { Rows } from "./rows.ts";

/** text compares in the order of code units, which is the same in every locale. */
export const text = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

const byName = (a: PodRow, b: PodRow) =>
  text(a.name?.namespace ?? "", b.name?.namespace ?? "") || text(a.name?.name ?? "", b.name?.name ?? "") || text(a.key, b.key);

/** podsOf returns a store of the pods of some nodes; of all pods if there is none. */
export function podsOf(id: string, nodeKeys: string[]): Rows<PodRow> {
  return new Rows<PodRow>({
    id,
    topic: { topic: { case: "pods", value: { nodeKeys } } },
    rows: (items) => (items.case === "pods" ? items.value.rows : undefined),
    omitted: (items) => (items.case === "pods" ? items.value.omitted : 0),
    order: byName,
    most: 5000,
  });
}

export const pods = podsOf("pods", []);

export const sources = new Rows<SourceRow>({
  id: "sources",
  topic: { topic: { case: "sources", value: {} } },
  rows: (items) => (items.case === "sources" ? items.value.rows : undefined),
  order: (a, b) => a.priority - b.priority,
  most: 500,
});

export const consumers = new Rows<ConsumerRow>({
  id: "consumers",
  topic: { topic: { case: "consumers", value: {} } },
  rows: (items) => (items.case === "consumers" ? items.value.rows : undefined),
  order: (a, b) => text(a.name, b.name) || text(a.key, b.key),
  most: 10000,
});

/** eventsOf returns a store of the events of a pod; of all pods if the key is empty. The newest stand first. */
export function eventsOf(id: string, podKey: string): Rows<EventRow> {
  return new Rows<EventRow>({
    id,
    topic: { topic: { case: "events", value: { podKey } } },
    rows: (items) => (items.case === "events" ? items.value.rows : undefined),
    order: (a, b) => (millis(b.lastTime) ?? 0) - (millis(a.lastTime) ?? 0) || text(a.key, b.key),
    most: 2000,
  });
}

export const events = eventsOf("events", "");

export const nodes = new Rows<NodeRow>({
  id: "nodes",
  topic: { topic: { case: "nodes", value: {} } },
  rows: (items) => (items.case === "nodes" ? items.value.rows : undefined),
  order: (a, b) => b.health - a.health || text(a.name, b.name),
  most: 20000,
});

/** useStore subscribes to a store's topic while the component is in the document, and draws it on changes. */
export function useStore<S extends { use(): () => void; changes: import("./changes.ts").Changes }>(store: S): S {
  useEffect(() => store.use(), [store]);
  useChanges(store);
  return store;
}
