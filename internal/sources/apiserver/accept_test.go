package apiserver

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

// TestAccept: an administrator accepts the cluster that was refused, and no other one that answers later. Its positions
// then replace those of the former one. Nothing can be accepted that wasn't refused, or in place of a configured cluster.
func TestAccept(t *testing.T) {
	server, file := apitest.New(t, apitest.Config{}), filepath.Join(t.TempDir(), "cluster.json")
	server.Put(newPod("a"))
	s := ofCluster(t, server, file)
	r := start(t, s)
	_, at := r.awaitPods(0, "ns/a")
	ours := server.Cluster()
	if accepted, err := s.Accept(); accepted != "" || err != nil {
		t.Errorf("accepted %q, %v; want nothing, as nothing was refused", accepted, err)
	}
	server.ReplaceStore()
	at = awaitRefused(t, server, r, at, "is of another cluster", "podctl sources accept api")
	if accepted, err := s.Accept(); !strings.Contains(accepted, string(server.Cluster())) || err != nil {
		t.Errorf("accepted %q, %v; want %s", accepted, err, server.Cluster())
	}
	set, at := r.awaitPods(at)
	if p := set.Progress; p == nil || len(p.Current) != 1 || p.Current[0].Cluster != string(server.Cluster()) || !slices.Contains(p.Current[0].Replaced, string(ours)) {
		t.Errorf("the progress is %+v; want one of %s that replaces %s", p, server.Cluster(), ours)
	}
	server.ReplaceStore()
	awaitRefused(t, server, r, at, "is of another cluster")

	pinned := ofCluster(t, server, "", func(c *Config) { c.ClusterUID = "configured" })
	r = start(t, pinned)
	awaitRefused(t, server, r, 0, "configured")
	if accepted, err := pinned.Accept(); accepted != "" || err != nil {
		t.Errorf("accepted %q, %v; want nothing in place of the configured one", accepted, err)
	}
}
