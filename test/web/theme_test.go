package web

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/podstream/podstream/test/rig"
)

// Each change of the preferred theme reaches the page, also while it is drawing: in Chromium, a page that reads the preference
// between the change and the next frame gets no event of the change.
func TestTheme(t *testing.T) {
	long(t)
	r := newRig(t, "wm", map[string]string{"web.yaml": manifest("web", container("web", "serve"))})
	b := newTab(t, startSite(t, r.ConfigSocket(), r.ExecSocket()).address)
	b.open("#/timeline")
	b.wait("the history is drawn", painted(`.scrub canvas`, "--ok")+" > 0")
	// Every view is drawn again, as often as the browser allows it.
	b.do(page.BringToFront(), evalVoid(`window.drawing = setInterval(() => location.hash = location.hash === "#/pods" ? "#/timeline" : "#/pods", 1)`))
	for i := range 40 {
		theme := []string{"dark", "light"}[i%2]
		b.do(prefer(theme))
		b.wait(fmt.Sprint("change ", i, " of the theme is applied"), "document.documentElement.dataset.theme === "+js(theme))
	}
	b.do(evalVoid(`clearInterval(window.drawing)`))

	// A canvas doesn't follow the style sheet: it is drawn again.
	b.open("#/timeline")
	b.wait("the history is drawn", painted(`.scrub canvas`, "--ok")+" > 0")
	light := eval[string](b, colour("--ok"))
	b.theme("dark")
	b.wait("it is drawn in the dark theme's colour", painted(`.scrub canvas`, "--ok")+" > 0")
	if dark := eval[string](b, colour("--ok")); dark == light {
		t.Fatalf("both themes have the colour %s: the test shows nothing", dark)
	}
	if n := eval[int](b, paintedColour(`.scrub canvas`, js(light))); n != 0 {
		t.Errorf("%d pixels still have the light theme's colour", n)
	}

	// The user's own choice holds against the preference.
	b.click("light", button("Light"))
	b.wait("the theme is light", `document.documentElement.dataset.theme === "light"`)
	b.do(prefer("light"), prefer("dark"), chromedp.WaitVisible("#main"))
	if theme := eval[string](b, `new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r(document.documentElement.dataset.theme))))`); theme != "light" {
		t.Errorf("the theme that the user chose was changed to %s", theme)
	}
	rig.Must(t, r.Remove("web.yaml"))
}

// colour is the expression of the value of a variable of the style sheet.
func colour(variable string) string {
	return fmt.Sprintf("getComputedStyle(document.documentElement).getPropertyValue(%s).trim()", js(variable))
}

// painted is the expression of the number of pixels of a canvas that have the colour of a variable of the style sheet.
func painted(canvas, variable string) string { return paintedColour(canvas, colour(variable)) }

// paintedColour is the same for the expression of a colour. The edges of lines are blends of it.
func paintedColour(canvas, colour string) string { return "(" + pixels(canvas, colour) + ").length" }

// pixels is the expression of the columns of these pixels, from 0 to 1; empty as long as there is no canvas.
func pixels(canvas, colour string) string {
	return fmt.Sprintf(`(() => {
		const canvas = document.querySelector(%s);
		if (!canvas || canvas.width === 0) return [];
		const one = new OffscreenCanvas(1, 1).getContext("2d");
		one.fillStyle = %s;
		one.fillRect(0, 0, 1, 1);
		const want = one.getImageData(0, 0, 1, 1).data;
		const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
		const found = [];
		for (let i = 0; i < all.length; i += 4)
			if (all[i + 3] > 160 && Math.abs(all[i] - want[0]) + Math.abs(all[i + 1] - want[1]) + Math.abs(all[i + 2] - want[2]) < 30)
				found.push(((i / 4) %% canvas.width) / canvas.width);
		return found;
	})()`, js(canvas), colour)
}
