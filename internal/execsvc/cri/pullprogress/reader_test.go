package pullprogress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/execsvc/cri/containerd"
)

// node is a containerd, with a Reader of its store.
type node struct {
	*Reader
	t     *testing.T
	clock *clocktesting.FakePassiveClock
	// arrived are the ingests, complete the blobs that are there, manifests their contents.
	arrived   map[string]int64
	complete  map[string]bool
	manifests map[string]string
	// used is when a manifest was used, by "HOST PATH DIGEST".
	used map[string]time.Time
	// fails is the error of all calls.
	fails error
	calls []string
}

var began = time.Unix(1000, 0)

func newNode(t *testing.T) *node {
	n := &node{
		t: t, clock: clocktesting.NewFakePassiveClock(began), arrived: map[string]int64{}, complete: map[string]bool{}, manifests: map[string]string{},
		used: map[string]time.Time{},
	}
	n.Reader = New(Config{Store: n, Clock: n.clock})
	return n
}

func (n *node) called(name string) error {
	n.calls = append(n.calls, name)
	return n.fails
}

func (n *node) Ingests(context.Context) (map[string]int64, error) {
	return n.arrived, n.called("Ingests")
}

func (n *node) Manifests(_ context.Context, host, path string, since time.Time, _ map[string]int64) ([]string, error) {
	var found []string
	for key, at := range n.used {
		if digest, ok := strings.CutPrefix(key, host+" "+path+" "); ok && !at.Before(since) {
			found = append(found, digest)
		}
	}
	slices.Sort(found)
	return found, n.called("Manifests")
}

func (n *node) Has(_ context.Context, digest string) (bool, error) {
	return n.complete[digest], n.called("Has")
}

func (n *node) Read(_ context.Context, digest string, limit int) ([]byte, error) {
	err := n.called("Read")
	data, has := n.manifests[digest]
	switch {
	case !has:
		err = status.Error(codes.NotFound, "content not found")
	case len(data) > limit:
		err = containerd.ErrTooLarge
	}
	return []byte(data), err
}

// digest returns the digest of a layer that the test calls by a letter.
func digest(name string) string { return fmt.Sprintf("sha256:%064x", name) }

// image puts a manifest into the store, with the sizes of layers, "NAME:SIZE".
func (n *node) image(place, name string, layers ...string) {
	type descriptor struct {
		Digest string `json:"digest"`
		Size   int64  `json:"size"`
	}
	var list []descriptor
	for _, l := range layers {
		var d descriptor
		name, size, _ := strings.Cut(l, ":")
		if _, err := fmt.Sscan(size, &d.Size); err != nil {
			n.t.Fatal(err)
		}
		d.Digest = digest(name)
		list = append(list, d)
	}
	data, err := json.Marshal(map[string]any{"config": descriptor{digest("config"), 1}, "layers": list})
	if err != nil {
		n.t.Fatal(err)
	}
	n.manifests[name], n.used[place+" "+name] = string(data), n.clock.Now()
}

// pass passes seconds, and drops the record of calls.
func (n *node) pass(seconds int) {
	n.clock.SetTime(n.clock.Now().Add(time.Duration(seconds) * time.Second))
	n.calls = nil
}

