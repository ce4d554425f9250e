package apiobjects

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/podstream/podstream/internal/clusteruid"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

func TestMain(m *testing.M) {
	// The second handler sleeps until the time of the last error, which may be outside of the bubble.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] //nolint:reassign // It is exported for that.
	goleak.VerifyTestMain(m)
}

// harness is a Cluster over a clientset that has objects, in a synctest bubble.
type harness struct {
	*Cluster
	t   *testing.T
	api *fake.Clientset

	mu sync.Mutex
	// away is why no list succeeds; nil if they do. cluster is the cluster's UID; empty: it is unknown.
	away    error
	cluster types.UID
	log     bytes.Buffer
	woken   []string
}

// in runs a test in a bubble with a Cluster that doesn't run yet.
func in(t *testing.T, test func(h *harness), objects ...runtime.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &harness{t: t, api: fake.NewClientset(objects...)}
		h.api.PrependReactor("list", "*", h.isAway)
		h.Cluster = h.new("", "")
		test(h)
	})
}

// Write is where the log goes.
func (h *harness) Write(line []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.Write(line)
}

func (h *harness) wake(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.woken = append(h.woken, string(uid))
}

// run runs the Cluster until the test ends, and waits until it has read all objects. end ends it earlier.
func (h *harness) run() (end func()) {
	h.t.Helper()
	return h.doing(h.Run)
}

// doing calls do until the test ends, or end is called.
func (h *harness) doing(do func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(ctx)
	}()
	end = func() { cancel(); <-done }
	h.t.Cleanup(end)
	synctest.Wait()
	return end
}

// next replaces the Cluster, which has ended, by a new one with the stored objects of the directory and server.
func (h *harness) next(dir, server string) {
	h.Cluster = h.new(dir, server)
}

func (h *harness) new(dir, server string) *Cluster { return New(h.config(dir, server)) }

func (h *harness) config(dir, server string) Config {
	return Config{
		Services: ResourceOf(h.api.CoreV1().Services(metav1.NamespaceAll)), RuntimeClasses: ResourceOf(h.api.NodeV1().RuntimeClasses()),
		TrustBundles:     ResourceOf(h.api.CertificatesV1().ClusterTrustBundles()),
		BetaTrustBundles: ResourceOf(h.api.CertificatesV1beta1().ClusterTrustBundles()),
		Served: func(_ context.Context, version schema.GroupVersion) ([]metav1.APIResource, error) {
			list, err := h.api.Discovery().ServerResourcesForGroupVersion(version.String())
			if err != nil {
				return nil, err
			}
			return list.APIResources, nil
		},
		UID: h.uid, Wake: h.wake, Dir: dir, Server: func() string { return server }, Logger: slog.New(slog.NewTextHandler(h, nil)),
	}
}

// uid is Config.UID.
func (h *harness) uid(context.Context) (types.UID, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away == nil && h.cluster == "" {
		return "", clusteruid.ErrUnknown
	}
	return h.cluster, h.away
}

// move has another cluster answer.
func (h *harness) move(cluster types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cluster = cluster
}

// goAway has the API server answer no list, for that reason; nil has it answer again.
func (h *harness) goAway(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away = why
}

func (h *harness) isAway(clienttesting.Action) (handled bool, none runtime.Object, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.away != nil, nil, h.away
}

// wantWoken checks that these pods, and no others, were woken since the last call.
func (h *harness) wantWoken(uids ...string) {
	h.t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.woken)
	if !slices.Equal(h.woken, uids) {
		h.t.Errorf("woken: %q; want %q", h.woken, uids)
	}
	h.woken = nil
}

// lines returns the log's lines since the last call.
func (h *harness) lines() []string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	text := strings.TrimSpace(h.log.String())
	h.log.Reset()
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// podOf is a pod of a source in the namespace shop.
func podOf(uid types.UID, source string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		UID: uid, Namespace: "shop", Name: string(uid), Annotations: map[string]string{podmeta.SourceAnnotation: source},
	}}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
