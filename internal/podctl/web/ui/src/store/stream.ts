// The tab's one stream to podctl: it carries all feeds. After a break it is opened again with each feed's cursor, so that
// the page goes on where it was.
import { Code, ConnectError } from "@connectrpc/connect";
import { client, errorText, isOver } from "../api.ts";
import type { Session } from "../../gen/podweb/v1/podweb_pb.ts";
import type { Delivery, Topic } from "../../gen/podweb/v1/topics_pb.ts";
import { Changes } from "./changes.ts";

/** Feed is one subscription of the tab. */
export interface Feed {
  readonly id: string;
  topic(): Topic;
  cursor: string;
  apply(delivery: Delivery): void;
}

/** State is the state of the stream to podctl. The states of the daemons are in the session. */
export type State = "opening" | "live" | "broken" | "over";

const silent = 15000;
const shortest = 250;
const longest = 5000;

class Stream {
  readonly changes = new Changes();
  state: State = "opening";
  text = "";
  since = Date.now();
  /** How often the stream has been opened: more than one after a break. */
  opened = 0;
  session: Session | undefined;
  /** podctl's clock less the browser's, in milliseconds. */
  skew = 0;
  private tab = "";
  private readonly feeds = new Map<string, Feed>();
  private abort: AbortController | undefined;
  private wake: (() => void) | undefined;

  /** now returns the time by podctl's clock, with which the times in rows are compared. */
  now(): number {
    return Date.now() + this.skew;
  }

  /** add subscribes a feed, from its cursor on. */
  add(feed: Feed) {
    this.feeds.set(feed.id, feed);
    if (this.tab) void this.subscribe(feed);
  }

  /** remove ends a subscription. The feed keeps its cursor. */
  remove(feed: Feed) {
    if (this.feeds.get(feed.id) !== feed) return;
    this.feeds.delete(feed.id);
    if (this.tab) client.unsubscribe({ tab: this.tab, id: feed.id }, { timeoutMs: 10000 }).catch(() => {});
  }

  private async subscribe(feed: Feed) {
    try {
      await client.subscribe(
        { tab: this.tab, subscription: { id: feed.id, topic: feed.topic(), cursor: feed.cursor } }, { timeoutMs: 10000 });
    } catch (error) {
      // The stream is over, or not answering: the next one has all feeds.
      if (isOver(error)) this.set("over", errorText(error));
      else if (this.feeds.get(feed.id) === feed) this.abort?.abort();
    }
  }

  /** retry ends the pause before the next attempt. */
  retry() {
    this.wake?.();
  }

  /** run keeps the stream open until the session is over. */
  async run() {
    window.addEventListener("online", () => this.retry());
    for (let pause = shortest; !this.ended();) {
      const abort = new AbortController();
      this.abort = abort;
      let timer = window.setTimeout(() => abort.abort(), silent);
      let reason = "podctl web ended the stream.";
      try {
        const subscriptions = [...this.feeds.values()].map((feed) => ({ id: feed.id, topic: feed.topic(), cursor: feed.cursor }));
        const known = new Set(this.feeds.values());
        for await (const message of client.watch({ subscriptions }, { signal: abort.signal })) {
          window.clearTimeout(timer);
          timer = window.setTimeout(() => abort.abort(), silent);
          const event = message.event;
          if (event.case === "opened") {
            pause = shortest;
            this.tab = event.value.tab;
            this.opened++;
            this.meet(event.value.session);
            this.set("live", "");
            // Feeds that were added while the stream was being opened.
            for (const feed of this.feeds.values()) if (!known.has(feed)) void this.subscribe(feed);
          } else if (event.case === "alive") {
            this.meet(event.value.session);
          } else if (event.case === "delivery") {
            const feed = this.feeds.get(event.value.id);
            if (!feed) continue;
            feed.cursor = event.value.cursor || feed.cursor;
            feed.apply(event.value);
          }
        }
      } catch (error) {
        reason = abort.signal.aborted ? "podctl web has been silent for 15 s." : errorText(error);
        if (isOver(error)) this.set("over", reason);
        if (ConnectError.from(error).code === Code.ResourceExhausted) pause = longest;
      }
      window.clearTimeout(timer);
      this.tab = "";
      if (this.ended()) return;
      this.set("broken", reason);
      await new Promise<void>((resolve) => {
        const id = window.setTimeout(resolve, pause * (0.75 + Math.random() / 2));
        this.wake = () => {
          window.clearTimeout(id);
          resolve();
        };
      });
      pause = Math.min(longest, pause * 2);
    }
  }

  private ended(): boolean {
    return this.state === "over";
  }

  /** end says that the session is over, after a call was refused. */
  end(error: unknown) {
    if (isOver(error)) this.set("over", errorText(error));
  }

  private meet(session: Session | undefined) {
    if (!session) return;
    this.session = session;
    if (session.now) this.skew = Number(session.now.seconds) * 1000 + session.now.nanos / 1e6 - Date.now();
    this.changes.changed();
  }

  private set(state: State, text: string) {
    if (state !== this.state) this.since = Date.now();
    this.state = state;
    this.text = text;
    this.changes.changed();
  }
}

export const stream = new Stream();
