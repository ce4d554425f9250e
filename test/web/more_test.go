package web

import (
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/podstream/podstream/test/rig"
)

// The consumers are listed with their lag.
func TestConsumers(t *testing.T) {
	long(t)
	r := newRig(t, "wc", webPods())
	b := newTab(t, startSite(t, r.ConfigSocket(), r.ExecSocket()).address)
	b.open("#/consumers")
	b.wait("podexecd is live", row("Consumers", "podexecd")+`?.innerText.includes("live")`)
	b.wait("the page's own stream is listed", row("Consumers", "podctl-web"))
	b.axe("consumers")
	b.shoot("consumers")
}

// The events of pods are listed; a repeated one stays one row.
func TestEvents(t *testing.T) {
	long(t)
	r := newRig(t, "we", webPods())
	b := newTab(t, startSite(t, r.ConfigSocket(), r.ExecSocket()).address)
	b.open("#/events")
	b.wait("a pod has started", row("Events", "Started"))
	b.wait("crash is restarted with a delay", row("Events", "BackOff"))
	b.axe("events")
	b.shoot("events")
	b.click("only warnings", button("Only warnings"))
	b.wait("others are left out", "!"+row("Events", "Started"))
}

// The logs of several containers are merged and followed.
func TestLogs(t *testing.T) {
	long(t)
	r := newRig(t, "wl", webPods())
	b := newTab(t, startSite(t, r.ConfigSocket(), r.ExecSocket()).address)
	b.wait("web runs", row("Pods", "web-wl")+`?.innerText.includes("Running")`)
	b.wait("db runs", row("Pods", "db-wl")+`?.innerText.includes("Running")`)
	b.press("g", "l")
	b.click("the choice", button("Choose up to"))
	for _, container := range []string{"web-wl/web", "web-wl/greeter", "db-wl"} {
		b.click("the container "+container, row("Containers", container))
	}
	b.axe("choice of containers")
	b.click("the logs", button("Show the logs"))
	b.wait("the greeter's line is shown", row("Lines", "hello from Podstream"))
	b.wait("the database's line is shown", row("Lines", "ready for connections"))
	for i := range 14 {
		appendLog(t, logFile(t, r, "web", "web"), "stdout", fmt.Sprintf(`GET /cart/%d 200 %d ms`, i, i*7%50))
		appendLog(t, logFile(t, r, "db", "db"), "stderr", fmt.Sprintf(`slow query %d: select * from carts where id = %d`, i, i))
	}
	b.wait("a followed line is shown", row("Lines", "slow query 13"))
	b.wait("lines of both are merged", fmt.Sprintf(`%s && %s`, row("Lines", "GET /cart/13"), row("Lines", "slow query 12")))
	b.axe("logs")
	b.shoot("logs")
	b.do(chromedp.Focus(`[role=grid][aria-label^=Lines]`))
	b.press(kb.Home)
	b.wait("the whole line is shown", `document.querySelector('[aria-label="The whole line"]')`)
	appendLog(t, logFile(t, r, "web", "web"), "stdout", "while it is held")
	b.has("1 new")
	b.press("f")
	b.wait("the logs go on", row("Lines", "while it is held"))
}

// A command runs in a terminal once the user has agreed to it, and the keyboard can leave the terminal.
func TestExec(t *testing.T) {
	long(t)
	r := newRig(t, "wx", webPods())
	b := newTab(t, startSite(t, r.ConfigSocket(), r.ExecSocket(), "--allow-exec").address)
	b.wait("web runs", row("Pods", "web-wx")+`?.innerText.includes("Running")`)
	b.click("the pod web", row("Pods", "web-wx"))
	b.click("the terminal", button("Terminal"))
	b.wait("the command can be written", `document.querySelector('[aria-label=Command]')`)
	b.do(chromedp.Focus(`[aria-label=Command]`))
	b.fill(`[aria-label=Command]`, "/sample stdin")
	b.press(kb.Enter)
	b.has("Run a command in default/web-wx?")
	b.axe("terminal, asking")
	b.click("the consent", `[...document.querySelectorAll('dialog button')].find((e) => e.innerText === 'Run' && !e.disabled)`)
	b.has("Runs in the container web")
	b.wait("the terminal has the keyboard", `document.activeElement?.classList.contains("xterm-helper-textarea")`)
	b.press("echo of the container", kb.Enter)
	b.wait("the output is shown", `document.querySelector('.xterm-rows')?.textContent.includes("echo of the container")`)
	b.axe("terminal")
	b.shoot("exec")
	if links := b.hostileTerminal(); links != "" {
		t.Error(links)
	}
	b.do(chromedp.KeyEvent(kb.F6, chromedp.KeyModifiers(2)))
	b.wait("the keyboard has left the terminal", `document.activeElement?.id === "close-terminal"`)
	b.press(kb.Enter)
	b.has("No terminal is open")
}

