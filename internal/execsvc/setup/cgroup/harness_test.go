package cgroup

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/cgroups"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/roottest"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(eatVariable); text != "" {
		eat(text)
		return
	}
	os.Exit(m.Run())
}

// newRoot returns the name of a cgroup root for the test, which is removed with its content at the end.
func newRoot(t testing.TB) string {
	t.Helper()
	roottest.Need(t, "creating cgroups")
	root := "/podstream-test-" + rand.Text()
	t.Cleanup(func() {
		g, err := driver{v2: cgroups.IsCgroup2UnifiedMode()}.open(parseName(root))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := g.remove(ctx); err != nil {
			t.Errorf("remove the cgroups of the test: %v", err)
		}
	})
	return root
}

// inTime returns a context with a timeout: a test that hangs couldn't clean up.
func inTime(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func newManager(t testing.TB, cfg Config) *Manager {
	t.Helper()
	cfg.PerQoS = true
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// groupOf opens the pod's cgroup.
func groupOf(t *testing.T, m *Manager, p *v1.Pod) group {
	t.Helper()
	return openGroup(t, m, m.layout.pod(p.UID, podmeta.QOSClass(p)))
}

func openGroup(t *testing.T, m *Manager, n name) group {
	t.Helper()
	g, err := m.driver.open(n)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// child creates a child cgroup in one hierarchy, as a runtime does for a container.
func child(t *testing.T, g group, controller, container string) string {
	t.Helper()
	dir := g.Path(controller) + "/" + container
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shares reads the cgroup's cpu.shares on v1, or its cpu.weight on v2.
func shares(t *testing.T, g group) string {
	t.Helper()
	file := "cpu.shares"
	if g.v2 {
		file = "cpu.weight"
	}
	return read(t, g.Path("cpu"), file)
}

func setShares(t *testing.T, g group, value string) {
	t.Helper()
	file := "cpu.shares"
	if g.v2 {
		file = "cpu.weight"
	}
	if err := cgroups.WriteFile(g.Path("cpu"), file, value); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, file string) string {
	t.Helper()
	text, err := cgroups.ReadFile(dir, file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(text)
}
