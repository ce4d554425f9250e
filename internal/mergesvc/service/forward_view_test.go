package service_test

import (
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestG11Silent: a consumer that subscribes while the API server doesn't answer gets the pods as RESTORE. The source stays
// ready, and its changes are as always.
func TestG11Silent(t *testing.T) {
	n := start(t, options{service: func(cfg *service.Config) { cfg.Silent = func(source string) bool { return source == "api" } }})
	n.set("file", "a: static()")
	n.set("api", "x: web(uid=u1)")
	for _, req := range []*podconfigv1.WatchPodUpdatesRequest{
		reference(nil), reference(&podconfigv1.Cursor{InstanceId: "another"}, &podconfigv1.KnownPod{Uid: "gone", Source: "http"}),
	} {
		s := n.watch(req)
		if req.GetResumeAfter() == nil {
			s.want("ADD file: static", "RESTORE api: u1")
		} else {
			s.want("REMOVE http: gone", "ADD file: static", "RESTORE api: u1")
		}
		for _, src := range s.want("synced").synced.GetSources() {
			if !src.GetReady() {
				t.Errorf("source %s isn't ready", src.GetName())
			}
		}
		s.cancel()
	}
}

// TestG11Modes: in the snapshot modes the SETs of a held stream lack the source, and say that it isn't ready; the SET at
// the end has it.
func TestG11Modes(t *testing.T) {
	for _, mode := range []podconfigv1.NotificationMode{snapshot, snapshotAndUpdates} {
		g := startGateway(t, options{})
		g.set("file", "")
		g.follow(at("10"), at("12"), 0, "x: web(uid=old)")
		req := ahead(at("20"), "api/new/web")
		req.Mode = mode
		s := g.watch(req)
		wantHeld(t, s.want("synced"), true)
		g.set("file", "a: static()")
		s.want("SET file: static")
		g.follow(at("20"), at("20"), 0, "x: web(uid=new)")
		s.want("SET file: static new", "ADD api:")
	}
}

// TestG11Uncovered: a pod that waited for a file's name changed meanwhile. When the file is removed, the consumer gets the
// pod at its later version, and the cursor has that position: a gateway that is behind it then holds the source.
func TestG11Uncovered(t *testing.T) {
	for _, configure := range []bool{false, true} {
		g := startGateway(t, options{})
		g.set("file", "a: web(uid=static)")
		g.follow(at("10"), at("12"), 0, "x: other()")
		s := g.watch(reference(nil))
		s.want("ADD file: static", "ADD api: other")
		wantPosition(t, s.want("synced"), "10", false)
		g.follow(at("20"), at("20"), 0, "x: other()\ny: web(uid=u1)")
		if configure {
			g.hub.Configure([]merge.Source{{Name: "api"}})
		} else {
			g.set("file", "")
		}
		wantPosition(t, s.want("REMOVE file: static", "ADD api: u1"), "20", false)
	}
}

// TestG11ModesWithoutDifference: a consumer of snapshots got a SET without the held pods. When the source is released with
// these very pods, they come in a SET before the source is ready: the consumer would remove them otherwise.
func TestG11ModesWithoutDifference(t *testing.T) {
	for _, mode := range []podconfigv1.NotificationMode{snapshot, snapshotAndUpdates} {
		g := startGateway(t, options{})
		g.set("file", "")
		g.follow(at("10"), at("12"), 0, "x: web(uid=u1)")
		first := g.watch(reference(nil))
		same := known(first.want("ADD api: u1"))
		same[0].Namespace, same[0].Name = "default", "web"
		req := ahead(at("20"))
		req.Mode, req.KnownPods = mode, same
		s := g.watch(req)
		wantHeld(t, s.want("synced"), true)
		g.set("file", "a: static()")
		s.want("SET file: static")
		g.confirmedAt = "30"
		g.follow(at("10"), at("12"), 1, "x: web(uid=u1)")
		s.want("SET file: static u1", "ADD api:")
	}
}
