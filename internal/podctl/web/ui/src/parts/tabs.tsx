// Tabs is a row of tabs: the arrow keys move between them.
import { useRef } from "preact/hooks";

export function Tabs(props: { label: string; tabs: [string, string][]; current: string; onTab: (name: string) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const move = (by: number) => {
    const at = props.tabs.findIndex(([name]) => name === props.current);
    const next = (at + by + props.tabs.length) % props.tabs.length;
    props.onTab(props.tabs[next]![0]);
    box.current?.querySelectorAll<HTMLElement>("[role=tab]")[next]?.focus();
  };
  return (
    <div
      class="tabs" role="tablist" aria-label={props.label} ref={box}
      onKeyDown={(event) => {
        const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (by === undefined) return;
        event.preventDefault();
        move(by);
      }}
    >
      {props.tabs.map(([name, title]) => (
        <button
          type="button" role="tab" aria-selected={name === props.current} tabIndex={name === props.current ? 0 : -1}
          onClick={() => props.onTab(name)}
        >
          {title}
        </button>
      ))}
    </div>
  );
}
