package web

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/podstream/podstream/test/rig"
)

// Two tabs, each with eight followed logs, a terminal and the timeline, share the browser's six connections: no request
// waits for one for a second.
func TestTwoTabs(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	manifests := map[string]string{}
	for i := range 8 {
		name := fmt.Sprintf("log%d", i)
		manifests[name+".yaml"] = manifest(name, container("main", "print", "line of "+name))
	}
	r := newRig(t, "w2", manifests)
	s := startSite(t, r.ConfigSocket(), r.ExecSocket(), "--allow-exec")
	first := newTab(t, s.address)
	first.has("log7-w2")
	ticket := eval[string](first, "(async () => ("+first.call("NewTicket")+").ticket)()")
	second := newTab(t, eval[string](first, "location.origin")+"/#token="+ticket)
	for _, b := range []*tab{first, second} {
		b.do(page.BringToFront(), evalVoid(`performance.setResourceTimingBufferSize(10000)`))
		b.open("#/pods")
		for i := range 8 {
			b.wait("it runs", row("Pods", fmt.Sprintf("log%d-w2", i))+`?.innerText.includes("Running")`)
		}
		b.open("#/logs")
		b.click("the choice", button("Choose up to"))
		b.wait("containers are there", `document.querySelectorAll('dialog .rows .line').length === 8`)
		b.do(evalVoid(`document.querySelectorAll('dialog .rows .line').forEach((e) => e.click())`))
		b.click("the logs", button("Show the logs"))
		b.wait("all logs are followed", `document.querySelectorAll('[aria-label=Containers] li').length === 8`)
		b.open("#/exec")
		b.wait("pods are there", `document.querySelector('[aria-label=Pod]')?.options.length > 8`)
		b.do(evalVoid(`{ const e = document.querySelector('[aria-label=Pod]'); e.value = e.options[1].value; e.dispatchEvent(new Event("change", { bubbles: true })); }`))
		b.wait("the container is chosen", `document.querySelector('[aria-label=Container]')?.value === "main"`)
		b.fill(`[aria-label=Command]`, "/sample stdin")
		b.press(kb.Enter)
		b.click("the consent", `[...document.querySelectorAll('dialog button')].find((e) => e.innerText === 'Run' && !e.disabled)`)
		b.has("Runs in the container")
	}
	for i := range 5 {
		for k := range 8 {
			appendLog(t, logFile(t, r, fmt.Sprintf("log%d", k), "main"), "stdout", fmt.Sprintf("followed %d", i))
		}
		rig.Must(t, r.Write("more.yaml", manifest("more", container("main", "print", fmt.Sprint("version ", i)))))
		for _, b := range []*tab{first, second} {
			b.do(page.BringToFront(), chromedp.Focus(`.xterm-helper-textarea`))
			b.press(fmt.Sprintf("typed%d", i), kb.Enter)
			b.wait("the echo is shown", fmt.Sprintf(`document.querySelector('.xterm-rows')?.textContent.includes("typed%d")`, i))
		}
	}
	for i, b := range []*tab{first, second} {
		b.do(page.BringToFront())
		b.open("#/logs")
		b.wait("the logs are followed", row("Lines", "followed 4"))
		b.open("#/timeline")
		b.wait("the timeline is followed", row("Revisions", "more-w2"))
		waits := eval[[]float64](b, `performance.getEntriesByType("resource").filter((e) => e.requestStart > 0).map((e) => Math.round(e.requestStart - e.fetchStart))`)
		most := 0.0
		for _, wait := range waits {
			most = max(most, wait)
		}
		t.Logf("tab %d: %d requests, of which the longest waited %.0f ms for a connection", i, len(waits), most)
		if most > 1000 {
			t.Errorf("tab %d: a request waited %.0f ms for a connection", i, most)
		}
	}
}
