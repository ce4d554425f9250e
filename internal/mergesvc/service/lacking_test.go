package service_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/service"
	"github.com/podstream/podstream/internal/sources"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// ofNodes starts a podconfigd whose source api has the pods of some nodes.
func ofNodes(t *testing.T, names ...string) (n *node, nodes *atomic.Pointer[sources.Nodes], changed func()) {
	t.Helper()
	nodes = &atomic.Pointer[sources.Nodes]{}
	nodes.Store(&sources.Nodes{Names: names})
	n = start(t, options{service: func(cfg *service.Config) {
		cfg.ID = "here"
		cfg.Lacking = func(source string, view []string) (string, bool) {
			if source != "api" {
				return "", false
			}
			return nodes.Load().Lacking(view)
		}
	}})
	n.set("file", "")
	n.set("api", "a: one(node=n1) two(node=n2)")
	return n, nodes, n.svc.NodesChanged
}

func ofApi(node string, at *podconfigv1.Cursor, uids ...string) *podconfigv1.WatchPodUpdatesRequest {
	req := filtered(ofNode(node), at)
	for _, uid := range uids {
		req.KnownPods = append(req.KnownPods, &podconfigv1.KnownPod{Source: "api", Uid: uid, Namespace: "default", Name: uid, SpecDigest: "d"})
	}
	return req
}

// TestG11WrongGateway: a node whose pods a podconfigd doesn't have is told nothing about them, whether it comes from another one
// or is new, until they are there. It isn't told that the source is ready, either: its pods would be removed then.
func TestG11WrongGateway(t *testing.T) {
	for name, at := range map[string]*podconfigv1.Cursor{
		"new": nil, "from another podconfigd": {InstanceId: "another", Revision: 3, PodconfigdId: "there"},
	} {
		t.Run(name, func(t *testing.T) {
			n, nodes, changed := ofNodes(t, "n1", "n2")
			s := n.watch(ofApi("n3", at, "mine", "gone"))
			synced := s.want("synced")
			if got := synced.held("api"); !strings.Contains(got, "doesn't have the pods of node n3") {
				t.Fatalf("api is held with %q; want that the pods of n3 aren't there", got)
			}
			n.set("api", "a: one(node=n1) two(node=n2) mine(node=n3)")
			nodes.Store(&sources.Nodes{Names: []string{"n1", "n2", "n3"}})
			changed()
			s.want("REMOVE api: gone", "UPDATE api: mine")
		})
	}
}

// TestG11NodesThatLeave: a stream ends, and removes nothing, if its node is taken from the nodes of the podconfigd. Other
// streams go on.
func TestG11NodesThatLeave(t *testing.T) {
	n, nodes, changed := ofNodes(t, "n1", "n2")
	first, second := n.watch(ofApi("n1", nil)), n.watch(ofApi("n2", nil))
	for s, pod := range map[*stream]string{first: "one", second: "two"} {
		s.want("ADD api: " + pod)
		s.want("synced")
	}
	nodes.Store(&sources.Nodes{Names: []string{"n1"}})
	changed()
	n.set("api", "a: one(node=n1,image=2)")
	first.want("UPDATE api: one")
	_, err := second.Recv()
	wantCode(t, "the stream of the node that left", err, codes.Unavailable)
}

// TestG11WrongGatewayObjects: a node whose pods a podconfigd doesn't have isn't told that their ConfigMaps and Secrets aren't
// needed, whether its stream begins so or the node leaves later. Once the pods are there, it is told what differs.
func TestG11WrongGatewayObjects(t *testing.T) {
	nodes := &atomic.Pointer[sources.Nodes]{}
	nodes.Store(&sources.Nodes{Names: []string{"n1", "n2"}})
	n := startObjects(t, 0, options{service: func(cfg *service.Config) {
		cfg.Lacking = func(source string, view []string) (string, bool) {
			if source != "api" {
				return "", false
			}
			return nodes.Load().Lacking(view)
		}
	}})
	has := func(names ...string) {
		nodes.Store(&sources.Nodes{Names: names})
		n.svc.NodesChanged()
	}
	n.apply("file")
	n.apply("api", from("x", user("one", "n1", "cm/one"), user("two", "n2", "cm/two")))
	api := n.follow("api")
	api.want("cm/one", "cm/two")
	api.report("cm/one", "1")
	api.report("cm/two", "1")
	of := func(node string, at *podconfigv1.Cursor, held ...string) *objectStream {
		req := resumed(at, heldObjects(held...)...)
		req.Filter = ofNode(node)
		return n.watchObjects(req)
	}
	away := &podconfigv1.Cursor{InstanceId: "another", Revision: 3}
	lists := of("n3", away, "api:cm/mine=1", "api:secret/gone=1", "cm/file=1")
	lists.want("REMOVE cm/file", "synced file api?")
	of("n3", away).want("SET", "synced file api?")
	second := of("n2", nil)
	at := second.want("SET api:cm/two=1", "synced file api").cursor

	has("n1")
	n.apply("api", from("x", user("one", "n1", "cm/one")))
	api.want("cm/one")
	_, err := second.Recv()
	wantCode(t, "the stream of the node that left", err, codes.Unavailable)
	held := of("n2", at, "api:cm/two=1").want("synced file api?").cursor

	has("n1", "n2")
	n.apply("api", from("x", user("one", "n1", "cm/one"), user("two", "n2", "cm/two")))
	api.want("cm/one", "cm/two")
	api.report("cm/two", "2")
	of("n2", held, "api:cm/two=1", "api:cm/old=1").want("REMOVE api:cm/old", "PUT api:cm/two=2", "synced file api")
}

// TestG11WrongGatewayWithoutSource: a source that lacks the pods of a node is taken from the configuration. The node's pods were
// never there, so they aren't removed, neither on the stream nor on the next one, until an administrator accepts that.
func TestG11WrongGatewayWithoutSource(t *testing.T) {
	n, _, _ := ofNodes(t, "n1")
	s := n.watch(ofApi("n3", &podconfigv1.Cursor{InstanceId: "another", Revision: 3, PodconfigdId: "there"}, "mine"))
	synced := s.want("synced")
	if synced.held("api") == "" {
		t.Fatal("api isn't held")
	}
	n.hub.Configure([]merge.Source{{Name: "file"}})
	n.set("file", "f: other(node=n3)")
	update := func(s *stream) string {
		t.Helper()
		for {
			if m := s.next(); m.GetUpdate() != nil {
				return unit{messages: []*podconfigv1.WatchPodUpdatesResponse{m}}.String()
			}
		}
	}
	if got := update(s); !strings.Contains(got, "ADD file: other") {
		t.Errorf("the consumer gets %s; want only the pod of the file", got)
	}
	again := n.watch(ofApi("n3", synced.cursor, "mine"))
	again.want("ADD file: other")
	if got := again.want("synced").held("api"); !strings.Contains(got, "podctl sources accept api") {
		t.Errorf("on the next stream api is held with %q; want that it waits for an administrator", got)
	}
	_, err := n.api.AcceptSource(t.Context(), &podconfigv1.AcceptSourceRequest{Source: "api"})
	wantCode(t, "AcceptSource", err, codes.OK)
	for _, s := range []*stream{s, again} {
		if got := update(s); !strings.Contains(got, "REMOVE api: mine") {
			t.Errorf("after the acceptance the consumer gets %s; want the REMOVE", got)
		}
	}
}
