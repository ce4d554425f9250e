package relay

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
)

// TestOwnSocket: a podconfigd that is configured to relay itself rejects that.
func TestOwnSocket(t *testing.T) {
	own := start(t, "own", socket(t), "", "file", "relay")
	own.set("file", "a: web()")
	own.up()
	r := relay(t, own, Config{Endpoint: own.endpoint})
	err := r.failed("loop: its pods come through own, which has the id of this podconfigd; not relayed")
	if !errors.Is(err, errLoop) {
		t.Errorf("the error is %v; want a loop", err)
	}
	if own.pods() != "web" || r.Path() != nil {
		t.Errorf("the pods are %s and the path %v; want its own pod only, and no path", own.pods(), r.Path())
	}
}

// TestLoopFoundLater: an upstream that starts to relay this podconfigd is no longer relayed. Its own pods stay,
// as with any upstream that can't be read, and the path is dropped. When it stops, it is relayed again.
func TestLoopFoundLater(t *testing.T) {
	up, own := start(t, "up", socket(t), "", "file"), start(t, "own", "", "", "file", "relay")
	up.set("file", "a: web()")
	up.up()
	r := relay(t, own, Config{Endpoint: up.endpoint, Heartbeat: time.Second})
	own.want("ADD relay: web")
	back := &Source{}
	back.path.Store(&hops{{Id: own.id, Node: own.node}})
	up.mu.Lock()
	up.relays = []*Source{back}
	up.mu.Unlock()
	r.failed("loop: its pods come through up, own")
	if own.pods() != "web" || r.Path() != nil {
		t.Errorf("the pods are %s and the path %v; want web and none", own.pods(), r.Path())
	}
	back.path.Store(nil)
	r.good()
	if n := own.hub.History().Number(); n != own.at {
		t.Errorf("the last revision is %d; want none to be made by all this", n)
	}
	if len(r.Path()) != 1 {
		t.Errorf("the path is %v; want the upstream", r.Path())
	}
}

// TestNoPodLivesByItself: the upstream has a pod that came from here, and was restarted, so that its path
// doesn't show it. The pod isn't accepted back, so it is removed when its real source removes it. This also
// applies if both podconfigds have the same node name.
func TestNoPodLivesByItself(t *testing.T) {
	for name, nodes := range map[string][2]string{"two nodes": {"own", "up"}, "nodes of one name": {"n", "n"}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "db")
			own, up := start(t, nodes[0], socket(t), "", "file", "relay"), start(t, nodes[1], socket(t), path, "file", "relay")
			own.id, up.id = "id-own", "id-up"
			own.set("file", "a: mine()")
			own.up()
			up.set("file", "b: theirs()")
			there := relay(t, up, Config{Endpoint: own.endpoint})
			up.want("ADD file: theirs")
			up.want("ADD relay: mine")
			// own's relay isn't ready, so the relay of up isn't ready either.
			there.stop()
			up.kill()
			up = start(t, nodes[1], up.endpoint, path, "file", "relay")
			up.id = "id-up"
			up.set("file", "b: theirs()")
			up.up()
			r := relay(t, own, Config{Endpoint: up.endpoint})
			own.want("ADD file: mine")
			own.want("ADD relay: theirs")
			set := r.good()
			const held = "file default/theirs theirs, relay default/mine mine!, relay (not ready upstream)!"
			if origins(set) != held {
				t.Errorf("the origins are %s; want %s", origins(set), held)
			}
			way := nodes[0] + "(id-own)/file"
			if got := set.Origins[1].Findings[0].Message; got != "it came through this podconfigd and isn't relayed back: "+way {
				t.Errorf("the finding is %q", got)
			}
			own.set("file", "")
			own.want("REMOVE file: mine")
			if own.pods() != "theirs" {
				t.Errorf("the pods are %s; want no pod that only circulates", own.pods())
			}
			// Once the upstream is ready, the pod is rejected permanently, and this relay becomes ready.
			up.hub.Apply(came(mergetest.Set("relay", 10, "file default/mine mine: mine()"), way))
			set = r.next("without held origins", func(s manifest.Set) bool { return s.Err == nil && len(s.Origins) == 2 })
			if got := origins(set); got != "file default/theirs theirs, relay default/mine mine" || len(set.Origins[1].Pods) > 0 {
				t.Errorf("the origins are %s; want none held, and mine without its pod", got)
			}
		})
	}
}

// came returns a set whose pods came by that path.
func came(set manifest.Set, way string) manifest.Set {
	for _, o := range set.Origins {
		for _, p := range o.Pods {
			p.Annotations[manifest.RelayPathAnnotation] = way
		}
	}
	return set
}

// TestAnotherOfThisNode: a pod that came through another podconfigd of the same node is accepted, because the
// IDs differ.
func TestAnotherOfThisNode(t *testing.T) {
	up := start(t, "up", socket(t), "", "relay")
	up.hub.Apply(came(mergetest.Set("relay", 1, "o: web()"), "own-node(other-id)/file"))
	up.up()
	set := relay(t, nil, Config{Endpoint: up.endpoint}).good()
	if len(set.Origins) != 1 || len(set.Origins[0].Pods) != 1 {
		t.Fatalf("the origins are %s; want web with its pod", origins(set))
	}
	if got := set.Origins[0].Pods[0].Annotations[manifest.RelayPathAnnotation]; got != "up(id-up)/relay,own-node(other-id)/file" {
		t.Errorf("the relay-path is %q", got)
	}
}

