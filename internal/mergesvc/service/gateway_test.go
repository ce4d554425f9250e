package service_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/service"
	"github.com/podstream/podstream/internal/mergesvc/store"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// gateway is a podconfigd whose source api follows a cluster.
type gateway struct {
	*node
	mu sync.Mutex
	// asked are the nodes of the requested confirmations.
	asked [][]string
	// confirmedAt is the version of the confirmations.
	confirmedAt string
}

// storedAt are the options of a podconfigd whose store is at the path.
func storedAt(path string) options {
	return options{hub: func(cfg *mergesvc.Config) { cfg.Store = &store.Config{Path: path, NoSync: true} }}
}

func startGateway(t *testing.T, o options) *gateway {
	g := &gateway{}
	o.service = func(cfg *service.Config) {
		cfg.Confirm = func(source string, nodes []string) uint64 {
			g.mu.Lock()
			defer g.mu.Unlock()
			if source != "api" {
				return 0
			}
			g.asked = append(g.asked, nodes)
			return uint64(len(g.asked))
		}
	}
	g.node = start(t, o)
	return g
}

func (g *gateway) requests() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.asked)
}

func at(version string) position.Position {
	return position.Position{Source: "api", Cluster: "c", ResourceVersion: version}
}

// follow merges a set of the api source, with its last change and what it is known to be current with.
func (g *gateway) follow(changed, current position.Position, confirmed uint64, text string) {
	g.second++
	set := mergetest.Set("api", g.second, text)
	set.Progress = &manifest.Progress{
		Changed: position.Positions{changed}, Current: position.Positions{current}, Confirmed: confirmed, ConfirmedAt: g.confirmedAt,
	}
	g.hub.Apply(set)
}

// ahead is a request of a consumer that has come from another podconfigd with that position, and holds the pods
// "source/uid/name".
func ahead(p position.Position, pods ...string) *podconfigv1.WatchPodUpdatesRequest {
	req := reference(&podconfigv1.Cursor{InstanceId: "another", Revision: 7, Positions: position.Positions{p}.Proto()})
	for _, text := range pods {
		f := strings.Split(text, "/")
		req.KnownPods = append(req.KnownPods, &podconfigv1.KnownPod{Source: f[0], Uid: f[1], Namespace: "default", Name: f[2], SpecDigest: "old"})
	}
	return req
}

// wantPosition compares the position in a unit's cursor.
func wantPosition(t *testing.T, u unit, want string, confirmed bool) {
	t.Helper()
	list := u.cursor.GetPositions()
	if len(list) != 1 || list[0].GetResourceVersion() != want || list[0].GetConfirmed() != confirmed {
		t.Errorf("%s has the positions %v; want one of version %s, confirmed=%v", u, list, want, confirmed)
	}
}

// wantHeld checks that synced shows whether the source api is held, and that its cursor can't be resumed from.
func wantHeld(t *testing.T, u unit, held bool) {
	t.Helper()
	for _, src := range u.synced.GetSources() {
		if want := held && src.GetName() == "api"; (src.GetHeldReason() != "") != want || src.GetReady() == want {
			t.Errorf("synced has %v; want held=%v, and ready if it isn't held", src, want)
		}
	}
	if got := strings.HasSuffix(u.cursor.GetView(), "-held"); got != held {
		t.Errorf("the cursor's view is %q; want a suffix of held streams: %v", u.cursor.GetView(), held)
	}
}

// copied returns the path of a copy of a store that is open.
func copied(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "store")
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}
