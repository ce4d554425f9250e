package apiobjects

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// there is another address of the API server than here.
const there = "https://there:6443"

var errForbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "", nil)

// storedIn returns a directory with objects that were read from the cluster, at the address here.
func storedIn(t *testing.T, h *harness, cluster types.UID) string {
	t.Helper()
	dir := t.TempDir()
	h.move(cluster)
	h.next(dir, here)
	h.run()()
	return dir
}

// Stored objects are of a cluster, and not of an address.
func TestStoredOfCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		// stored and now are the UIDs of the clusters, before and after the restart; empty: unknown.
		stored, now types.UID
		address     string
		// away: no server answers. Otherwise it shows its UID, and no list succeeds.
		away bool
		used bool
	}{
		"no answer":                               {"c1", "", here, true, true},
		"no answer at another address":            {"c1", "", there, true, true},
		"the same cluster":                        {"c1", "c1", here, false, true},
		"the same cluster at another address":     {"c1", "c1", there, false, true},
		"another cluster at the address":          {"c1", "c2", here, false, false},
		"an unknown cluster at the address":       {"c1", "", here, false, true},
		"an unknown cluster at another address":   {"c1", "", there, false, false},
		"stored without a UID":                    {"", "c1", here, false, true},
		"stored without a UID, another address":   {"", "c1", there, false, false},
		"stored without a UID, no answer":         {"", "", here, true, true},
		"stored without a UID, no answer from it": {"", "", there, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(h *harness) {
				dir := storedIn(t, h, tc.stored)
				h.move(tc.now)
				if tc.away {
					h.goAway(errRefused)
				} else {
					h.api.PrependReactor("list", "services", refuse)
				}
				h.next(dir, tc.address)
				pod := podOf("a", "api")
				h.wantSeen(pod, "")
				h.run()
				time.Sleep(time.Minute)
				want := ""
				if tc.used {
					want = "WEB=10.0.0.3"
				}
				h.wantSeen(pod, want)
			}, webAt("10.0.0.3"))
		})
	}
}

// Stored objects that are used while no server answers are dropped when the server of another cluster answers, even if it
// gives no objects. Its own objects replace the stored ones.
func TestStoredThenAnotherCluster(t *testing.T) {
	in(t, func(h *harness) {
		dir := storedIn(t, h, "c1")
		h.lines()
		h.goAway(errRefused)
		h.next(dir, here)
		pod := podOf("a", "api")
		h.run()
		h.wantSeen(pod, "WEB=10.0.0.3")
		var refusing atomic.Bool
		refusing.Store(true)
		h.api.PrependReactor("list", "services", refuseWhile(&refusing))
		h.lines()
		h.move("c2")
		h.goAway(nil)
		time.Sleep(2 * lastPause)
		h.wantSeen(pod, "")
		if lines := strings.Join(h.lines(), "\n"); !strings.Contains(lines, "objects=services") || !strings.Contains(lines, "it is of the cluster c1, and not of c2") {
			t.Errorf("the log is\n%s", lines)
		}
		refusing.Store(false)
		time.Sleep(2 * lastPause)
		h.wantSeen(pod, "WEB=10.0.0.3")
		time.Sleep(writePause)
		synctest.Wait()
		if d, _ := readFile(t, filepath.Join(dir, "services.json")); d.Cluster != "c2" {
			t.Errorf("the stored cluster is %q, want the one that answers", d.Cluster)
		}
	}, webAt("10.0.0.3"))
}

// A list during which the cluster changes isn't used: its pages may be of either.
func TestListOfTwoClusters(t *testing.T) {
	in(t, func(h *harness) {
		h.move("c1")
		h.next(t.TempDir(), here)
		first := page("7", "", webAt("10.0.0.3"))
		s := &script{
			lists: []func(metav1.ListOptions) (*v1.ServiceList, error){
				func(o metav1.ListOptions) (*v1.ServiceList, error) {
					h.move("c2")
					return first(o)
				},
				page("8", "", webAt("10.0.0.4")),
			},
			watches: []func() (watch.Interface, error){func() (watch.Interface, error) { return watch.NewFake(), nil }},
		}
		s.on(h)
		h.run()
		h.wantSeen(podOf("a", "api"), "")
		time.Sleep(2 * firstPause)
		h.wantSeen(podOf("a", "api"), "WEB=10.0.0.4")
	})
}

// A watch that reaches another cluster is no continuation of the list: all is read again.
func TestWatchOfAnotherCluster(t *testing.T) {
	in(t, func(h *harness) {
		h.move("c1")
		dir := t.TempDir()
		h.next(dir, here)
		first := watch.NewFake()
		s := &script{
			lists: []func(metav1.ListOptions) (*v1.ServiceList, error){page("7", "", webAt("10.0.0.3")), page("2", "", webAt("10.0.0.4"))},
			watches: []func() (watch.Interface, error){
				func() (watch.Interface, error) { return first, nil },
				func() (watch.Interface, error) {
					w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 1})
					w.Modify(at(webAt("10.0.0.5"), "8"))
					return w, nil
				},
				func() (watch.Interface, error) { return watch.NewFake(), nil },
			},
		}
		s.on(h)
		end := h.run()
		h.wantSeen(podOf("a", "api"), "WEB=10.0.0.3")
		time.Sleep(time.Minute) // A watch that ends at once is followed by a list in any case.
		h.move("c2")
		first.Stop()
		time.Sleep(4 * firstPause)
		h.wantSeen(podOf("a", "api"), "WEB=10.0.0.4")
		end()
		if d, _ := readFile(t, filepath.Join(dir, "services.json")); d.Cluster != "c2" {
			t.Errorf("the stored cluster is %q, want the one that was listed", d.Cluster)
		}
	})
}

// The file of an earlier version has no UID. It gets one although the objects are the same.
func TestFileWithoutCluster(t *testing.T) {
	in(t, func(h *harness) {
		dir := storedIn(t, h, "")
		path := filepath.Join(dir, "services.json")
		if data := string(must[[]byte](t)(os.ReadFile(path))); !strings.Contains(data, `"Cluster":""`) {
			t.Errorf("the file is %s", data)
		}
		h.move("c1")
		h.next(dir, here)
		h.run()()
		if d, _ := readFile(t, path); d.Cluster != "c1" {
			t.Errorf("the stored cluster is %q", d.Cluster)
		}
	}, webAt("10.0.0.3"))
}

// refuse is a reactor that forbids.
func refuse(clienttesting.Action) (handled bool, none runtime.Object, err error) {
	return true, nil, errForbidden
}

func refuseWhile(refusing *atomic.Bool) clienttesting.ReactionFunc {
	return func(clienttesting.Action) (handled bool, none runtime.Object, err error) {
		return refusing.Load(), nil, errForbidden
	}
}
