// The timeline: the last revisions as they come, and windows of earlier ones that the user scrubs to.
import { create } from "@bufbuild/protobuf";
import { call, client, errorText } from "../api.ts";
import {
  type Connection, type Delivery, type Op, type Revision, type TimelineBegin, type Topic, TopicSchema,
} from "../../gen/podweb/v1/topics_pb.ts";
import { Changes } from "./changes.ts";
import { type Feed, stream } from "./stream.ts";

/** Line is one op of a revision, or the place of revisions that are missing. */
export interface Line {
  key: string;
  revision: Revision | undefined;
  op: Op | undefined;
  /** It is the first op of its revision. */
  first: boolean;
  /** So many revisions are missing here. */
  missed: number;
}

/** Tally counts the pods of one revision by what happened to them. */
export interface Tally { sequence: number; added: number; changed: number; removed: number }

// A window has at most this many revisions, and this many characters of changes.
const most = 1500;
const heaviest = 4 << 20;
// The tab remembers the tallies of this many revisions, of about 100 bytes.
const tallies = 20000;

const lines = new WeakMap<Revision, Line[]>();

function linesOf(revision: Revision, missed: number): Line[] {
  const known = lines.get(revision);
  if (known) return known;
  const all: Line[] = revision.ops.map((op, i) => ({
    key: revision.sequence + "-" + i, revision, op, first: i === 0, missed: 0,
  }));
  if (all.length === 0) all.push({ key: revision.sequence + "-0", revision, op: undefined, first: true, missed: 0 });
  // Newest first: the gap before a revision stands below it.
  if (missed > 0) all.push({ key: revision.sequence + "-gap", revision: undefined, op: undefined, first: true, missed });
  lines.set(revision, all);
  return all;
}

function weight(revision: Revision): number {
  let sum = 200;
  for (const op of revision.ops) for (const pod of op.pods) sum += 200 + pod.change.length;
  return sum;
}

/** Window is a bounded run of revisions, the newest first. */
export class Window {
  private revisions: Revision[] = [];
  private weights: number[] = [];
  private sum = 0;
  private list: Line[] | undefined;

  get size(): number {
    return this.revisions.length;
  }

  /** oldest and newest are sequences; zero if the window is empty. */
  get oldest(): bigint {
    return this.revisions[0]?.sequence ?? 0n;
  }

  get newest(): bigint {
    return this.revisions[this.revisions.length - 1]?.sequence ?? 0n;
  }

  get newestRevision(): Revision | undefined {
    return this.revisions[this.revisions.length - 1];
  }

  clear() {
    this.revisions = [];
    this.weights = [];
    this.sum = 0;
    this.list = undefined;
  }

  copy(): Window {
    const other = new Window();
    other.revisions = [...this.revisions];
    other.weights = [...this.weights];
    other.sum = this.sum;
    return other;
  }

  /** append adds newer revisions, and drops the oldest ones over the bounds. */
  append(more: Revision[], missed = 0) {
    for (const revision of more) {
      if (revision.sequence <= this.newest) continue;
      linesOf(revision, missed);
      missed = 0;
      this.revisions.push(revision);
      const one = weight(revision);
      this.weights.push(one);
      this.sum += one;
    }
    let drop = 0;
    while (this.revisions.length - drop > 1 && (this.revisions.length - drop > most || this.sum > heaviest)) {
      this.sum -= this.weights[drop++]!;
    }
    if (drop > 0) {
      this.revisions.splice(0, drop);
      this.weights.splice(0, drop);
    }
    this.list = undefined;
  }

  /** prepend adds older revisions, and drops the newest ones over the bounds. */
  prepend(more: Revision[]) {
    const older = more.filter((revision) => this.size === 0 || revision.sequence < this.oldest);
    const weights = older.map(weight);
    this.revisions.unshift(...older);
    this.weights.unshift(...weights);
    this.sum += weights.reduce((a, b) => a + b, 0);
    while (this.revisions.length > 1 && (this.revisions.length > most || this.sum > heaviest)) {
      this.revisions.pop();
      this.sum -= this.weights.pop()!;
    }
    this.list = undefined;
  }

  /** lines returns the ops, the newest first. */
  lines(): readonly Line[] {
    if (!this.list) {
      this.list = [];
      for (let i = this.revisions.length - 1; i >= 0; i--) for (const line of linesOf(this.revisions[i]!, 0)) this.list.push(line);
    }
    return this.list;
  }
}

