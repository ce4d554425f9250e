package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/podstream/podstream/test/rig"
)

// row is the expression of the first row of a grid that has a text.
func row(grid, has string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('[role=grid][aria-label^=%s] .rows .line')].find((e) => e.innerText.includes(%s))`, js(grid), js(has))
}

// click clicks the element of an expression, once it is there.
func (b *tab) click(what, expression string) {
	b.t.Helper()
	b.wait(what+" is there", expression)
	b.do(chromedp.Evaluate("void ("+expression+").click()", nil))
}

// button is the expression of a button that begins with a text.
func button(text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('button, [role=tab]')].find((e) => (e.getAttribute('aria-label') ?? e.innerText).startsWith(%s) && !e.disabled)`, js(text))
}

// The pods come as they are written, desired beside observed, with the reason for which one waits.
func TestPods(t *testing.T) {
	r := newRig(t, "wp", webPods())
	b := newTab(t, startSite(t, r.ConfigSocket(), r.ExecSocket()).address)
	b.wait("web runs", row("Pods", "web-wp")+`?.innerText.includes("Running")`)
	b.wait("crash crashes", row("Pods", "crash-wp")+`?.innerText.includes("CrashLoopBackOff")`)
	b.wait("absent says why it waits", row("Pods", "absent-wp")+`?.innerText.includes("backoff")`)
	if address := eval[string](b, "location.href"); strings.Contains(address, "token") {
		t.Errorf("the address still has the token: %s", address)
	}
	b.axe("pods")
	b.shoot("pods")

	rig.Must(t, r.Write("late.yaml", manifest("late", container("late", "serve"))))
	b.wait("a new pod comes and runs", row("Pods", "late-wp")+`?.innerText.includes("Running")`)
	rig.Must(t, r.Remove("late.yaml"))
	b.wait("a removed pod goes", "!"+row("Pods", "late-wp"))

	b.click("the pod crash", row("Pods", "crash-wp"))
	b.has("Why it waits")
	b.axe("pod")
	b.shoot("pod")
	for tab, want := range map[string]string{"Desired YAML": "localhost/podstream-sample:dev", "Observed YAML": "containerStatuses", "Events": "BackOff", "Changes": "ADD", "Overview": "Spec digest"} {
		b.click("the tab "+tab, button(tab))
		b.has(want)
		b.axe("pod, " + tab)
	}
}

// The timeline shows each revision with its ops and their sources, back to where the history begins, and the pods that
// were desired then.
func TestTimeline(t *testing.T) {
	r := newRig(t, "wt", map[string]string{"web.yaml": manifest("web", container("web", "serve"))})
	b := newTab(t, startSite(t, r.ConfigSocket(), r.ExecSocket()).address)
	b.wait("web runs", row("Pods", "web-wt")+`?.innerText.includes("Running")`)
	b.press("g", "t")
	b.has("History begins at revision")
	for i := range 5 {
		rig.Must(t, r.Write("db.yaml", manifest("db", container("db", "print", fmt.Sprint("version ", i)))))
		b.wait("the change is shown", fmt.Sprintf(`%s || document.querySelector('[aria-label^="Revisions"] .line .tag.add')`, row("Revisions", "version")))
		b.wait("the pod is desired", fmt.Sprintf(`document.querySelectorAll('[aria-label^="Revisions"] .rows .line .tag.add').length > %d`, i))
	}
	b.wait("the source is named", row("Revisions", "db-wt")+`.innerText.includes("file")`)
	b.click("the newest op", row("Revisions", "db-wt"))
	b.has("by file")
	b.axe("timeline")
	b.shoot("timeline")

	// Back to the begin of the history: then only web was desired, or nothing.
	b.do(chromedp.Focus(`input[type=range]`), chromedp.KeyEvent(kb.Home))
	b.has("newer revision")
	b.click("the desired pods", button("Desired after it"))
	b.wait("the pods of that time are listed", `document.querySelector('[aria-label^="Desired pods after"]') && !document.querySelector('[aria-label^="Desired pods after"]').innerText.includes("db-wt")`)
	b.axe("timeline, at its begin")
	b.press("l")
	b.lacks("newer revision")
}

// A mistake is shown at its file and line.
func TestSources(t *testing.T) {
	manifests := webPods()
	manifests["bad.yaml"] = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: bad\nspec:\n  containers:\n  - name: main\n    image: \"sample:1\"\n    imagePullPolicy: Sometimes\n"
	manifests["typo.yaml"] = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: typo\nspec:\n  contaners:\n  - name: main\n"
	r := newRig(t, "ws", manifests)
	b := newTab(t, startSite(t, r.ConfigSocket(), r.ExecSocket()).address)
	b.open("#/sources")
	b.click("the finding", row("Sources", "bad.yaml:9"))
	b.has(r.Manifests + "/bad.yaml:9")
	b.wait("the mistake is marked", `document.querySelector('.snippet .here')?.innerText.includes("imagePullPolicy: Sometimes")`)
	b.axe("sources")
	b.shoot("sources")
	rig.Must(t, r.Remove("bad.yaml"))
	b.wait("the finding goes with its file", "!"+row("Sources", "bad.yaml:9"))
}
