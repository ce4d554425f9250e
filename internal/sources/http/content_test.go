package http

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

const (
	configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n"
	// bad has a name and is unusable. nameless could be any item.
	bad      = `{"metadata":{"name":"web"},"spec":{"containers":"none"}}`
	nameless = `{"metadata":{"labels":{"app":"web"}}}`
)

// giving is a Source and its server.
type giving struct {
	*running
	server *server
}

func give(t *testing.T, cfg Config) giving {
	t.Helper()
	s := newServer(t, nil)
	cfg.URL = "http://" + s.addr
	return giving{run(t, cfg), s}
}

// body polls once with this body, expects these origins, and checks the number of served pods.
func (g giving) body(body string, serves int, want ...string) manifest.Set {
	g.t.Helper()
	g.server.behave(ok(body))
	set := g.expect(want...)
	if g.serves() != serves {
		g.t.Fatalf("%d pods are served, want %d", g.serves(), serves)
	}
	return set
}

// settled is body for YAML that removes something, which counts when the second answer is the same.
func (g giving) settled(body string, serves int, want ...string) manifest.Set {
	g.t.Helper()
	g.server.behave(ok(body))
	if set, _ := g.poll(); set.Err != nil || !slices.Contains(show(set), "whole held") || g.timer.wait != secondLook {
		g.t.Fatalf("after one answer the set is %q, error %v, and the next poll is after %v", show(set), set.Err, g.timer.wait)
	}
	return g.body(body, serves, want...)
}

// same reports whether the origins at these indexes are the same pointers.
func same(a, b manifest.Set, places ...int) bool {
	return !slices.ContainsFunc(places, func(i int) bool { return a.Origins[i] != b.Origins[i] })
}

func TestBodies(t *testing.T) {
	t.Parallel()
	g := give(t, Config{})
	// A single pod, which the kubelet accepts.
	one := g.body(pod("web", "v1"), 1, "default/web=v1")
	if o := one.Origins[0]; o.Name != "http://"+g.server.addr+"#default/web" || o.Pods[0].Name != "web-node" || len(o.Pods[0].Spec.Tolerations) != 0 {
		t.Errorf("the origin is %+v", o)
	}
	// A list, and YAML documents. An equal pod is the same origin, in any surrounding.
	two := g.body(list(pod("web", "v1"), pod("db", "v1")), 2, "default/web=v1", "default/db=v1")
	if one.Origins[0].Pods[0].UID != two.Origins[0].Pods[0].UID {
		t.Error("the same pod has another UID in a list")
	}
	three := g.body(list(pod("new", "v1"), pod("db", "v1"), pod("web", "v2")), 3, "default/new=v1", "default/db=v1", "default/web=v2")
	if three.Origins[1] != two.Origins[1] {
		t.Error("an unchanged item has another origin")
	}
	many := "# comment\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: prod}\nspec:\n  containers: [{name: a, image: v3}]\n---\n" +
		list(pod("db", "v2")) + "\n---\n" + configMap
	four := g.settled(many, 2, "prod/web=v3", "default/db=v2", "ConfigMap default/settings object")
	key := manifest.ObjectKey{Kind: manifest.ConfigMapKind, Namespace: "default", Name: "settings"}
	if got := four.Origins[2].Name; got != ObjectOrigin("http://me:secret@"+g.server.addr+"#x", key) {
		t.Errorf("the ConfigMap's origin is %s", got)
	}
	five := g.settled(strings.Replace(many, "v2", "v4", 1), 2, "prod/web=v3", "default/db=v4", "ConfigMap default/settings object")
	if !same(four, five, 0, 2) {
		t.Error("documents that didn't change have other origins")
	}
	// Of two items of one name, the first is used.
	g.body(list(pod("web", "v1"), pod("web", "v2")), 1, "default/web=v1", "default/web (2)=v2")
	// An empty list means that there are no pods.
	g.body(list(), 0)
	if g.log.Count("level=WARN") != 0 {
		t.Errorf("the log has\n%s", g.log)
	}
}

