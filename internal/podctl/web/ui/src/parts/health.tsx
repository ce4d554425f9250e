// The state of a pod or a node as a word with a mark, never by colour alone.
import { Health } from "../../gen/podweb/v1/topics_pb.ts";
import { show } from "../escape.ts";

const classes: Record<number, string> = {
  [Health.GOOD]: "ok", [Health.WORKING]: "info", [Health.BAD]: "bad", [Health.UNKNOWN]: "warn",
};

/** healthClass returns the class of a health's mark. */
export function healthClass(health: Health): string {
  return classes[health] ?? "";
}

/** healthRank orders: what is wrong first. */
export function healthRank(health: Health): number {
  return health === Health.BAD ? 0 : 1;
}

/** State shows a state's word with its mark. */
export function State(props: { health: Health; word: string }) {
  return <span class={"state " + healthClass(props.health)}><span class="cut">{show(props.word, 100)}</span></span>;
}
