package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// drop drops a file on the view of manifests.
func (b *tab) drop(name, content string) {
	b.t.Helper()
	b.do(chromedp.Evaluate(fmt.Sprintf(`(() => {
		const dataTransfer = new DataTransfer();
		dataTransfer.items.add(new File([%s], %s));
		document.querySelector(".drop").dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer }));
	})()`, js(content), js(name)), nil))
}

// confirm agrees in the dialog, and waits for its result.
func (b *tab) confirm(verb, result string) {
	b.t.Helper()
	b.click("the button "+verb+" of the dialog", fmt.Sprintf(`[...document.querySelectorAll("dialog .dialog-foot button")].find((e) => e.innerText === %s && !e.disabled)`, js(verb)))
	b.wait("the result is "+result, fmt.Sprintf(`document.querySelector("dialog")?.innerText.includes(%s)`, js(result)))
}

// applyDisabled is the expression of the button that applies, if it is disabled.
const applyDisabled = `[...document.querySelectorAll('button')].find((e) => e.innerText === 'Apply…').disabled`

// A manifest is dropped, compared, and applied after a confirmation: the pod runs, and the timeline has it. Deleted, it is gone.
func TestApply(t *testing.T) {
	r := newRig(t, "wy", nil)
	takeWrites(t, r)
	b := newTab(t, startSite(t, r.ConfigSocket(), r.ExecSocket(), "--allow-apply").address)
	b.open("#/apply")
	b.wait("the source applied is chosen", `document.querySelector("select")?.value === "applied"`)
	valid := manifest("new", container("main", "serve"))
	b.drop("bad.yaml", valid+"---\n"+strings.Replace(manifest("bad", container("main", "serve")), "IfNotPresent", "Sometimes", 1))
	b.wait("the mistake is marked", `document.querySelector('#main .snippet .here')?.textContent.includes("Sometimes")`)
	b.wait("it can't be applied", applyDisabled)

	b.drop("new.yaml", valid)
	b.wait("the difference is shown", `[...document.querySelectorAll('#main .changed')].some((e) => e.textContent.includes("new-wy"))`)
	b.has("pod/new created (dry run)")
	b.axe("apply")
	b.shoot("apply")
	b.click("the button that applies", button("Apply…"))
	b.axe("apply, the question")
	b.confirm("Apply", "Published in revision")
	b.wait("the result is no dry run", `document.querySelector("dialog .asked")?.innerText.startsWith("pod/new created\n")`)
	b.axe("apply, the result")
	b.click("the button that leads to the timeline", button("Open the timeline"))
	b.wait("the timeline shows it", row("Revisions", "new-wy")+`?.innerText.includes("applied")`)
	b.open("#/pods")
	b.wait("the pod runs", row("Pods", "new-wy")+`?.innerText.includes("Running")`)

	b.click("the pod", row("Pods", "new-wy"))
	b.has("Why it waits")
	b.click("the button that deletes", button("Delete"))
	b.confirm("Delete", `pod "new" deleted from default namespace`)
	b.open("#/pods")
	b.wait("the pod is gone", "!"+row("Pods", "new-wy"))
}

// takeWrites restarts podconfigd with the source "applied".
func takeWrites(t *testing.T, r *rig.Rig) {
	t.Helper()
	rig.Must(t, r.Podconfigd.Kill())
	var err error
	r.Podconfigd, err = r.Node.StartDaemonAs(r.Name+"-podconfigd-applied", "podconfigd", append(r.PodconfigdArgs(), "--applied")...)
	rig.Must(t, err)
	rig.Must(t, devnode.WaitServing(t.Context(), r.Podconfigd, "unix://"+r.ConfigSocket()))
}
