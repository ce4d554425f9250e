package web

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/podctl/web/board"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// scrolled checks the page at each position of a grid: only the rows in view are in the document.
func (b *tab) scrolled(where, grid string) {
	b.t.Helper()
	b.do(chromedp.Evaluate(fmt.Sprintf(`{ const e = document.querySelector('[role=grid][aria-label^=%s]'); e.scrollTop = 0; }`, js(grid)), nil))
	for range 100 {
		b.check(where)
		end := eval[bool](b, fmt.Sprintf(`(async () => {
			const e = document.querySelector('[role=grid][aria-label^=%s]');
			const before = e.scrollTop;
			e.scrollTop += e.clientHeight;
			await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
			return e.scrollTop === before;
		})()`, js(grid)))
		if end {
			return
		}
	}
	b.t.Errorf("%s: the grid has no end", where)
}

// The whole corpus of hostile strings, as the names of pods, sources, consumers and containers, in messages, events, logs, manifests
// and errors of daemons that don't check them: the page shows all of it as harmless text.
func TestHostileDaemons(t *testing.T) {
	long(t)
	config := serveHostile(t, func(s *grpc.Server) { podconfigv1.RegisterPodConfigServiceServer(s, hostileConfig{}) })
	exec := serveHostile(t, func(s *grpc.Server) { podexecv1.RegisterPodExecServiceServer(s, hostileExec{}) })
	b := newTab(t, startSite(t, config, exec, "--allow-exec").address)
	count := len(hostileTexts)
	b.open("#/pods")
	b.wait("all pods are listed", fmt.Sprintf(`document.querySelector('[role=grid][aria-label=Pods]')?.getAttribute("aria-rowcount") === "%d"`, count+1))
	b.scrolled("pods", "Pods")
	for i := range hostileTexts {
		b.open("#/pods/" + board.Key("pod", fmt.Sprintf("uid-%03d", i)))
		b.wait("the pod is open", `document.querySelector('[role=tablist][aria-label=Pod]') && !document.querySelector('#main').textContent.includes("Loading")`)
		b.check(fmt.Sprintf("pod %d", i))
		if i%6 != 0 {
			continue
		}
		for _, name := range []string{"Desired YAML", "Observed YAML", "Events", "Changes"} {
			b.click(name, button(name))
			b.wait("it is loaded", `!document.querySelector('#main').textContent.includes("Loading")`)
			b.check(fmt.Sprintf("pod %d, %s", i, name))
		}
	}
	for view, grid := range map[string]string{"timeline": "Revisions", "sources": "Sources", "consumers": "Consumers", "events": "Events"} {
		b.open("#/" + view)
		b.wait("the rows are there: "+view, fmt.Sprintf(`document.querySelector('[role=grid][aria-label^=%s]')?.getAttribute("aria-rowcount") > %d`, js(grid), count))
		b.scrolled(view, grid)
		for i := range 12 {
			b.do(evalVoid(fmt.Sprintf(`document.querySelectorAll('[role=grid][aria-label^=%s] .rows .line')[%d].click()`, js(grid), i)))
			b.check(fmt.Sprintf("%s, row %d", view, i))
			b.open("#/" + view)
			b.wait("the rows are there again: "+view, fmt.Sprintf(`document.querySelectorAll('[role=grid][aria-label^=%s] .rows .line').length > 12`, js(grid)))
		}
	}
	b.open("#/logs")
	b.click("the choice", button("Choose up to"))
	b.wait("containers are there", `document.querySelectorAll('dialog .rows .line').length > 4`)
	b.check("choice of containers")
	b.do(evalVoid(`[...document.querySelectorAll('dialog .rows .line')].slice(0, 3).forEach((e) => e.click())`))
	b.click("the logs", button("Show the logs"))
	b.wait("lines are there", row("Lines", fmt.Sprintf("line %d", count-1)))
	b.scrolled("logs", "Lines")
	b.open("#/apply")
	b.wait("the view is open", `document.getElementById("manifest")`)
	for i := range hostileTexts {
		if i%3 == 2 {
			continue
		}
		content := fmt.Sprintf("# %d\n%s", i, utf8Text(hostileTexts[i]))
		b.do(evalVoid(fmt.Sprintf(`{ const e = document.getElementById("manifest"); e.value = %s; e.dispatchEvent(new Event("input", { bubbles: true })); }`, js(content))))
		b.click("compare", button("Compare"))
		b.wait("it is compared", `document.querySelector('#main [aria-label="What would change"] :is(.changed, article, [role=alert])') && !document.querySelector('#main').textContent.includes("Comparing")`)
		b.check(fmt.Sprintf("apply %d", i))
	}
	if reports := b.reports(); reports != 0 {
		t.Errorf("%d violations of the content security policy", reports)
	}
}

// At a gateway, the names of nodes are hostile too.
func TestHostileGateway(t *testing.T) {
	long(t)
	config := serveHostile(t, func(s *grpc.Server) { podconfigv1.RegisterPodConfigServiceServer(s, hostileConfig{gateway: true}) })
	exec := serveHostile(t, func(s *grpc.Server) { podexecv1.RegisterPodExecServiceServer(s, hostileExec{}) })
	b := newTab(t, startSite(t, config, exec).address)
	b.wait("all nodes are counted", fmt.Sprintf(`Number(document.querySelector('#main .tile b')?.innerText) >= %d`, len(hostileTexts)-1))
	b.scrolled("nodes", "Nodes")
	for i := range 10 {
		b.do(evalVoid(fmt.Sprintf(`document.querySelectorAll('[role=grid][aria-label=Nodes] .card')[%d].click()`, i)))
		b.wait("the node is open", `document.querySelectorAll('[aria-label^="Desired pods of the node"] .rows .line').length === 1`)
		b.check(fmt.Sprintf("node %d", i))
	}
	if reports := b.reports(); reports != 0 {
		t.Errorf("%d violations of the content security policy", reports)
	}
}
