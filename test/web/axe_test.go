package web

import (
	"os"
	"path/filepath"
	"sync"

	"github.com/chromedp/chromedp"

	"github.com/podstream/podstream/test/rig"
)

// axeSource is axe-core, a development dependency of the page.
var axeSource = sync.OnceValues(func() ([]byte, error) {
	return os.ReadFile(filepath.Join("..", "..", "internal", "podctl", "web", "ui", "node_modules", "axe-core", "axe.min.js"))
})

// axe checks the page as it is now by axe-core's rules for WCAG 2.2 A and AA and best practices, in both themes. The
// script comes by the debugging protocol, which the page's content security policy doesn't concern.
func (b *tab) axe(where string) {
	b.t.Helper()
	source, err := axeSource()
	if err != nil {
		rig.Lack(b.t, "%v; `make test-web` installs it", err)
	}
	if !eval[bool](b, "Boolean(window.axe)") {
		b.do(chromedp.Evaluate(string(source)+";undefined", nil))
	}
	for _, theme := range []string{"light", "dark"} {
		b.theme(theme)
		found := eval[[]string](b, `(async () => {
			const result = await axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] });
			return result.violations.map((one) => one.id + ": " + one.help + "\n" +
				one.nodes.slice(0, 5).map((node) => node.html.slice(0, 200) + "\n" + node.failureSummary).join("\n"));
		})()`)
		for _, violation := range found {
			b.t.Errorf("%s, %s: %s", where, theme, violation)
		}
	}
	b.theme("light")
}