// hostileTerminal types sequences that the container sends back, and returns what they did beside printing. OSC 8 makes a link,
// OSC 52 writes to the clipboard, OSC 0 sets a title, and CSI t works on the window.
func (b *tab) hostileTerminal() string {
	b.t.Helper()
	title := eval[string](b, "document.title")
	for _, sequence := range []string{"]8;;https://example.com\alink\x1b]8;;\a", "]52;c;aG9zdGlsZQ==\a", "]0;hostile\a", "[8;5;20t", "[21t", "[38;2;255;0;0mred\x1b[0m"} {
		for _, key := range "\x1b" + sequence {
			switch key {
			case '\x1b':
				b.press(kb.Escape)
			case '\a':
				b.do(chromedp.KeyEvent("g", chromedp.KeyModifiers(2)))
			default:
				b.press(string(key))
			}
		}
	}
	b.press("end of it")
	b.wait("the output is shown", `document.querySelector('.xterm-rows')?.textContent.includes("end of it")`)
	return eval[string](b, fmt.Sprintf(`(() => {
		const wrong = [];
		if (document.title !== %s) wrong.push("the title is " + document.title);
		if (document.querySelector(".xterm a, .xterm [href], .xterm style")) wrong.push("there is a link or a style element");
		if (!document.querySelector(".xterm-rows").textContent.includes("link")) wrong.push("the text of the link is gone");
		if (document.querySelectorAll(".xterm-rows > div").length < 15) wrong.push("the window was made smaller");
		const red = [...document.querySelectorAll(".xterm-rows span")].find((e) => e.textContent.startsWith("red"));
		if (getComputedStyle(red).color !== "rgb(255, 0, 0)") wrong.push("red is " + getComputedStyle(red).color);
		return wrong.join("; ");
	})()`, js(title)))
}

// Without --allow-exec and --allow-apply the page says that it is read-only.
func TestReadOnly(t *testing.T) {
	long(t)
	r := newRig(t, "wo", webPods())
	b := newTab(t, startSite(t, r.ConfigSocket(), r.ExecSocket()).address)
	b.wait("web runs", row("Pods", "web-wo")+`?.innerText.includes("Running")`)
	b.click("the pod web", row("Pods", "web-wo"))
	b.wait("restart is disabled, with a reason", `[...document.querySelectorAll('button')].find((e) => e.innerText === 'Restart' && e.disabled)?.title`)
	b.open("#/exec")
	b.has("--allow-exec")
	b.open("#/apply")
	b.has("--allow-apply")
	b.wait("nothing can be applied", `[...document.querySelectorAll('button')].find((e) => e.innerText === 'Apply…').disabled`)

	// With it, the page says what podconfigd lacks.
	b = newTab(t, startSite(t, r.ConfigSocket(), r.ExecSocket(), "--allow-apply").address)
	b.open("#/apply")
	b.wait("the reason is given", `document.querySelector('[aria-label="What would change"]')?.innerText.includes("start it with --applied")`)
	b.lacks("--allow-apply")
	b.wait("nothing can be applied", `[...document.querySelectorAll('button')].find((e) => e.innerText === 'Apply…').disabled`)
}

// A manifest is compared before anything is applied; its mistakes are marked.
func TestCompare(t *testing.T) {
	long(t)
	r := newRig(t, "wa", webPods())
	b := newTab(t, startSite(t, r.ConfigSocket(), r.ExecSocket()).address)
	b.wait("web runs", row("Pods", "web-wa")+`?.innerText.includes("Running")`)
	b.press("g", "a")
	b.wait("the view is open", `document.getElementById("manifest")`)
	set := func(content string) {
		b.do(chromedp.SetValue("#manifest", content), chromedp.Evaluate(`document.getElementById("manifest").dispatchEvent(new Event("input", { bubbles: true }))`, nil))
		b.click("compare", button("Compare"))
	}
	set("apiVersion: v1\nkind: Pod\nmetadata:\n  name: new\nspec:\n  containers:\n  - name: main\n    image: x\n    imagePullPolicy: Sometimes\n")
	b.wait("the mistake is marked", `document.querySelector('#main .snippet .here')?.textContent.includes("Sometimes")`)
	b.wait("it can't be applied", `[...document.querySelectorAll('button')].find((e) => e.innerText === 'Apply…').disabled`)
	set(manifest("new", container("main", "serve")))
	b.wait("the new pod is listed", `[...document.querySelectorAll('#main .changed')].some((e) => e.textContent.includes("new-wa"))`)
	b.axe("apply, read-only")
}

// A stream that breaks is said; what is shown stays where it is, and goes on by itself.
func TestPodconfigdKilled(t *testing.T) {
	long(t)
	r := newRig(t, "wk", webPods())
	b := newTab(t, startSite(t, r.ConfigSocket(), r.ExecSocket()).address)
	b.wait("web runs", row("Pods", "web-wk")+`?.innerText.includes("Running")`)
	b.wait("all pods are there", `document.querySelectorAll('[aria-label=Pods] .rows .line').length === 5`)
	place := `JSON.stringify([...document.querySelectorAll('header, nav, #main, .grid, .grid .rows .line')].map((e) => { const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; }))`
	before := eval[string](b, place)
	for range 2 {
		rig.Must(t, r.Podconfigd.Kill())
		b.has("podconfigd can't be reached since")
		b.has("as of ")
		if after := eval[string](b, place); after != before {
			t.Errorf("the layout moved when the stream broke:\n%s\n%s", before, after)
		}
		b.axe("broken")
		b.shoot("broken")
		rig.Must(t, r.Podconfigd.Start())
		b.lacks("podconfigd can't be reached since")
	}
	rig.Must(t, r.Write("late.yaml", manifest("late", container("late", "serve"))))
	b.wait("a new pod comes and runs", row("Pods", "late-wk")+`?.innerText.includes("Running")`)
	b.press("g", "t")
	b.wait("the timeline goes on", row("Revisions", "late-wk"))
}

// After podctl web was stopped for a while, the page goes on by its cursors; after its end the page keeps what it shows.
func TestPodctlStopped(t *testing.T) {
	long(t)
	r := newRig(t, "wz", webPods())
	s := startSite(t, r.ConfigSocket(), r.ExecSocket())
	b := newTab(t, s.address)
	b.wait("web runs", row("Pods", "web-wz")+`?.innerText.includes("Running")`)
	rig.Must(t, s.cmd.Process.Signal(os.Interrupt))
	b.has("The stream broke at")
	b.wait("the rows stay", row("Pods", "web-wz"))
	b.axe("ended")
}
