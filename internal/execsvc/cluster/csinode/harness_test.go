package csinode

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an API server, a Node, and the drivers that are registered.
type world struct {
	api *apiServer
	cfg Config

	mu sync.Mutex
	// uid is the UID of the Node that podexecd sees.
	uid     types.UID
	drivers []Driver
	periods map[string]time.Duration
	// changed is closed when one of them has changed.
	changed chan struct{}
	// refreshed counts the calls of Refresh; refresh, if set, is called for each.
	refreshed map[string]int
	refresh   func(ctx context.Context, driver string) error
	log       bytes.Buffer
}

// inWorld runs the test in a synctest bubble, with a Node and without a CSINode.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			api: &apiServer{t: t}, uid: "node", changed: make(chan struct{}), periods: map[string]time.Duration{}, refreshed: map[string]int{},
		}
		w.api.setNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node", Labels: map[string]string{"team": "x"}}})
		client, err := apiclient.New(&rest.Config{
			Host: "http://api", QPS: -1, Transport: w.api,
			ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.cfg = Config{
			Client: client, Node: "n1", Logger: slog.New(slog.NewTextHandler(w, nil)), Refresh: w.onRefresh,
			UID: func() (types.UID, <-chan struct{}) {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.uid, w.changed
			},
			Drivers: func() ([]Driver, <-chan struct{}) {
				w.mu.Lock()
				defer w.mu.Unlock()
				return slices.Clone(w.drivers), w.changed
			},
			Period: func(name string) time.Duration {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.periods[name]
			},
			PeriodsChanged: func() <-chan struct{} {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.changed
			},
		}
		test(t, w)
	})
}

func (w *world) onRefresh(ctx context.Context, name string) error {
	w.mu.Lock()
	w.refreshed[name]++
	refresh := w.refresh
	w.mu.Unlock()
	if refresh == nil {
		return nil
	}
	return refresh(ctx, name)
}

// Write receives the log.
func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

// logged returns the number of log lines with the text.
func (w *world) logged(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.log.String(), text)
}

// run has a Keeper run until the test ends, or until end is called.
func (w *world) run(t *testing.T) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { New(w.cfg).Run(ctx) })
	end = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(end)
	synctest.Wait()
	return end
}

// set changes the world, and reports it.
func (w *world) set(do func()) {
	w.mu.Lock()
	do()
	close(w.changed)
	w.changed = make(chan struct{})
	w.mu.Unlock()
	synctest.Wait()
}

// register sets the registered drivers.
func (w *world) register(drivers ...Driver) { w.set(func() { w.drivers = drivers }) }

// serve changes the objects of the API server.
func (w *world) serve(do func(a *apiServer)) {
	w.api.mu.Lock()
	defer w.api.mu.Unlock()
	do(w.api)
}

// taken returns the calls since the last time.
func (w *world) taken() []string {
	w.api.mu.Lock()
	defer w.api.mu.Unlock()
	calls := w.api.calls
	w.api.calls = nil
	return calls
}

// entries returns the CSINode's entries: "a=id[keys]max".
func (w *world) entries() string {
	w.api.mu.Lock()
	defer w.api.mu.Unlock()
	if w.api.csinode == nil {
		return "no CSINode"
	}
	var all []string
	for _, d := range w.api.csinode.Spec.Drivers {
		all = append(all, fmt.Sprintf("%s=%s%v%d", d.Name, d.NodeID, d.TopologyKeys, allocatable(d)))
	}
	return strings.Join(all, " ")
}

// want checks the CSINode's entries and the Node's annotation.
func (w *world) want(t *testing.T, entries, ids string) {
	t.Helper()
	if got := w.entries(); got != entries {
		t.Errorf("the CSINode has %q; want %q", got, entries)
	}
	w.api.mu.Lock()
	defer w.api.mu.Unlock()
	if got := w.api.node.Annotations[idAnnotation]; got != ids {
		t.Errorf("the Node's annotation is %q; want %q", got, ids)
	}
}

// pass advances the time, and waits until due work is done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// csiNode is a CSINode of the Node with that UID.
func csiNode(owner types.UID, drivers ...storagev1.CSINodeDriver) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n1", UID: "of-" + owner, ResourceVersion: "0", Labels: map[string]string{"kept": "yes"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: owner}},
		},
		Spec: storagev1.CSINodeSpec{Drivers: drivers},
	}
}
