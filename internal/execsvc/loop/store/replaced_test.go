package store_test

import (
	"os"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/loop/store"
)

// TestReplaced: the containers that are being replaced are on disk when SetReplaced returns, stay when the status
// changes, and go with the pod.
func TestReplaced(t *testing.T) {
	s := newSetting(t)
	st, _, stop := s.open(t)
	for _, uid := range []types.UID{"a", "gone"} {
		st.SetStatus(uid, podStatus(v1.PodRunning, ""), s.clock.Now())
	}
	for uid, ids := range map[types.UID][]string{"a": {"a1", "a2"}, "gone": {"b1"}, "without a status": {"c1"}} {
		if err := st.SetReplaced(t.Context(), uid, ids); err != nil {
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
	for uid, want := range map[types.UID][]string{"a": {"a1", "a2"}, "gone": {"b1"}} {
		if got := copied.state(t).Statuses[uid].Replaced; !slices.Equal(got, want) {
			t.Errorf("on disk pod %s has %q; want %q", uid, got, want)
		}
	}
	st.SetStatus("a", podStatus(v1.PodPending, ""), s.clock.Now())
	st.Drop("gone")
	st.SetStatus("gone", podStatus(v1.PodRunning, ""), s.clock.Now())
	stop()
	want := map[types.UID]store.Status{
		"a":    {Status: podStatus(v1.PodPending, ""), Changed: s.clock.Now(), Replaced: []string{"a1", "a2"}},
		"gone": {Status: podStatus(v1.PodRunning, ""), Changed: s.clock.Now()},
	}
	if diff := diff(store.State{Statuses: want}, s.state(t)); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
}
