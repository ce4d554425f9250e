// Dialog is a modal dialog. Escape closes it; the focus then goes back to where it was.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren; foot?: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={element} aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
      onClick={(event) => event.target === element.current && props.onClose()}
    >
      <div class="dialog-body">
        <h2 id={id}>{props.title}</h2>
        {props.children}
      </div>
      <div class="dialog-foot">
        {props.foot}
        <button type="button" class="button" onClick={props.onClose}>Close</button>
      </div>
    </dialog>
  );
}
