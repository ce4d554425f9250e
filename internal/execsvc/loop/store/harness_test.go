package store_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/decide/resize"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
	"github.com/podstream/podstream/internal/logtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// setting is the directory and configuration of a store that is opened repeatedly.
type setting struct {
	cfg   store.Config
	clock *clocktesting.FakeClock
	log   *logtest.Buffer
	// committed are the revisions of the calls of Committed.
	committed chan uint64
}

func newSetting(t testing.TB) *setting { return settingIn(t.TempDir()) }

func settingIn(dir string) *setting {
	s := &setting{
		clock: clocktesting.NewFakeClock(time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC)), log: &logtest.Buffer{}, committed: make(chan uint64, 1000),
	}
	s.cfg = store.Config{
		Path: filepath.Join(dir, "podexecd.db"), Clock: s.clock, Logger: slog.New(slog.NewTextHandler(s.log, nil)),
		Committed: func(c *podconfigv1.Cursor) { s.committed <- c.GetRevision() },
	}
	return s
}

// open opens the store and runs it until stop is called, or the test ends.
func (s *setting) open(t testing.TB) (st *store.Store, state store.State, stop func()) {
	t.Helper()
	st, state, err := store.Open(s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { st.Run(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return st, state, stop
}

// state returns the state of a store that isn't open.
func (s *setting) state(t testing.TB) store.State {
	t.Helper()
	_, state, stop := s.open(t)
	stop()
	return state
}

// beside returns the names of the other files in the store's directory, without the prefix of the store's name.
func (s *setting) beside(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob(s.cfg.Path + "?*")
	if err != nil {
		t.Fatal(err)
	}
	for i := range names {
		names[i] = names[i][len(s.cfg.Path):]
	}
	return names
}

// diff compares two states without regard to the order of their pods.
func diff(want, got store.State) string {
	sorted := func(pods []client.Pod) []client.Pod {
		return slices.SortedFunc(slices.Values(pods), func(a, b client.Pod) int { return cmp.Compare(a.UID, b.UID) })
	}
	want.Pods, got.Pods = sorted(want.Pods), sorted(got.Pods)
	sameTime := gocmp.Comparer(func(a, b time.Time) bool { return a.Truncate(time.Millisecond).Equal(b.Truncate(time.Millisecond)) })
	return gocmp.Diff(want, got, sameTime, protocmp.Transform(), cmpopts.EquateEmpty())
}

func newPod(uid, source string, version int) client.Pod {
	return client.Pod{
		UID: types.UID(uid), Namespace: "default", Name: "web-" + uid, Source: source,
		SpecDigest: fmt.Sprintf("spec-%d", version), StatusDigest: fmt.Sprintf("status-%d", version),
		Object: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: "default", Name: "web-" + uid},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: fmt.Sprintf("web:%d", version)}}},
		},
	}
}

func reference(p client.Pod) client.Pod {
	p.Object = nil
	return p
}

func cursor(revision uint64) *podconfigv1.Cursor {
	return &podconfigv1.Cursor{InstanceId: "i", Revision: revision, View: "v"}
}

func event(revision uint64, changes ...client.Change) client.Event {
	return client.Event{Cursor: cursor(revision), Ops: changes}
}

func change(op client.Op, pods ...client.Pod) client.Change {
	return client.Change{Op: op, Source: pods[0].Source, Pods: pods}
}

func podStatus(phase v1.PodPhase, message string) *v1.PodStatus {
	return &v1.PodStatus{Phase: phase, Message: message}
}

// allocation returns an allocation of a pod and its container, with every field set.
func allocation(generation int64) resize.Allocation {
	list := v1.ResourceList{
		v1.ResourceCPU: *resource.NewMilliQuantity(generation, resource.DecimalSI), v1.ResourceMemory: *resource.NewQuantity(generation<<20, resource.BinarySI),
	}
	r := v1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
	return resize.Allocation{
		Generation: generation, Pod: r.DeepCopy(), Containers: map[string]v1.ResourceRequirements{"main": r}, Resizing: generation%2 == 0,
	}
}

func mustFlush(t testing.TB, st *store.Store) {
	t.Helper()
	if err := st.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}
