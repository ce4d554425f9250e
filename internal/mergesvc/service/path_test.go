package service_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/clocktest"
	"github.com/podstream/podstream/internal/mergesvc/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestPath: synced and every heartbeat have the current path. A stream that is woken sends a new path at once,
// however busy it is. A source that is a relay has its own path.
func TestPath(t *testing.T) {
	hop := func(id string) *podconfigv1.RelayHop { return &podconfigv1.RelayHop{Id: id, Node: "node-" + id} }
	var path atomic.Pointer[[]*podconfigv1.RelayHop]
	path.Store(&[]*podconfigv1.RelayHop{hop("own")})
	c := clocktest.NewTimers(time.Unix(0, 0))
	n := start(t, options{clock: c, service: func(cfg *service.Config) {
		cfg.Path = func() []*podconfigv1.RelayHop { return *path.Load() }
		cfg.SourcePath = func(source string) []*podconfigv1.RelayHop {
			if source == "api" {
				return []*podconfigv1.RelayHop{hop("up")}
			}
			return nil
		}
	}})
	words := func(hops []*podconfigv1.RelayHop) string {
		out := ""
		for _, h := range hops {
			out += h.GetId() + "@" + h.GetNode() + " "
		}
		return out
	}
	s := n.watch(reference(nil))
	if got := words(s.next().GetSynced().GetPath()); got != "own@node-own " {
		t.Errorf("synced has the path %q; want only its own", got)
	}
	<-c.Set
	path.Store(&[]*podconfigv1.RelayHop{hop("own"), hop("up")})
	c.Step(30 * time.Second)
	if got := words(s.next().GetHeartbeat().GetPath()); got != "own@node-own up@node-up " {
		t.Errorf("a heartbeat later has the path %q; want the new one", got)
	}
	<-c.Set
	path.Store(&[]*podconfigv1.RelayHop{hop("own"), hop("up2")})
	n.set("api", "x: web()")
	s.want("ADD api: web")
	if h := s.next().GetHeartbeat(); words(h.GetPath()) != "own@node-own up2@node-up2 " || h.GetRevision() != 1 {
		t.Errorf("after the revision comes %v; want a heartbeat with the new path", h)
	}
	n.set("api", "x: web(image=2)")
	s.want("UPDATE api: web")
	n.set("file", "")
	s.want("ADD file:")
	sources := n.sources()
	if got := words(sources["api"].GetPath()) + "and " + words(sources["file"].GetPath()); got != "up@node-up and " {
		t.Errorf("the sources have the paths %q; want that of api only", got)
	}
}