class Timeline implements Feed {
  readonly changes = new Changes();
  readonly id = "timeline";
  cursor = "";
  connection: Connection | undefined;
  begin: TimelineBegin | undefined;
  loaded = false;
  readonly live = new Window();
  /** The revisions that are shown instead of the live ones, and the sequence at their top. */
  past: { at: bigint; window: Window; loading: boolean; error: string } | undefined;
  tally: Tally[] = [];
  private newestKnown = 0n;
  private users = 0;

  topic(): Topic {
    return create(TopicSchema, { topic: { case: "timeline", value: { last: 300 } } });
  }

  use(): () => void {
    if (this.users++ === 0) stream.add(this);
    return () => {
      if (--this.users === 0) stream.remove(this);
    };
  }

  get newest(): bigint {
    return this.newestKnown > this.live.newest ? this.newestKnown : this.live.newest;
  }

  apply(delivery: Delivery) {
    if (delivery.connection) this.connection = delivery.connection;
    if (delivery.reset) {
      this.live.clear();
      this.tally = [];
      this.newestKnown = 0n;
    }
    if (delivery.items.case === "timeline") {
      const { revisions, begin } = delivery.items.value;
      if (begin) this.begin = begin;
      this.live.append(revisions, Number(delivery.missed));
      this.count(revisions);
    }
    if (delivery.more) return;
    this.loaded = true;
    this.changes.changed();
  }

  /** goLive shows the live revisions again. */
  goLive() {
    this.past = undefined;
    this.changes.changed();
  }

  /** hold keeps the revisions that are shown now, while new ones come. */
  hold() {
    if (this.past || this.live.size === 0) return;
    this.past = { at: this.live.newest, window: this.live.copy(), loading: false, error: "" };
    this.changes.changed();
  }

  /** scrub shows the revisions up to a sequence. */
  async scrub(at: bigint) {
    if (this.past?.at === at) return;
    const past = { at, window: new Window(), loading: true, error: "" };
    const before = this.past?.window ?? this.live.copy();
    // The old revisions stay until the new ones have come, so that the layout doesn't move.
    this.past = { ...past, window: before };
    const mine = this.past;
    this.changes.changed();
    try {
      const page = await client.listRevisions({ sequence: at + 1n, limit: 100 }, call);
      if (this.past !== mine) return;
      past.window.append(page.revisions);
      this.know(page.revisions, page.begin, page.newest);
      this.past = { ...past, loading: false };
    } catch (error) {
      stream.end(error);
      if (this.past === mine) this.past = { ...mine, loading: false, error: errorText(error) };
    }
    this.changes.changed();
  }

  /** older adds the revisions before the oldest that is shown. */
  async older() {
    this.hold();
    const past = this.past;
    if (!past || past.loading || past.window.size === 0 || past.window.oldest <= (this.begin?.sequence ?? 0n)) return;
    past.loading = true;
    this.changes.changed();
    try {
      const page = await client.listRevisions({ sequence: past.window.oldest, limit: 200 }, call);
      past.window.prepend(page.revisions);
      this.know(page.revisions, page.begin, page.newest);
      past.error = "";
    } catch (error) {
      stream.end(error);
      past.error = errorText(error);
    }
    past.loading = false;
    this.changes.changed();
  }

  private know(revisions: Revision[], begin: TimelineBegin | undefined, newest: bigint) {
    if (begin) this.begin = begin;
    if (newest > this.newestKnown) this.newestKnown = newest;
    this.count(revisions);
  }

  private count(revisions: Revision[]) {
    const first = this.tally[0]?.sequence ?? Infinity;
    const last = this.tally[this.tally.length - 1]?.sequence ?? -1;
    const older: Tally[] = [];
    for (const revision of revisions) {
      const sequence = Number(revision.sequence);
      if (sequence > last) this.tally.push(tallyOf(revision, sequence));
      else if (sequence < first) older.push(tallyOf(revision, sequence));
    }
    if (older.length > 0) this.tally.unshift(...older);
    if (this.tally.length > tallies) this.tally.splice(0, this.tally.length - tallies);
  }
}

function tallyOf(revision: Revision, sequence: number): Tally {
  const tally = { sequence, added: 0, changed: 0, removed: 0 };
  for (const op of revision.ops) {
    const count = op.pods.length + op.omittedPods;
    if (op.op === "ADD" || op.op === "RESTORE" || op.op === "SET") tally.added += count;
    else if (op.op === "REMOVE" || op.op === "DELETE") tally.removed += count;
    else tally.changed += count;
  }
  return tally;
}

export const timeline = new Timeline();
