package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
)

// TestRequest: a request is on disk when SetRestart returns, stays when the status changes, keeps its signals when it is
// extended, and goes with the pod.
func TestRequest(t *testing.T) {
	s := newSetting(t)
	st, _, stop := s.open(t)
	for _, uid := range []types.UID{"a", "gone"} {
		st.SetStatus(uid, podStatus(v1.PodRunning, ""), s.clock.Now())
		if err := st.SetRestart(t.Context(), uid, store.Restart{Containers: actions.Requested{"main": "m1"}}); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(s.cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	copied := settingIn(t.TempDir())
	if err := os.WriteFile(copied.cfg.Path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	want := &store.Restart{Containers: actions.Requested{"main": "m1"}}
	if diff := gocmp.Diff(want, copied.state(t).Statuses["a"].Restart); diff != "" {
		t.Errorf("on disk (-want +got):\n%s", diff)
	}
	begun := time.UnixMilli(77)
	st.SetRestartStopping("a", "m1", begun)
	st.SetRestartStopping("unknown", "m1", begun)
	st.SetStatus("a", podStatus(v1.PodPending, ""), s.clock.Now())
	both := actions.Requested{"main": "m1", "side": "s1"}
	if err := st.SetRestart(t.Context(), "a", store.Restart{Containers: both}); err != nil {
		t.Fatal(err)
	}
	if err := st.SetRestart(t.Context(), "unknown", store.Restart{Containers: both}); !errors.Is(err, store.ErrNoStatus) {
		t.Errorf("of a pod without a status: %v", err)
	}
	st.Drop("gone")
	stop()
	statuses := map[types.UID]store.Status{"a": {
		Status: podStatus(v1.PodPending, ""), Changed: s.clock.Now(),
		Restart: &store.Restart{Containers: both, Stopping: map[string]time.Time{"m1": begun}},
	}}
	if diff := diff(store.State{Statuses: statuses}, s.state(t)); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
	st, _, stop = s.open(t)
	st.DropRestart("a")
	stop()
	if got := s.state(t).Statuses["a"]; got.Restart != nil || got.Status == nil {
		t.Errorf("after DropRestart: %+v", got)
	}
}

// TestRequestStaysSmall: while a request is pending, other containers of the pod may be restarted and may end any number of
// times. The stored request doesn't grow by that.
func TestRequestStaysSmall(t *testing.T) {
	s := newSetting(t)
	st, _, stop := s.open(t)
	st.SetStatus("a", podStatus(v1.PodRunning, ""), s.clock.Now())
	begun := time.UnixMilli(77)
	for i := range 50 {
		again := fmt.Sprint("m", i)
		if err := st.SetRestart(t.Context(), "a", store.Restart{Containers: actions.Requested{"side": "s1", "main": again}}); err != nil {
			t.Fatal(err)
		}
		st.SetRestartStopping("a", "s1", begun)
		st.SetRestartStopping("a", again, begun)
		st.SetRestartStopping("a", fmt.Sprint("unrequested", i), begun)
	}
	stop()
	want := map[string]time.Time{"s1": begun, "m49": begun}
	if diff := gocmp.Diff(want, s.state(t).Statuses["a"].Restart.Stopping); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

// TestRequestUnwritable: a request that couldn't be stored isn't stored later either.
func TestRequestUnwritable(t *testing.T) {
	s := settingIn(filepath.Join(t.TempDir(), "missing"))
	st, _, stop := s.open(t)
	st.SetStatus("a", podStatus(v1.PodRunning, ""), s.clock.Now())
	if err := st.SetRestart(t.Context(), "a", store.Restart{Containers: actions.Requested{"main": "m1"}}); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("SetRestart without a directory: %v; want the reason", err)
	}
	if err := os.Mkdir(filepath.Dir(s.cfg.Path), 0o700); err != nil {
		t.Fatal(err)
	}
	stop()
	if got := s.state(t).Statuses["a"]; got.Status == nil || got.Restart != nil {
		t.Errorf("the store has %+v; want the status without the request", got)
	}
}
