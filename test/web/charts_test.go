package web

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/simruntime"
)

// usage is what the simulated containers seem to use: each its own share, which goes up and down.
func usage(container string, now time.Time) simruntime.Usage {
	seed := 0.0
	for _, c := range container {
		seed += float64(c)
	}
	const period = 40 // seconds
	wave := 1 + math.Sin(seed+2*math.Pi*float64(now.UnixMilli())/1000/period)/2
	share := math.Mod(seed, 7) + 1
	return simruntime.Usage{NanoCores: uint64(wave * share * 40e6), Memory: uint64(wave * share * 20 * (1 << 20))}
}

// The charts of the node and of the pods are drawn, in the colours of the theme.
func TestCharts(t *testing.T) {
	long(t)
	// Otherwise the use of a pod is that of its cgroup, in which no process runs.
	r := newRig(t, "wh", webPods(), "--cgroups-per-qos=false", "--enforce-node-allocatable=none")
	b := newTab(t, startSite(t, r.ConfigSocket(), r.ExecSocket()).address)
	b.wait("web runs", row("Pods", "web-wh")+`?.innerText.includes("Running")`)
	b.open("#/charts")
	titles := []string{"CPU", "Memory", "CPU by pod", "Memory by pod"}
	canvas := func(title string) string { return fmt.Sprintf(`figure[aria-label="%s"] canvas`, title) }
	for _, title := range titles {
		b.wait("the use is known: "+title, fmt.Sprintf(`document.querySelector('figure[aria-label="%s"] .legend b') && !document.querySelector('figure[aria-label="%s"] .legend').textContent.includes("unknown")`, title, title))
		// A line of two samples has dozens of pixels.
		b.wait("a line is drawn: "+title, painted(canvas(title), "--s1")+" > 20")
	}
	b.wait("each running pod is in the legend", `["web-wh", "db-wh", "cache-wh"].every((pod) => document.querySelector('figure[aria-label="Memory by pod"] .legend').textContent.includes(pod))`)
	if *shots != "" {
		b.wait("the line is long", fmt.Sprintf("Math.min(...%s) < 0.3", pixels(canvas("CPU"), colour("--s1"))))
	}
	b.axe("charts")
	b.shoot("charts")

	light := eval[string](b, colour("--s1"))
	b.theme("dark")
	for _, title := range titles {
		b.wait("it is drawn in the dark theme's colour: "+title, painted(canvas(title), "--s1")+" > 20")
		if n := eval[int](b, paintedColour(canvas(title), js(light))); n != 0 {
			t.Errorf("%s: %d pixels still have the light theme's colour", title, n)
		}
	}
	b.open("#/pods")
	b.click("the pod web", row("Pods", "web-wh"))
	b.click("its charts", button("Charts"))
	b.wait("its containers' lines are drawn", painted(`[aria-label=Charts] figure[aria-label=Memory] canvas`, "--s1")+" > 20")
}
