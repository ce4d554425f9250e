// The list of the keys that work now.
import { Dialog } from "./dialog.tsx";
import { shortcuts } from "../keys.ts";

export function Help(props: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={props.onClose}>
      <dl class="keys">
        {shortcuts().map((one) => (
          <>
            <dt>{one.keys.split(" ").map((key) => <><kbd>{key}</kbd> </>)}</dt>
            <dd>{one.text}</dd>
          </>
        ))}
        <dt><kbd>↑</kbd> <kbd>↓</kbd> <kbd>j</kbd> <kbd>k</kbd></dt><dd>The next row of a table, with the keyboard in it</dd>
        <dt><kbd>Enter</kbd></dt><dd>Open the row</dd>
        <dt><kbd>Tab</kbd></dt><dd>The next control</dd>
        <dt><kbd>Esc</kbd></dt><dd>Leave a field or a dialog</dd>
        <dt><kbd>Ctrl</kbd> <kbd>F6</kbd></dt><dd>Leave the terminal</dd>
      </dl>
    </Dialog>
  );
}
