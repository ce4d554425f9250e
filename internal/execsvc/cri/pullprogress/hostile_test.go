package pullprogress

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// The sizes in a manifest are claims.
func TestLies(t *testing.T) {
	largest := fmt.Sprint(int64(math.MaxInt64))
	for name, tc := range map[string]struct {
		layers []string
		want   string
	}{
		"more arrives than stated": {[]string{"a:5"}, "5/5 0/1"},
		"the sum overflows":        {[]string{"a:" + largest, "b:" + largest, "c:1"}, "20/" + largest + " 0/3"},
		"a negative size":          {[]string{"a:50", "b:-1"}, "-"},
		"nothing is stated":        {[]string{"a:0"}, "0/0 0/1"},
		"no layers":                {nil, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.image("registry.example team/app", "m1", tc.layers...)
			n.arrived[digest("a")] = 20
			n.want(name, map[string]string{app: tc.want})
		})
	}
	n := newNode(t)
	n.image("registry.example team/app", "m1", "a:50")
	n.arrived[digest("a")] = -7
	n.want("a negative number of bytes", map[string]string{app: "0/50 0/1"})
}

// A manifest beyond the bounds, or that is none, has no progress, and is read once.
func TestHostileManifests(t *testing.T) {
	var many []string
	for i := range 10_000 {
		many = append(many, fmt.Sprintf("l%d:1", i))
	}
	for name, set := range map[string]func(n *node){
		"10,000 layers":   func(n *node) { n.image("registry.example team/app", "m1", many...) },
		"5 MiB":           func(n *node) { n.manifests["m1"] = `{"layers":[` + strings.Repeat(" ", 5<<20) + `]}` },
		"not JSON":        func(n *node) { n.manifests["m1"] = "<html>" },
		"a manifest list": func(n *node) { n.manifests["m1"] = `{"manifests":[{"digest":"` + digest("a") + `","size":1}]}` },
		"layers that aren't digests": func(n *node) {
			n.manifests["m1"] = `{"layers":[{"digest":"../../etc/passwd","size":1}]}`
		},
		"a size that is too large": func(n *node) {
			n.manifests["m1"] = `{"layers":[{"digest":"` + digest("a") + `","size":99999999999999999999}]}`
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.used["registry.example team/app m1"] = began
			set(n)
			n.want("", map[string]string{app: "-"})
			n.pass(1)
			n.want("", map[string]string{app: "-"})
			if slices.Contains(n.calls, "Read") || slices.Contains(n.calls, "Has") {
				t.Errorf("later: %v", n.calls)
			}
		})
	}
	n := newNode(t)
	for i := range maxFound + 1 {
		n.image("registry.example team/app", fmt.Sprint("m", i), "a:1")
	}
	n.want("too many manifests", map[string]string{app: "-"})
	if slices.Contains(n.calls, "Read") {
		t.Errorf("too many manifests: %v", n.calls)
	}
}

// One reading asks for a bounded number of layers; the next ones for the others.
func TestBudget(t *testing.T) {
	n := newNode(t)
	pulls := map[string]string{}
	var list []Pull
	for i := range 3 {
		var layers []string
		for k := range 150 {
			layers = append(layers, fmt.Sprintf("l%d-%d:1", i, k))
			n.complete[digest(fmt.Sprintf("l%d-%d", i, k))] = true
		}
		n.image(fmt.Sprintf("docker.io library/a%d", i), fmt.Sprint("m", i), layers...)
		name := fmt.Sprintf("docker.io/library/a%d:1", i)
		pulls[name] = "150/150 150/150"
		list = append(list, Pull{Repository: strings.TrimSuffix(name, ":1"), Name: name, Started: began})
	}
	for reading := range 2 {
		n.Reader.Read(t.Context(), list)
		if looks := len(slices.DeleteFunc(slices.Clone(n.calls), func(c string) bool { return c != "Has" })); looks < maxLooks-3 || looks > maxLooks {
			t.Errorf("reading %d: %d layers were looked for; want %d", reading, looks, maxLooks)
		}
		n.pass(1)
	}
	n.want("the third reading", pulls)
}