// TestPasses: only the ID determines whether a path contains a podconfigd.
func TestPasses(t *testing.T) {
	const id = "0f3e77aa-1111-2222-3333-444444444444"
	for path, want := range map[string]bool{
		"":                                  false,
		"n(0f3e77aa)/file":                  true,
		"other(0f3e77aa)/file":              true,
		"a(11111111)/relay, n(0f3e77aa)/x":  true,
		"n(0f3e77ab)/file":                  false,
		"n/file":                            false,
		"0f3e77aa/file":                     false,
		"n/(0f3e77aa)":                      false,
		"n(x)(0f3e77aa)/file":               true,
		"n(0f3e77aa)x/file":                 false,
		"n(0f3e77aa-1111)/file":             false,
		"unknown/file,n(0f3e77aa)/relay:db": true,
	} {
		if got := passes(path, id); got != want {
			t.Errorf("%q leads through %s: %v; want %v", path, id, got, want)
		}
	}
}

// ring are podconfigds that each relay the next one, and the last one relays the first.
type ring struct {
	t      *testing.T
	nodes  []*podconfigd
	relays []*sets
}

func newRing(t *testing.T, names ...string) *ring {
	g := &ring{t: t}
	for _, name := range names {
		d := start(t, name, socket(t), "", "file", "relay")
		d.set("file", "a: from-"+name+"()")
		d.up()
		g.nodes = append(g.nodes, d)
	}
	for i, d := range g.nodes {
		g.relays = append(g.relays, relay(t, d, Config{
			Endpoint: g.nodes[(i+1)%len(g.nodes)].endpoint, Heartbeat: time.Second, Backoff: Backoff{Min: 20 * time.Millisecond, Max: time.Second},
		}))
	}
	return g
}

// settled waits until one podconfigd of the ring rejects its upstream, and the path of each other ends at that
// one. Before that, another one may receive an outdated path and reject instead. It returns the index of the
// one that rejects.
func (g *ring) settled() (last int) {
	g.t.Helper()
	late := time.After(deadline)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		refused := 0
		for i, r := range g.relays {
			if errors.Is(r.last().Err, errLoop) {
				refused, last = refused+1, i
			}
		}
		if refused == 1 && g.consistent(last) {
			return last
		}
		select {
		case <-tick.C:
		case <-late:
			g.t.Fatalf("the ring hasn't settled in %v", deadline)
		}
	}
}

func (g *ring) consistent(last int) bool {
	for k := range g.relays {
		if len(g.relays[(last+k)%len(g.relays)].Path()) != (len(g.relays)-k)%len(g.relays) {
			return false
		}
	}
	return true
}

// TestRing: of several podconfigds that relay each other in a ring, one rejects its upstream, and the others
// continue to relay. A pod whose source removed it isn't added again. The one that rejects keeps its pods until
// it can read its upstream again, which is when the ring is opened.
func TestRing(t *testing.T) {
	for _, names := range [][]string{{"a", "b"}, {"a", "b", "c"}} {
		t.Run(names[len(names)-1], func(t *testing.T) {
			t.Parallel()
			g := newRing(t, names...)
			var last, first, before int
			for n := len(names); ; {
				last = g.settled()
				first, before = (last+1)%n, (last+n-1)%n
				g.nodes[first].set("file", "")
				g.nodes[last].set("file", "a: more()")
				if got, ok := g.await(first, "more", last); ok {
					if contains(got, "from-"+names[first]) {
						t.Errorf("%s has the pods %s; want not its own, whose source is gone", names[first], got)
					}
					break
				}
				// If two rejected at the same time, both have tried again, and another one may reject now.
				for _, i := range []int{first, last} {
					g.nodes[i].set("file", "a: from-"+names[i]+"()")
				}
			}
			g.relays[last].drop()
			g.nodes[before].unrelay(g.relays[before])
			g.relays[last].good()
			if got := g.nodes[last].pods(); contains(got, "from-"+names[first]) {
				t.Errorf("the ring is open, and %s has the pods %s; want none whose source is gone", names[last], got)
			}
		})
	}
}

// await waits until one podconfigd of the ring has a pod, and returns all its pods. It returns false if last no
// longer rejects.
func (g *ring) await(at int, uid types.UID, last int) (pods string, ok bool) {
	g.t.Helper()
	late := time.After(deadline)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for h := g.nodes[at].hub.History(); ; {
		_, _, more := h.Next(h.Number())
		if h.State().Pod(uid) != nil {
			return g.nodes[at].pods(), true
		}
		if !errors.Is(g.relays[last].last().Err, errLoop) {
			return "", false
		}
		select {
		case <-more:
		case <-tick.C:
		case <-late:
			g.t.Fatalf("%s hasn't got the pod %s in %v", g.nodes[at].node, uid, deadline)
		}
	}
}

func contains(pods, uid string) bool { return slices.Contains(strings.Fields(pods), uid) }
