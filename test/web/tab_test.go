package web

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/podstream/podstream/test/rig"
)

// tab is a tab of the browser. Its methods end the test if they fail.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu sync.Mutex
	// complaints are errors that the browser reported: exceptions, and refusals of the content security policy.
	complaints []string
}

// newTab opens a tab at an address.
func newTab(t *testing.T, address string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chrome)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		cancel()
	})
	b := &tab{t: t, ctx: ctx}
	// The first Run ties the tab to its context: that must not be one with a timeout.
	if err := chromedp.Run(ctx); err != nil {
		t.Fatal(err)
	}
	chromedp.ListenTarget(ctx, b.listen)
	b.do(page.BringToFront(), chromedp.Navigate(address))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, complaint := range b.complaints {
			t.Errorf("the browser reports: %s", complaint)
		}
	})
	return b
}

func (b *tab) listen(event any) {
	text := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = e.ExceptionDetails.Error()
	case *log.EventEntryAdded:
		// Requests fail while podctl or a daemon is away: the page reports that itself.
		if e.Entry.Level == log.LevelError && e.Entry.Source != log.SourceNetwork {
			text = e.Entry.Text
		}
	}
	if text == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, text)
}

// do runs actions.
func (b *tab) do(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.t.Fatalf("%v\n%s", err, b.state())
	}
}

// eval evaluates an expression, which may be a promise.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	var value T
	b.do(chromedp.Evaluate(expression, &value, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return value
}

// wait waits until an expression is true. what says what it waits for.
func (b *tab) wait(what, expression string) {
	b.t.Helper()
	err := rig.Poll(patience, func() error {
		var holds bool
		// Not chromedp.Poll: it makes a function of a string, which the page's policy forbids.
		if err := chromedp.Run(b.ctx, chromedp.Evaluate("Boolean("+expression+")", &holds)); err != nil || !holds {
			return fmt.Errorf("it isn't so: %v", err)
		}
		return nil
	})
	if err != nil {
		b.t.Fatalf("waiting until %s: %v\n%s", what, err, b.state())
	}
}

// state describes what the tab shows now, for the message of a failure.
func (b *tab) state() string {
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
	defer cancel()
	var text string
	var shot []byte
	_ = chromedp.Run(ctx, chromedp.Evaluate(`location.hash + "\n" + document.body.innerText.slice(0, 3000)`, &text))
	if err := chromedp.Run(ctx, chromedp.CaptureScreenshot(&shot)); err == nil {
		path := filepath.Join(os.TempDir(), "web-"+strings.ReplaceAll(b.t.Name(), "/", "-")+".png")
		if os.WriteFile(path, shot, 0o600) == nil {
			text += "\n(screenshot: " + path + ")"
		}
	}
	return text
}

// js returns a value as a JavaScript literal.
func js(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// text is the expression of the text of the page, whatever its style sheet makes of it, without what was announced.
const text = `[...document.querySelectorAll("header, main, dialog")].map((e) => e.textContent).join("\n")`

// has waits until the view in front has a text.
func (b *tab) has(want string) {
	b.t.Helper()
	b.wait("the page shows "+want, fmt.Sprintf("%s.includes(%s)", text, js(want)))
}

// lacks waits until the page doesn't have a text.
func (b *tab) lacks(unwanted string) {
	b.t.Helper()
	b.wait("the page doesn't show "+unwanted, fmt.Sprintf("!%s.includes(%s)", text, js(unwanted)))
}

// open opens a view by its address.
func (b *tab) open(route string) {
	b.t.Helper()
	b.do(chromedp.Evaluate("location.hash = "+js(route), nil))
	view := strings.SplitN(strings.TrimPrefix(route, "#/"), "/", 2)[0]
	view, _, _ = strings.Cut(view, "?")
	b.wait("the view is open", fmt.Sprintf("document.querySelector('.nav a[aria-current]')?.getAttribute('href') === %s", js("#/"+view)))
}

// fill writes a text into a field as a user does: it replaces what is there.
func (b *tab) fill(selector, value string) {
	b.t.Helper()
	b.do(chromedp.Focus(selector), chromedp.Evaluate(fmt.Sprintf("document.querySelector(%s).select()", js(selector)), nil), chromedp.KeyEvent(value))
	b.wait("the field has the text", fmt.Sprintf("document.querySelector(%s).value === %s", js(selector), js(value)))
}

// press presses keys: texts, and the constants of package kb.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		b.do(chromedp.KeyEvent(key))
	}
}

// tabTo presses Tab until the element with the focus has a name, and reports whether there is one among the next 80.
func (b *tab) tabTo(name string) {
	b.t.Helper()
	var seen []string
	for range 80 {
		b.press(kb.Tab)
		focus := b.focus()
		if strings.Contains(focus, name) {
			return
		}
		seen = append(seen, focus)
	}
	b.t.Fatalf("Tab doesn't lead to %q, but to %q", name, slices.Compact(seen))
}

// focus returns the role and the name of the element with the keyboard's focus.
func (b *tab) focus() string {
	b.t.Helper()
	return eval[string](b, `(() => { const e = document.activeElement; if (!e || e === document.body) return "body";
		return (e.getAttribute("role") ?? e.tagName.toLowerCase()) + " " + (e.getAttribute("aria-label") ?? e.innerText ?? "").trim().slice(0, 60); })()`)
}

// theme switches to light or dark as the browser's preference. Chromium tells the page with its next frame, and only the tab in
// front has frames.
func (b *tab) theme(name string) {
	b.t.Helper()
	b.do(page.BringToFront(), prefer(name))
	b.wait("the theme is "+name, "document.documentElement.dataset.theme === "+js(name))
}

// prefer sets the browser's preference.
func prefer(theme string) chromedp.Action {
	return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}})
}
