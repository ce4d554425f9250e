// One pod: YAML, events, containers. (In work.)
export function PodView(props: { id: string }) {
  return <div class="body">{props.id}</div>;
}
