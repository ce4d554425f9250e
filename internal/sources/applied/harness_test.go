package applied_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/applied"
	"github.com/podstream/podstream/internal/write"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for an expected event.
const patience = 30 * time.Second

// storeFile is the store's name in its directory.
const storeFile = "documents.db"

// node is a Source that runs, and the sets that it has handed over.
type node struct {
	*applied.Source
	t     *testing.T
	cfg   applied.Config
	clock *clocktesting.FakeClock
	sets  chan manifest.Set
	// hold blocks the function that takes the sets while it is locked.
	hold sync.Mutex
	stop func()
}

// start runs a Source on a directory.
func start(t *testing.T, dir string, change ...func(*applied.Config)) *node {
	t.Helper()
	n := &node{t: t, clock: clocktesting.NewFakeClock(time.Unix(1e9, 0)), sets: make(chan manifest.Set, 1000)}
	n.cfg = applied.Config{Dir: dir, Node: "n1", NoSync: true, Clock: n.clock, Logger: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&n.cfg)
	}
	n.Source = applied.New(n.cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := n.Run(ctx, func(set manifest.Set) {
			n.hold.Lock()
			defer n.hold.Unlock()
			n.sets <- set
		})
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	n.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(n.stop)
	return n
}

// next returns the origins and pods of the next set, or its error.
func (n *node) next() string {
	n.t.Helper()
	select {
	case set := <-n.sets:
		if set.Err != nil {
			return "error: " + set.Err.Error()
		}
		var out []string
		for _, o := range set.Origins {
			line := o.Name + ":"
			for _, p := range o.Pods {
				line += " " + p.Spec.Containers[0].Image
			}
			for _, object := range o.Objects {
				line += " " + object.Kind().String()
			}
			out = append(out, line)
		}
		return strings.Join(out, "; ")
	case <-time.After(patience):
		n.t.Fatal("no set is handed over")
		return ""
	}
}

func (n *node) wantNext(want string) {
	n.t.Helper()
	if got := n.next(); got != want {
		n.t.Errorf("the next set has %q; want %q", got, want)
	}
}

// request returns a request of alice to put documents.
func request(t *testing.T, set string, texts ...string) *write.Request {
	t.Helper()
	drafts, err := write.Read([]write.File{{Content: []byte(strings.Join(texts, "---\n"))}}, "alice", set, write.Options{Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	return &write.Request{Change: write.Change{Caller: "alice", Set: set, Drafts: drafts}, Check: func(write.Plan) error { return nil }}
}

func (n *node) put(texts ...string) error {
	n.t.Helper()
	_, err := n.Write(n.t.Context(), request(n.t, "one", texts...))
	return err
}

func (n *node) mustPut(texts ...string) {
	n.t.Helper()
	if err := n.put(texts...); err != nil {
		n.t.Fatalf("Write: %v", err)
	}
}

// pod returns the manifest of a pod.
func pod(name, image string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: main, image: %q}]}\n", name, image)
}

const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: b}\n"

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
