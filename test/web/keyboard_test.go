package web

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// Each view and action is reached by the keyboard alone, the focus is visible, and it stays when rows come and go.
func TestKeyboardOnly(t *testing.T) {
	long(t)
	r := newRig(t, "wy", webPods())
	b := newTab(t, startSite(t, r.ConfigSocket(), r.ExecSocket()).address)
	b.wait("web runs", row("Pods", "web-wy")+`?.innerText.includes("Running")`)
	b.wait("the grid has the keyboard", `document.activeElement?.getAttribute("aria-label") === "Pods"`)

	// A row stays the active one while others change.
	b.press(kb.ArrowDown, "j", "j", "j", "k")
	active := `document.getElementById(document.activeElement.getAttribute("aria-activedescendant"))?.innerText.split("\n")[0]`
	pod := eval[string](b, active)
	appendPods(t, r, "aa", "zz")
	b.wait("both new pods are there", row("Pods", "zz-wy"))
	if now := eval[string](b, active); now != pod {
		t.Errorf("the active row changed from %q to %q", pod, now)
	}
	b.press(kb.Enter)
	b.wait("the pod is open", `location.hash.startsWith("#/pods/") && document.querySelector('[role=tablist][aria-label=Pod]')`)
	b.press("4")
	b.wait("its events are shown", `document.querySelector('[aria-label="Events of the pod"]')`)
	b.press("u")
	b.wait("the list is open", `location.hash === "#/pods"`)

	// The list of keys, and back to where the focus was.
	b.press("?")
	b.wait("the keys are listed", `document.querySelector("dialog[open]")`)
	b.press(kb.Escape)
	b.wait("the list is closed", `!document.querySelector("dialog")`)
	if focus := b.focus(); !strings.HasPrefix(focus, "grid Pods") {
		t.Errorf("after the dialog the focus is at %q", focus)
	}
	b.press("/")
	b.wait("the filter has the focus", `document.activeElement?.type === "search"`)
	b.press("crash")
	b.wait("only crash is listed", `document.querySelectorAll('[aria-label=Pods] .rows .line').length === 1`)
	b.press(kb.Escape)

	for key, view := range map[string]string{"t": "timeline", "s": "sources", "c": "consumers", "l": "logs", "e": "events", "h": "charts", "x": "exec", "a": "apply", "p": "pods"} {
		b.press("g", key)
		b.wait("the view "+view+" is open", `document.querySelector('.nav a[aria-current]')?.getAttribute("href") === "#/`+view+`"`)
		b.walk(view)
	}
}

// walk presses Tab through the whole page: the focus is always on an element in view, with an outline.
func (b *tab) walk(view string) {
	b.t.Helper()
	seen := map[string]bool{}
	ends := 0
	for range 80 {
		b.press(kb.Tab)
		problem := eval[string](b, `(() => { const e = document.activeElement; if (!e || e === document.body) return "end";
			const r = e.getBoundingClientRect(); const s = getComputedStyle(e);
			if (e.classList.contains("skip")) return "";
			if (r.width === 0 || r.bottom < 0 || r.top > innerHeight) return "is out of view";
			if (s.outlineStyle === "none" || s.outlineWidth === "0px") return "has no outline"; return ""; })()`)
		if problem == "end" {
			// The end of the page: the next Tab is at its begin.
			if ends++; ends == 2 {
				break
			}
			continue
		}
		name := b.focus()
		if problem != "" {
			b.t.Errorf("%s: %q %s", view, name, problem)
		}
		seen[name] = true
	}
	if len(seen) < 12 {
		b.t.Errorf("%s: Tab reaches only %v", view, seen)
	}
}
