package inject_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/test/injectd/inject"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait; the machine may be slow and busy.
const patience = time.Minute

// startHub runs a Source of the given names with a hub, and returns the path of its socket.
func startHub(t *testing.T, names ...string) (string, *mergesvc.Hub) {
	t.Helper()
	named := func(names []string) (sources []merge.Source) {
		for _, name := range names {
			sources = append(sources, merge.Source{Name: name})
		}
		return sources
	}
	h := mergesvc.NewHub(mergesvc.Config{Sources: named(names)})
	configure := func(names []string) { h.Configure(named(names)) }
	path := startSource(t, inject.Hub{Apply: h.Apply, Configure: configure, Published: published(h.History())}, names...)
	return path, h
}

// nowhere returns a hub that doesn't merge its sets, and whose sources can't be changed.
func nowhere(apply func(manifest.Set)) inject.Hub {
	return inject.Hub{Apply: apply, Published: func() (string, uint64) { return "i", 1 }}
}

func published(h *history.History) func() (string, uint64) {
	return func() (string, uint64) {
		st := h.State()
		return st.Instance.ID, st.Number
	}
}

// startSource runs a Source until the test ends.
func startSource(t *testing.T, hub inject.Hub, names ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "i.sock")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- inject.New(inject.Config{Sources: names, Listen: "unix://" + path}).Run(ctx, hub)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run returns %v; want nil", err)
		}
	})
	return path
}

func dial(t *testing.T, path string) *inject.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := inject.Dial(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func apply(t *testing.T, c *inject.Client, set inject.Set) inject.Published {
	t.Helper()
	p, err := c.Apply(set)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rawConn is a connection to the Source without the Client.
type rawConn struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dialRaw(t *testing.T, path string) *rawConn {
	t.Helper()
	// The Client waits until the socket exists.
	if err := dial(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &rawConn{t: t, conn: conn, in: bufio.NewReader(conn)}
}

// ask sends a line and returns the fields of the answer.
func (c *rawConn) ask(line []byte) map[string]any {
	c.t.Helper()
	if _, err := c.conn.Write(append(line, '\n')); err != nil {
		c.t.Fatal(err)
	}
	text, err := c.in.ReadBytes('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil {
		c.t.Fatalf("the answer %q: %v", text, err)
	}
	return answer
}

// set returns a set of source. Each of its origins has one pod, of the same name.
func set(source string, names ...string) inject.Set {
	s := inject.Set{Source: source}
	for _, name := range names {
		s.Origins = append(s.Origins, inject.Origin{Name: "default/" + name, Pods: []*v1.Pod{pod(name, "pause")}})
	}
	return s
}

func pod(name, image string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault, UID: types.UID("uid-" + name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: image}}},
		Status:     v1.PodStatus{Phase: v1.PodPending},
	}
}
