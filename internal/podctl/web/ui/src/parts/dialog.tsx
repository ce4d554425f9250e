// Dialog is a modal dialog. Escape closes it; the focus then goes back to where it was, or to the view if that is gone.
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { focusMain } from "../keys.ts";

export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren; foot?: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const before = document.activeElement;
    const dialog = element.current;
    dialog?.showModal();
    return () => {
      dialog?.close(); // While it is open, nothing else takes the focus.
      if (before instanceof HTMLElement && before !== document.body && before.isConnected) before.focus();
      else focusMain();
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
