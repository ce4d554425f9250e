// The logs of up to 16 containers, merged by time and followed.
import { create } from "@bufbuild/protobuf";
import {
  type Connection, type Delivery, type LogLine, type Topic, TopicSchema,
} from "../../gen/podweb/v1/topics_pb.ts";
import { Changes } from "./changes.ts";
import { type Feed, stream } from "./stream.ts";
import { millis } from "../time.ts";

/** LogChoice is a container whose log is shown. */
export interface LogChoice { podKey: string; container: string; label: string; previous: boolean }

/** LogRow is one line, or the place of lines that are missing. */
export interface LogRow { key: string; at: number; line: LogLine | undefined; missed: number }

export const mostContainers = 16;
const mostLines = 10000;
const mostCharacters = 6 << 20;
// A line may come after later ones of other containers; it is put in its place among so many of the last lines.
const near = 500;

class Logs implements Feed {
  readonly changes = new Changes();
  readonly id = "logs";
  cursor = "";
  connection: Connection | undefined;
  loaded = false;
  choices: readonly LogChoice[] = [];
  states: (Connection | undefined)[] = [];
  /** How many lines have come in all. */
  received = 0;
  private rows: LogRow[] = [];
  private characters = 0;
  private users = 0;
  private next = 0;

  topic(): Topic {
    return create(TopicSchema, {
      topic: {
        case: "logs",
        value: { containers: this.choices.map(({ podKey, container, previous }) => ({ podKey, container, previous })), tail: 500 },
      },
    });
  }

  use(): () => void {
    if (this.users++ === 0 && this.choices.length > 0) stream.add(this);
    return () => {
      if (--this.users === 0) stream.remove(this);
    };
  }

  /** choose shows the logs of other containers. */
  choose(choices: LogChoice[]) {
    stream.remove(this);
    this.choices = choices.slice(0, mostContainers);
    this.clear();
    this.cursor = "";
    this.connection = undefined;
    this.loaded = false;
    this.states = [];
    if (this.users > 0 && this.choices.length > 0) stream.add(this);
    this.changes.changed();
  }

  /** list returns the lines, the oldest first. The array is replaced by each change. */
  list(): readonly LogRow[] {
    return this.rows;
  }

  apply(delivery: Delivery) {
    if (delivery.connection) this.connection = delivery.connection;
    if (delivery.reset) this.clear();
    let rows = this.rows;
    if (delivery.missed > 0n) {
      rows = [...rows, { key: "gap" + this.next++, at: rows[rows.length - 1]?.at ?? 0, line: undefined, missed: Number(delivery.missed) }];
    }
    if (delivery.items.case === "logs") {
      const { lines, states } = delivery.items.value;
      for (const state of states) if (state.container < mostContainers) this.states[state.container] = state.connection;
      rows = rows === this.rows ? [...rows] : rows;
      for (const line of lines) {
        const at = millis(line.time) ?? rows[rows.length - 1]?.at ?? 0;
        let place = rows.length;
        for (const least = Math.max(0, place - near); place > least && rows[place - 1]!.at > at;) place--;
        rows.splice(place, 0, { key: String(this.next++), at, line, missed: 0 });
        this.characters += line.text.length;
      }
      this.received += lines.length;
    }
    let drop = 0;
    while (rows.length - drop > mostLines || (this.characters > mostCharacters && rows.length - drop > 1)) {
      this.characters -= rows[drop++]!.line?.text.length ?? 0;
    }
    this.rows = drop > 0 ? rows.slice(drop) : rows;
    if (delivery.more) return;
    this.loaded = true;
    this.changes.changed();
  }

  private clear() {
    this.rows = [];
    this.characters = 0;
  }
}

export const logs = new Logs();
