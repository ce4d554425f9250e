package web

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/podstream/podstream/internal/hostiletext"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/rig"
)

// scripts are strings that a browser may act on, beside the corpus of package hostiletext, which is about terminals. Each has
// "hsNN", by which it is found on the page.
var scripts = []string{
	`<script>window.hostile=1</script>hs00`, `<img src=x onerror=window.hostile=1>hs01`, `"><svg onload=window.hostile=1>hs02`,
	`javascript:window.hostile=1//hs03`, `<a href="https://example.com">hs04</a>`, `{{constructor.constructor("window.hostile=1")()}}hs05`,
	"\u202ehs06 gnp.exe", "hs07\u2066\u2067\u2068\u2069", "hs08\u200b\u200c\u200d\ufeff", "hs09\x1b[31mred\x1b[0m", "hs10\x1b]8;;https://example.com\x07link\x1b]8;;\x07",
	"hs11\x1b]52;c;aGk=\x07", "hs12\u0085\u2028\u2029", "hs13\u00ad\u034f\u180e", "hs14" + strings.Repeat("\u0301", 300), "hs15\U000e0041\U000e0042",
	"hs16 https://example.com/?q=1", "hs17&lt;b&gt;&#x202e;", "hs18" + strings.Repeat("A", 3000), "hs19\\u202e", "hs20 ${window.hostile=1} `x`",
	"hs21</textarea></style><style>*{display:none}</style>", "hs22\u3164\u115f", "hs23\ufffd\ufffe", "hs24' onmouseover='window.hostile=1", "hs25\x7f\x08\x08\x08",
	"hs26\u0600\u06dd", "hs27 %00%0d%0aSet-Cookie:a=b", "hs28 __proto__ constructor toString", "hs29 \u05d0\u05d1\u05d2 abc",
}

// scan returns what is wrong with the document: characters that should be escaped, and elements that the page doesn't make.
const scan = `(() => {
	const wrong = [];
	const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2800\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\p{Bidi_Control}\p{Variation_Selector}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}]/u;
	const walker = document.createTreeWalker(document, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
	for (let node = walker.nextNode(); node; node = walker.nextNode()) {
		const text = node.nodeType === 3 ? node.data : [...node.attributes].map((a) => a.value).join("\n") + (node.value ?? "");
		const where = node.nodeType === 3 ? node.parentElement : node;
		if (where.closest(".xterm") || where.id === "manifest") continue;
		const found = hidden.exec(text);
		if (found) wrong.push("U+" + found[0].codePointAt(0).toString(16) + " in <" + where.tagName + "> " + JSON.stringify(text.slice(0, 80)));
		if (node.nodeType !== 1) continue;
		if (/^(IFRAME|OBJECT|EMBED|SVG|STYLE|BASE|TEMPLATE)$/i.test(node.tagName)) wrong.push("<" + node.tagName + ">");
		if (node.tagName === "SCRIPT" && node.getAttribute("src") !== "app.js") wrong.push("a script");
		if (node.tagName === "IMG" && node.getAttribute("src") !== "icon.svg") wrong.push("an image");
		if (node.tagName === "A" && !/^#(main|\/[a-z]+)$/.test(node.getAttribute("href"))) wrong.push("a link to " + node.href);
		for (const a of node.attributes) if (/^on|^srcdoc$/.test(a.name)) wrong.push("the attribute " + a.name);
	}
	if (window.hostile !== undefined) wrong.push("a script ran");
	return wrong.slice(0, 10);
})()`

// check scans the document as it is now.
func (b *tab) check(where string) {
	b.t.Helper()
	for _, problem := range eval[[]string](b, scan) {
		b.t.Errorf("%s: %s", where, problem)
	}
}

