// What stands in a view that has nothing to show: it is loading, it can't be had, or there is nothing.
import { type Connection, ConnectionState } from "../../gen/podweb/v1/topics_pb.ts";
import { clock, millis } from "../time.ts";
import { show } from "../escape.ts";
import { stream } from "../store/stream.ts";

interface Store { loaded: boolean; connection: Connection | undefined }

/** emptiness returns the text of an empty view. */
export function emptiness(store: Store, nothing: string): string {
  const connection = store.connection;
  if (connection?.state === ConnectionState.ENDED) return show(connection.text, 500) || "This can't be shown here.";
  if (connection?.state === ConnectionState.BROKEN && !store.loaded) return show(connection.text, 500);
  if (!store.loaded) return "Loading…";
  return nothing;
}

/** Asof says in a view's head since when what it shows isn't current. Empty while it is. */
export function Asof(props: { store: Store }) {
  const { loaded, connection } = props.store;
  if (!loaded) return null;
  if (stream.state !== "live") return <span class="tag warn">as of {clock(stream.since)}</span>;
  if (connection?.state === ConnectionState.BROKEN || connection?.state === ConnectionState.CONNECTING) {
    return <span class="tag warn" title={show(connection.text, 500)}>as of {clock(millis(connection.since))}</span>;
  }
  return null;
}