// TestBadItem: an item that can't be used is held by itself.
func TestBadItem(t *testing.T) {
	t.Parallel()
	g := give(t, Config{})
	first := g.body(list(pod("web", "v1"), pod("db", "v1"), pod("old", "v1")), 3, "default/web=v1", "default/db=v1", "default/old=v1")
	held := g.body(list(bad, pod("db", "v2"), pod("new", "v1")), 3, "default/web held", "default/db=v2", "default/new=v1")
	if f := held.Origins[0].Findings; len(f) != 1 || f[0].Field != "spec.containers" || f[0].Severity != manifest.Error {
		t.Errorf("the findings are %+v", f)
	}
	again := g.body(list(bad, pod("db", "v2")), 2, "default/web held", "default/db=v2")
	if !same(held, again, 0, 1) {
		t.Error("unchanged items have other origins")
	}
	if n := g.log.Count("level=WARN"); n != 1 || g.log.Count("Manifest can't be used", "#default/web", "spec.containers") != 1 {
		t.Errorf("%d lines report the bad item:\n%s", n, g.log)
	}
	last := g.body(list(pod("web", "v1"), pod("db", "v2")), 2, "default/web=v1", "default/db=v2")
	if last.Origins[0].Pods[0].UID != first.Origins[0].Pods[0].UID || g.log.Count("Manifest can be used again", "#default/web") != 1 {
		t.Errorf("after it was mended, the origin is %+v; log:\n%s", last.Origins[0], g.log)
	}
	// All items are bad, and each has its name.
	g.body(list(bad), 1, "default/web held")
	// An unusable object keeps its previous version.
	g.body(list(pod("web", "v1"))+"\n---\n"+configMap, 1, "default/web=v1", "ConfigMap default/settings object")
	g.settled(list(pod("web", "v1"))+"\n---\n"+strings.Replace(configMap, "{a: b}", "none", 1), 1, "default/web=v1", "ConfigMap default/settings held")
}

// TestNamelessItem: while there is an item without a name, no other item is certainly missing.
func TestNamelessItem(t *testing.T) {
	t.Parallel()
	g := give(t, Config{})
	g.settled(list(pod("web", "v1"), pod("db", "v1"))+"\n---\n"+configMap, 2, "default/web=v1", "default/db=v1", "ConfigMap default/settings object")
	body := list(pod("db", "v2"), nameless, pod("new", "v1"))
	held := g.body(body, 3, "default/db=v2", "item 2 held", "default/new=v1", "default/web held", "ConfigMap default/settings held")
	if o := held.Origins[3]; !isHeldFor(o, whyMissing) {
		t.Errorf("the missing one's findings are %+v", o.Findings)
	}
	if warned := g.log.Count("level=WARN"); warned != 3 || g.log.Count("missing=2") != 1 {
		t.Errorf("the log has\n%s", g.log)
	}
	// An equal answer produces the same origins, also beside other changes.
	if again := g.body(body, 3, show(held)...); !slices.Equal(held.Origins, again.Origins) {
		t.Error("the same body has other origins")
	}
	next := g.body(list(pod("db", "v3"), nameless), 3, "default/db=v3", "item 2 held", "default/new held", "default/web held",
		"ConfigMap default/settings held")
	if !slices.Equal(next.Origins[3:], held.Origins[3:]) {
		t.Error("items that are still missing have other origins")
	}
	// Even beside a broken document, the good ones are used.
	g.body(pod("db", "v3")+"\n---\n}{\n", 3, "default/db=v3", "item 2 held", "default/new held", "default/web held",
		"ConfigMap default/settings held")
	g.body(list(pod("db", "v3"), bad, nameless), 3, "default/db=v3", "default/web held", "item 3 held", "default/new held",
		"ConfigMap default/settings held")
	// A missing item that was bad before gets a finding.
	set := g.body(list(pod("db", "v3"), nameless), 3, "default/db=v3", "item 2 held", "default/web held", "default/new held",
		"ConfigMap default/settings held")
	if !isHeldFor(set.Origins[2], whyMissing) {
		t.Errorf("the findings are %+v", set.Origins[2].Findings)
	}
	g.body(list(pod("db", "v3")), 1, "default/db=v3")
	if g.log.Count("Manifest that couldn't be used is gone", "#item 2") != 2 || g.log.Count("No item is missing beside an unreadable one") != 1 {
		t.Errorf("the log has\n%s", g.log)
	}
}

// TestStrict: a strict reader accepts all items or none.
func TestStrict(t *testing.T) {
	t.Parallel()
	g := give(t, Config{Strict: true})
	first := g.body(list(pod("web", "v1"), pod("db", "v1")), 2, "default/web=v1", "default/db=v1")
	unknown := strings.Replace(pod("new", "v1"), `"spec"`, `"specs":{},"spec"`, 1)
	body := list(pod("web", "v2"), unknown)
	held := g.body(body, 2, "default/web=v1", "default/db=v1", "default/new held", "whole held")
	if !same(first, held, 0, 1) || !isHeldFor(held.Origins[3], whyUnused) {
		t.Errorf("the last good ones didn't stay as they were: %+v", held.Origins)
	}
	if again := g.body(body, 2, show(held)...); !slices.Equal(held.Origins, again.Origins) {
		t.Error("the same body has other origins")
	}
	g.body(list(bad), 2, "default/web held", "default/db=v1", "whole held")
	back := g.body(list(unknown, pod("web", "v3")), 2, "default/web=v1", "default/db=v1", "default/new held", "whole held")
	if !same(first, back, 0, 1) {
		t.Error("an item that is no longer bad still has its finding")
	}
	g.body(list(nameless, pod("web", "v3")), 2, "default/web=v1", "default/db=v1", "item 1 held", "whole held")
	g.body(list(pod("web", "v3")), 1, "default/web=v3")
}

