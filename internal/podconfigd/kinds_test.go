package podconfigd

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestKinds: one source of each kind, made from the plan, serves its pods; and a relay's path is sent.
func TestKinds(t *testing.T) {
	up, dir := shortDir(t), shortDir(t)
	writeManifest(t, up, "relayed", "one")
	writeManifest(t, dir, "own", "one")
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") == "secret" {
			_, _ = w.Write([]byte(podText("page")))
		} else {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer page.Close()
	api := apitest.New(t, apitest.Config{})
	api.Put(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bound", UID: "u1"},
		Spec:       v1.PodSpec{NodeName: "node", Containers: []v1.Container{{Name: "main", Image: "one"}}},
	})

	launch(t, up, t.Output())
	r := launch(t, dir, t.Output(), "--relay-from", "up=unix://"+filepath.Join(up, "s"), "--manifest-url", page.URL,
		"--manifest-url-header=X-Key:secret", "--kubeconfig", api.Kubeconfig(apitest.Identity{}), "--source-order=api,relay")
	s := r.watch(nil)
	want := map[string]bool{"api bound": true, "relay:up relayed-node": true, "file own-node": true, "http page-node": true}
	for len(want) > 0 {
		for _, p := range recv(t, s).GetUpdate().GetPods() {
			delete(want, p.GetSource()+" "+p.GetRef().GetName())
		}
	}
	list := r.sources()
	if got := names(list); got != "api relay:up file http" {
		t.Errorf("the sources are %q; want them in the order that was asked for", got)
	}
	upID := strings.TrimSpace(read(t, filepath.Join(up, "root", "podconfigd-id")))
	if got := list[1].GetPath(); len(got) != 1 || got[0].GetId() != upID {
		t.Errorf("the relay's path is %v; want the upstream, %s", got, upID)
	}
	path := synced(t, r).GetPath()
	if len(path) != 2 || path[0].GetId() != strings.TrimSpace(read(t, filepath.Join(dir, "root", "podconfigd-id"))) ||
		path[0].GetNode() != "node" || path[1].GetId() != upID {
		t.Errorf("the path is %v; want the own hop and the upstream's", path)
	}
}

// TestRelayLimitFlags: what an upstream has beyond the limits isn't taken, and the error names the flags. Both have to be
// positive.
func TestRelayLimitFlags(t *testing.T) {
	up := shortDir(t)
	writeManifest(t, up, "one", "one")
	writeManifest(t, up, "two", "one")
	launch(t, up, t.Output())
	for _, tc := range []struct {
		flag  string
		taken bool
	}{
		{"--relay-max-pods=2", true}, {"--relay-max-pods=1", false}, {"--relay-max-bytes=100", false},
	} {
		t.Run(tc.flag, func(t *testing.T) {
			r := launchWith(t, shortDir(t), t.Output(), "--relay-from", "unix://"+filepath.Join(up, "s"), tc.flag)
			for late := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
				s := r.sources()[0]
				refused := strings.Contains(s.GetLastError(), "--relay-max-pods, --relay-max-bytes")
				if tc.taken && s.GetPodCount() == 2 || !tc.taken && refused && s.GetPodCount() == 0 {
					return
				}
				if time.Now().After(late) {
					t.Fatalf("the source is %v; want that its pods are taken: %t", s, tc.taken)
				}
			}
		})
	}
	for _, flag := range []string{"--relay-max-pods=0", "--relay-max-bytes=-1"} {
		if _, err := parse([]string{flag}, t.Output(), nil); err == nil {
			t.Errorf("%s is taken; want an error", flag)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// synced returns the sources that a new consumer gets.
func synced(t *testing.T, r *running) *podconfigv1.Synced {
	t.Helper()
	for s := r.watch(nil); ; {
		if synced := recv(t, s).GetSynced(); synced != nil {
			return synced
		}
	}
}

// TestID: a podconfigd keeps its ID; an ID that can't be stored is logged, and doesn't keep it from starting.
func TestID(t *testing.T) {
	dir := shortDir(t)
	var ids []string
	for i := range 3 {
		file := filepath.Join(dir, "root", "podconfigd-id")
		if i == 2 {
			if err := os.WriteFile(file, []byte("junk"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		log := newLog()
		r := launch(t, dir, log)
		ids = append(ids, synced(t, r).GetPath()[0].GetId())
		r.stop()
		if reported := strings.Contains(log.String(), "this run uses a temporary one"); reported != (i == 2) {
			t.Errorf("run %d: that the id isn't kept is told: %v\n%s", i, reported, log)
		}
	}
	if ids[0] == "" || ids[0] != ids[1] || ids[2] == "" || ids[2] == ids[0] {
		t.Errorf("the ids are %q; want one that stays, and another once the file is damaged", ids)
	}
}
