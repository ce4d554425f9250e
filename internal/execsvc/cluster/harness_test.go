package cluster

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness is a Cluster over a clientset that has objects, in a bubble of its own.
type harness struct {
	*Cluster
	t   *testing.T
	api *fake.Clientset

	mu    sync.Mutex
	log   bytes.Buffer
	woken []string
}

// in runs a test in a bubble with a Cluster that doesn't run yet.
func in(t *testing.T, test func(h *harness), objects ...runtime.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &harness{t: t, api: fake.NewClientset(objects...)}
		h.Cluster = New(Config{Client: h.api, Wake: h.wake, Logger: slog.New(slog.NewTextHandler(h, nil))})
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

// run runs the Cluster until the test ends, and waits until it has read what there is.
func (h *harness) run() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Run(ctx)
	}()
	h.t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
}

// wantWoken: these pods, and no others, were woken since it was asked last.
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

// lines are those of the log since it was asked last.
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
		UID: uid, Namespace: "shop", Name: string(uid), Annotations: map[string]string{criconfig.ConfigSourceAnnotation: source},
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
