// The pods that a consumer refused, and why.
import type { Refusal } from "../../gen/podweb/v1/topics_pb.ts";
import { show } from "../escape.ts";

export function Refusals(props: { list: Refusal[]; omitted: number }) {
  if (props.list.length === 0 && props.omitted === 0) return null;
  return (
    <>
      <h3>Refused pods</h3>
      <ul class="plain">
        {props.list.slice(0, 50).map((one) => (
          <li>
            <strong>{show((one.name?.namespace ?? "") + "/" + (one.name?.name ?? ""), 500)}</strong>{" "}
            <span class="tag bad">{show(one.reason, 100)}</span> {show(one.message, 1000)}
          </li>
        ))}
        {props.omitted + Math.max(0, props.list.length - 50) > 0 && <li class="muted">and {props.omitted + Math.max(0, props.list.length - 50)} more</li>}
      </ul>
    </>
  );
}