// Hostile text is shown as text in each view, and nothing else comes of it.
func TestHostileText(t *testing.T) {
	long(t)
	manifests := map[string]string{}
	hostile := append(slices.Clone(scripts), hostiletext.Strings()...)
	for i, text := range hostile {
		name := fmt.Sprintf("h%02d", i)
		manifests[name+".yaml"] = strings.Replace(manifest(name, container("main", "print", text)), "  labels:", fmt.Sprintf("  annotations: {note: %s}\n  labels:", js(text)), 1)
		file := strings.NewReplacer("/", "_", "\x00", "_").Replace(text)
		manifests[fmt.Sprintf("bad%02d", i)+file[:min(len(file), 100)]+".yaml"] = fmt.Sprintf(
			"apiVersion: v1\nkind: Pod\nmetadata:\n  name: bad%02d\nspec:\n  containers:\n  - name: main\n    image: x\n    imagePullPolicy: %s\n", i, js(text))
	}
	r := newRig(t, "hh", nil)
	for _, file := range slices.Sorted(maps.Keys(manifests)) {
		if err := os.WriteFile(filepath.Join(r.Manifests, file), []byte(manifests[file]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A consumer with a hostile name.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	consumer, err := r.Config.WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{Consumer: scripts[1] + "\u202e"})
	rig.Must(t, err)
	_, err = consumer.Recv()
	rig.Must(t, err)

	b := newTab(t, startSite(t, r.ConfigSocket(), r.ExecSocket(), "--allow-exec").address)
	b.wait("the pods are there", `document.querySelectorAll('[aria-label=Pods] .rows .line').length > 20`)
	b.check("pods")
	for _, i := range []string{"h01", "h06", "h14"} {
		b.open("#/pods?q=" + i + "-hh")
		b.click(i, row("Pods", i+"-hh"))
		for _, tab := range []string{"Desired YAML", "Observed YAML", "Events", "Changes", "Overview"} {
			b.click(tab, button(tab))
			if tab == "Desired YAML" {
				b.has("hs" + i[1:])
			}
			b.check("pod " + i + ", " + tab)
		}
	}
	b.open("#/sources")
	b.wait("the findings are there", `document.querySelectorAll('[aria-label^=Sources] .rows .line').length > 15`)
	for i := range 12 {
		b.do(evalVoid(fmt.Sprintf(`document.querySelectorAll('[aria-label^=Sources] .rows .line')[%d].click()`, i+1)))
		b.wait("the finding is shown", `document.querySelector('#main article')`)
		b.check("sources")
	}
	b.open("#/timeline")
	b.wait("the ops are there", row("Revisions", "-hh"))
	b.click("an op", row("Revisions", "-hh"))
	b.check("timeline")
	b.open("#/consumers")
	b.wait("the consumer is there", row("Consumers", "hs01"))
	b.check("consumers")
	b.open("#/events")
	b.wait("there are events", row("Events", "Started"))
	b.check("events")
	b.open("#/logs")
	for k := range 2 {
		b.click("the choice", button([]string{"Choose up to", "Containers"}[k]))
		b.click("none", button("None"))
		b.wait("containers are there", `document.querySelectorAll('dialog .rows .line').length > 14`)
		b.do(evalVoid(fmt.Sprintf(`[...document.querySelectorAll('dialog .rows .line')].slice(%d, %d).forEach((e) => e.click())`, k*3, k*3+14)))
		b.click("the logs", button("Show the logs"))
		b.wait("lines are there", `document.querySelectorAll('[aria-label^=Lines] .rows .line').length > 5`)
		b.check("logs")
	}
	b.do(evalVoid(`document.querySelectorAll('[aria-label^=Lines] .rows .line')[1].click()`))
	b.check("a whole line")
	b.open("#/apply")
	b.wait("the view is open", `document.getElementById("manifest")`)
	for i, text := range hostile {
		if i%5 != 0 {
			continue
		}
		content := strings.Replace(manifests["h00.yaml"], js(hostile[0]), js(text), 2) + "  bad: " + js(text) + "\n"
		b.do(evalVoid(fmt.Sprintf(`{ const e = document.getElementById("manifest"); e.value = %s; e.dispatchEvent(new Event("input", { bubbles: true })); }`, js(content))))
		b.click("compare", button("Compare"))
		b.wait("it is compared", `document.querySelector('#main .changed, #main article')`)
		b.check("apply")
	}
	if reports := b.reports(); reports != 0 {
		t.Errorf("%d violations of the content security policy", reports)
	}
}

// The browser's complaints about violations are heard, and the scan finds what it looks for: a violation is made on purpose.
func TestViolationsAreSeen(t *testing.T) {
	long(t)
	r := newRig(t, "hv", nil)
	s := startSite(t, r.ConfigSocket(), r.ExecSocket())
	b := newTab(t, s.address)
	b.has("No pod is desired")
	b.check("an empty node")
	b.do(evalVoid(`document.getElementById("main").setAttribute("style", "color: red"); document.getElementById("main").append("\u202e")`))
	rig.Must(t, rig.Poll(patience, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.complaints) == 0 {
			return errors.New("the browser has reported nothing")
		}
		b.complaints = nil
		return nil
	}))
	if problems := eval[[]string](b, scan); len(problems) != 1 {
		t.Errorf("the scan finds %q; want the one character", problems)
	}
	// The browser reports it to podctl, which counts it, and says so on the page and at the terminal.
	b.wait("the page shows the violation", `document.querySelector('.bar')?.innerText.includes("1 violation")`)
	if reports := b.reports(); reports != 1 {
		t.Errorf("podctl has counted %d violations; want 1", reports)
	}
	if !strings.Contains(s.text(), "violated its content security policy") {
		t.Errorf("podctl says nothing of the violation: %s", s.text())
	}
	b.axe("a violation")
}

// bearer returns the session's token, from the headers of a request of the page.
func (b *tab) bearer() string {
	b.t.Helper()
	found := make(chan string, 1)
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	chromedp.ListenTarget(ctx, func(event any) {
		if e, ok := event.(*network.EventRequestWillBeSent); ok {
			for name, value := range e.Request.Headers {
				if token, ok := value.(string); ok && strings.EqualFold(name, "Authorization") {
					select {
					case found <- token:
					default:
					}
				}
			}
		}
	})
	b.do(network.Enable(), evalVoid(`location.hash = location.hash === "#/consumers" ? "#/sources" : "#/consumers"`))
	select {
	case token := <-found:
		return token
	case <-deadline(patience).Done():
		b.t.Fatal("the page sent no request with a token")
		return ""
	}
}

// call returns the expression of the answer to a call of the page's API.
func (b *tab) call(method string) string {
	return fmt.Sprintf(`await (await fetch("/podweb.v1.WebService/%s", { method: "POST", headers: { Authorization: %s, "Content-Type": "application/json" }, body: "{}" })).json()`,
		method, js(b.bearer()))
}

// reports returns the number of violations of the content security policy that podctl has counted.
func (b *tab) reports() int {
	return eval[int](b, "(async () => ("+b.call("GetSession")+").session.cspReports ?? 0)()")
}
