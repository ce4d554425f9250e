// Rows is the copy of a topic whose rows replace each other by key: pods, sources, consumers, events, nodes.
import type { MessageInitShape } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";
import {
  type Connection, ConnectionState, type Delivery, type Topic, TopicSchema,
} from "../../gen/podweb/v1/topics_pb.ts";
import { Changes } from "./changes.ts";
import { type Feed, stream } from "./stream.ts";

interface Keyed { key: string }

interface Config<R> {
  id: string;
  topic: MessageInitShape<typeof TopicSchema>;
  rows: (items: Delivery["items"]) => R[] | undefined;
  omitted?: (items: Delivery["items"]) => number;
  order: (a: R, b: R) => number;
  /** At most this many rows are kept; the first ones by order stay. */
  most: number;
}

export class Rows<R extends Keyed> implements Feed {
  readonly changes = new Changes();
  readonly id: string;
  cursor = "";
  connection: Connection | undefined;
  /** False until the first whole state has come. */
  loaded = false;
  omitted = 0;
  private byKey = new Map<string, R>();
  private next: Map<string, R> | undefined;
  private list: R[] | undefined;
  private users = 0;

  constructor(private readonly config: Config<R>) {
    this.id = config.id;
  }

  topic(): Topic {
    return create(TopicSchema, this.config.topic);
  }

  /** use subscribes, and returns the function that ends that. The rows stay. */
  use(): () => void {
    if (this.users++ === 0) stream.add(this);
    return () => {
      if (--this.users === 0) stream.remove(this);
    };
  }

  get(key: string): R | undefined {
    return this.byKey.get(key);
  }

  /** sorted returns all rows in their order. Equal until the next change. */
  sorted(): readonly R[] {
    return this.list ??= [...this.byKey.values()].sort(this.config.order);
  }

  /** stale reports whether the rows are of an earlier time: the stream or the daemon is away. */
  get stale(): boolean {
    return this.loaded && (stream.state !== "live" || this.connection?.state !== ConnectionState.LIVE);
  }

  apply(delivery: Delivery) {
    if (delivery.connection) this.connection = delivery.connection;
    // After a reset the old rows are shown until the new state is complete.
    if (delivery.reset) this.next = new Map();
    const into = this.next ?? this.byKey;
    for (const key of delivery.removed) into.delete(key);
    const rows = this.config.rows(delivery.items);
    if (rows) {
      for (const row of rows) into.set(row.key, row);
      if (this.config.omitted) this.omitted = this.config.omitted(delivery.items);
    }
    if (into.size > this.config.most) {
      const kept = [...into.values()].sort(this.config.order).slice(0, this.config.most);
      into.clear();
      for (const row of kept) into.set(row.key, row);
    }
    if (delivery.more) return;
    if (this.next) {
      this.byKey = this.next;
      this.next = undefined;
    }
    this.loaded = true;
    this.list = undefined;
    this.changes.changed();
  }
}