// TestKnownIsAskedLate: Known is called when Run starts: before that, another Source may read the same URL.
func TestKnownIsAskedLate(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{URL: "http://127.0.0.1", Known: func() []string { t.Error("Known is called before Run"); return nil }}); err != nil {
		t.Fatal(err)
	}
}

// TestKnown: items from before the restart are also held, until they are certainly removed.
func TestKnown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		strict bool
		serves int
		want   []string
	}{
		"mixed":  {false, 2, []string{"default/db=v1", "item 2 held", "ConfigMap default/settings held", "default/web held"}},
		"strict": {true, 1, []string{"ConfigMap default/settings held", "default/web held", "item 2 held", "whole held"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, ok(list(pod("db", "v1"), nameless)))
			url := "http://" + s.addr
			r := run(t, Config{URL: url, Known: func() []string {
				return []string{url + "#default/web", url + "#ConfigMap default/settings", url + "#default/web"}
			}, Strict: c.strict})
			o := manifest.Parse([]byte(pod("web", "v0")), manifest.Options{Origin: url, OriginKind: manifest.URLKind, Node: "node"})
			stored := &revision.Pod{
				Object: o.Pods[0].Pod, Source: "http", Origin: url + "#default/web",
				SpecDigest: o.Pods[0].SpecDigest, StatusDigest: o.Pods[0].StatusDigest, Created: 1, SpecChanged: 1, StatusChanged: 1,
			}
			r.merger = merge.New([]merge.Source{{Name: "http"}}, merge.Stored{Number: 1, Pods: []*revision.Pod{stored}})
			r.expect(c.want...)
			if r.serves() != c.serves {
				t.Errorf("%d pods are served, want %d", r.serves(), c.serves)
			}
			s.behave(ok(list(pod("db", "v1"))))
			r.expect("default/db=v1")
			if r.serves() != 1 {
				t.Errorf("%d pods are served", r.serves())
			}
		})
	}
}

// TestManyFindings: one reading doesn't flood the log.
func TestManyFindings(t *testing.T) {
	t.Parallel()
	g := give(t, Config{})
	var items, want []string
	for i := range 200 {
		name := fmt.Sprint("p", i)
		items = append(items, strings.Replace(bad, "web", name, 1))
		want = append(want, "default/"+name+" held")
	}
	g.body(list(items...), 0, want...)
	if n := g.log.Count("level=WARN"); n != maxLogged+1 || g.log.Count("items=150") != 1 {
		t.Errorf("%d lines were logged", n)
	}

	// Errors come before warnings.
	g, items, want = give(t, Config{}), nil, nil
	for i := range maxLogged {
		name := fmt.Sprint("p", i)
		items = append(items, strings.Replace(pod(name, "v1"), `"spec"`, `"specs":{},"spec"`, 1))
		want = append(want, "default/"+name+"=v1")
	}
	g.body(list(append(items, bad)...), maxLogged, append(want, "default/web held")...)
	if g.log.Count("level=WARN", "#default/web") != 1 {
		t.Errorf("the log has\n%s", g.log)
	}
}

// TestStrictLogAfterRestart: after a restart a strict reader logs which item is bad, and all others in one line.
func TestStrictLogAfterRestart(t *testing.T) {
	t.Parallel()
	s := newServer(t, ok(list(pod("p1", "v2"), nameless)))
	known := func() []string {
		var names []string
		for i := range 60 {
			names = append(names, fmt.Sprintf("http://%s#default/p%d", s.addr, i))
		}
		return names
	}
	r := run(t, Config{URL: "http://" + s.addr, Known: known, Strict: true})
	r.poll()
	if r.log.Count("level=WARN") != 4 || r.log.Count("#item 2") != 2 || r.log.Count("items=60") != 1 {
		t.Errorf("the log has\n%s", r.log)
	}
	s.behave(ok(list(pod("p1", "v2"))))
	r.expect("default/p1=v2")
	if n := r.log.Count("can be used again"); n > 1 {
		t.Errorf("%d lines report items that were never bad:\n%s", n, r.log)
	}
}

// TestOtherKinds: a document of another kind holds nothing, except for a strict reader.
func TestOtherKinds(t *testing.T) {
	t.Parallel()
	const service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n"
	g := give(t, Config{})
	g.settled(documents("web", "v1", "db", "v1")+service, 2, "default/web=v1", "default/db=v1", "Service default/web")
	if !g.merger.Sources()[0].Ready || g.log.Count("level=WARN") != 0 || g.log.Count("Manifest is ignored", "Service") != 1 {
		t.Errorf("the source isn't ready, or the log has\n%s", g.log)
	}
	g.settled(documents("web", "v1")+service, 1, "default/web=v1", "Service default/web")
	g.server.behave(ok(service))
	g.fails("it has no document of a kind that is read")
	g.settled(service+"---\n"+list(), 0, "Service default/web")

	strict := give(t, Config{Strict: true})
	strict.body(documents("web", "v1")+service, 0, "Service default/web held", "whole held")
}