// want compares the progress of pulls "REPOSITORY:TAG", all of which began at the start: "10/100 1/2", or "10 1" without the
// totals, or "-".
func (n *node) want(what string, wants map[string]string) {
	n.t.Helper()
	var pulls []Pull
	for name := range wants {
		repository := name[:strings.LastIndex(name, ":")]
		pulls = append(pulls, Pull{Repository: repository, Name: name, Started: began})
	}
	got := map[string]string{}
	for i, p := range n.Reader.Read(n.t.Context(), pulls) {
		switch {
		case p == nil:
			got[pulls[i].Name] = "-"
		case p.Partial:
			got[pulls[i].Name] = fmt.Sprintf("%d %d", p.DoneBytes, p.DoneLayers)
		default:
			got[pulls[i].Name] = fmt.Sprintf("%d/%d %d/%d", p.DoneBytes, p.TotalBytes, p.DoneLayers, p.TotalLayers)
		}
	}
	if diff := cmp.Diff(wants, got); diff != "" {
		n.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

const app = "registry.example:5000/team/app:1"

// Nothing is known before the manifest is there; then layers that the node has count at once, and each layer once.
func TestOnePull(t *testing.T) {
	n := newNode(t)
	n.image("registry.example team/other", "m0", "a:1")
	n.want("the registry hasn't answered", map[string]string{app: "-"})
	n.pass(1)
	n.complete[digest("base")] = true
	n.image("registry.example team/app", "m1", "base:100", "a:50", "a:50", "b:30")
	n.arrived[digest("a")] = 20
	n.want("one layer is there, one arrives", map[string]string{app: "120/180 1/3"})
	n.pass(1)
	delete(n.arrived, digest("a"))
	n.complete[digest("a")], n.arrived[digest("b")] = true, 10
	n.want("one arrives", map[string]string{app: "160/180 2/3"})
	if slices.Contains(n.calls, "Manifests") || slices.Contains(n.calls, "Read") {
		t.Errorf("the manifest is known, and these calls were made: %v", n.calls)
	}
	n.pass(1)
	delete(n.arrived, digest("b"))
	n.want("b is neither there nor arrives: it is being verified", map[string]string{app: "150/180 2/3"})
	n.complete[digest("b")] = true
	n.want("all is there", map[string]string{app: "180/180 3/3"})
	n.pass(1)
	n.want("no pull runs", map[string]string{})
	if len(n.Reader.manifests)+len(n.Reader.seen)+len(n.Reader.groups) > 0 {
		t.Error("the Reader keeps something of a pull that has ended")
	}
}

// Pulls of different repositories are apart, also if they share layers.
func TestSharedLayers(t *testing.T) {
	n := newNode(t)
	n.image("docker.io library/a", "m1", "base:100", "a:10")
	n.image("docker.io library/b", "m2", "base:100", "b:20")
	n.arrived[digest("base")] = 40
	n.want("they share a layer", map[string]string{"docker.io/library/a:1": "40/110 0/2", "docker.io/library/b:1": "40/120 0/2"})
}

// Two images of one repository have the sum, and no total before both manifests are there. When one has ended, the other
// has its own.
func TestOneRepository(t *testing.T) {
	n := newNode(t)
	const one, two = "docker.io/library/a:1", "docker.io/library/a:2"
	n.image("docker.io library/a", "m1", "base:100", "a:10")
	n.arrived[digest("base")] = 40
	n.want("one manifest is there", map[string]string{one: "40 0", two: "40 0"})
	n.pass(1)
	n.image("docker.io library/a", "m2", "base:100", "b:30")
	n.want("both are there", map[string]string{one: "40/140 0/3", two: "40/140 0/3"})
	n.pass(1)
	n.complete = map[string]bool{digest("base"): true, digest("a"): true}
	n.arrived = map[string]int64{digest("b"): 5}
	n.want("the first has ended", map[string]string{two: "105/130 1/2"})
}

// A complete manifest of the repository may be that of another pull: the right one is searched for.
func TestManifestOfAnotherPull(t *testing.T) {
	n := newNode(t)
	n.complete[digest("x")] = true
	n.image("registry.example team/app", "other", "x:7")
	n.want("the manifest of another pull", map[string]string{app: "7/7 1/1"})
	n.pass(1)
	n.image("registry.example team/app", "own", "a:100")
	n.want("its own", map[string]string{app: "0/100 0/1"})
}

// A registry that doesn't answer is no reason to search the store each second.
func TestPatience(t *testing.T) {
	n := newNode(t)
	searches := 0
	for range 60 {
		n.want("", map[string]string{app: "-"})
		if slices.Contains(n.calls, "Manifests") {
			searches++
		}
		n.pass(1)
	}
	if searches < 12 || searches > 20 {
		t.Errorf("%d searches in a minute; want 12 to 20", searches)
	}
}

// A layer that was there is removed before the pull has requested it, and then arrives.
func TestLayerIsRemoved(t *testing.T) {
	n := newNode(t)
	n.image("registry.example team/app", "m1", "a:50", "b:30")
	n.complete = map[string]bool{digest("a"): true, digest("b"): true}
	n.want("both are there", map[string]string{app: "80/80 2/2"})
	n.pass(1)
	n.complete, n.arrived = nil, map[string]int64{digest("a"): 7}
	n.want("both are gone, and one arrives", map[string]string{app: "7/80 0/2"})
}

// A store that fails is asked again after a pause, which grows; a runtime without one after ten minutes.
func TestFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want int
	}{"containerd is down": {status.Error(codes.Unavailable, "connection refused"), 8}, "another runtime": {status.Error(codes.Unimplemented, "unknown service"), 1}} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.image("registry.example team/app", "m1", "a:50")
			n.fails = tc.err
			asked := 0
			for range 100 {
				n.want("", map[string]string{app: "-"})
				asked += min(len(n.calls), 1)
				n.pass(1)
			}
			if asked != tc.want {
				t.Errorf("asked %d times in 100 s; want %d", asked, tc.want)
			}
			n.fails = nil
			n.pass(600)
			n.want("it answers", map[string]string{app: "0/50 0/1"})
		})
	}
}

// The end of podexecd isn't a failure. A manifest that is gone is searched again.
func TestEnds(t *testing.T) {
	n := newNode(t)
	n.used["registry.example team/app m1"] = began
	n.want("the manifest is gone", map[string]string{app: "-"})
	n.image("registry.example team/app", "m1", "a:50")
	n.pass(1)
	n.want("it is back", map[string]string{app: "0/50 0/1"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n.fails = errors.New("canceled")
	n.Reader.Read(ctx, []Pull{{Repository: "docker.io/library/a", Name: "docker.io/library/a:1", Started: began}})
	n.fails = nil
	n.want("the next reading isn't delayed", map[string]string{app: "0/50 0/1"})
}

func TestPlaceOf(t *testing.T) {
	for repository, want := range map[string]place{
		"docker.io/library/busybox": {"docker.io", "library/busybox"}, "localhost:5000/a": {"localhost", "a"}, "[::1]:5000/a/b": {"::1", "a/b"}, "sha256": {},
	} {
		if got, _ := placeOf(repository); got != want {
			t.Errorf("%s: %+v", repository, got)
		}
	}
}
