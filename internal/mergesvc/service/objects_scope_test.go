package service_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podstream/podstream/internal/access"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestObjectsScope: a caller with a scope, or a filter, sees the objects of the pods that it sees, and no others.
func TestObjectsScope(t *testing.T) {
	n := startObjects(t, 0, options{})
	both := []any{
		user("p1", "n1", "cm/one", "cm/shared"), user("p2", "n2", "cm/two", "cm/shared"),
		object("cm/one", "1"), object("cm/two", "1"), object("cm/shared", "1"),
	}
	n.apply("file", from("a", both...))
	n.apply("api", from("x", user("p3", "n1", "cm/api")))
	api := n.follow("api")
	api.want("cm/api")
	api.report("cm/api", "1")
	nodes := func(names ...string) *podconfigv1.PodFilter { return &podconfigv1.PodFilter{Nodes: names} }
	for _, tc := range []struct {
		name           string
		nodes, sources []string
		filter         *podconfigv1.PodFilter
		want           []string
	}{
		{"everything", nil, nil, nil, []string{"SET api:cm/api=1 cm/one=1 cm/shared=1 cm/two=1", "synced file api"}},
		{"a node", []string{"n1"}, nil, nil, []string{"SET api:cm/api=1 cm/one=1 cm/shared=1", "synced file api"}},
		{"a filter doesn't widen it", []string{"n1"}, nil, nodes("n1", "n2"), []string{"SET api:cm/api=1 cm/one=1 cm/shared=1", "synced file api"}},
		{"a filter beside it", []string{"n1"}, nil, nodes("n2"), []string{"SET", "synced file api"}},
		{"a source", nil, []string{"api"}, nil, []string{"SET api:cm/api=1", "synced api"}},
		{"both", []string{"n2"}, []string{"file"}, nil, []string{"SET cm/shared=1 cm/two=1", "synced file"}},
		{"a name", nil, nil, &podconfigv1.PodFilter{Names: []string{"p2"}}, []string{"SET cm/shared=1 cm/two=1", "synced file api"}},
		{"a node twice", []string{"n1", "n2"}, nil, nodes("n2", "n3", "n2"), []string{"SET cm/shared=1 cm/two=1", "synced file api"}},
		{"nothing", []string{"n3"}, nil, nil, []string{"SET", "synced file api"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			as := &objectNode{node: n.as(scoped(tc.nodes, tc.sources))}
			as.watchObjects(&podconfigv1.WatchObjectsRequest{Filter: tc.filter}).want(tc.want...)
		})
	}
	one := (&objectNode{node: n.as(scoped([]string{"n1"}, nil))}).watchObjects(&podconfigv1.WatchObjectsRequest{})
	one.want("SET api:cm/api=1 cm/one=1 cm/shared=1", "synced file api")
	n.apply("file", from("a", append(both[:4:4], object("cm/shared", "1"), object("cm/two", "secret"))...))
	n.apply("file", from("a", both[1], both[2], object("cm/two", "1"), object("cm/shared", "2")))
	one.want("PUT cm/shared=2")
	one.want("REMOVE cm/one cm/shared")
	n.apply("file", from("a", user("p1", "n1", "cm/two"), both[2], object("cm/two", "2")))
	one.want("PUT cm/two=2")
}

// TestObjectsFollowLabels: an object enters and leaves the view with the pods' labels.
func TestObjectsFollowLabels(t *testing.T) {
	n := startObjects(t, 0, options{})
	labelled := func(tier string) any {
		p := user("web", "n1", "cm/a")
		p.Labels = map[string]string{"tier": tier}
		p.SpecDigest = tier
		return p
	}
	n.apply("file", from("a", labelled("x"), object("cm/a", "1")))
	s := n.watchObjects(&podconfigv1.WatchObjectsRequest{Filter: &podconfigv1.PodFilter{LabelSelector: "tier=y"}})
	s.want("SET", "synced file api?")
	n.apply("file", from("a", labelled("y"), object("cm/a", "1")))
	s.want("PUT cm/a=1")
	n.apply("file", from("a", labelled("x"), object("cm/a", "1")))
	s.want("REMOVE cm/a")
}

// TestObjectsRefused: callers that may not watch objects, and invalid requests, are refused.
func TestObjectsRefused(t *testing.T) {
	n := startObjects(t, 0, options{})
	many := make([]*podconfigv1.KnownObject, 20_001)
	for i := range many {
		many[i] = heldObjects("cm/a=1")[0]
	}
	noRole, inspector := access.Caller{}, access.Caller{Identity: "i", Role: access.Inspector}
	consumer := access.Caller{Identity: "c", Role: access.Consumer}
	for _, tc := range []struct {
		name   string
		caller access.Caller
		req    *podconfigv1.WatchObjectsRequest
		want   codes.Code
	}{
		{"no role", noRole, &podconfigv1.WatchObjectsRequest{}, codes.PermissionDenied},
		{"an inspector", inspector, &podconfigv1.WatchObjectsRequest{}, codes.PermissionDenied},
		{"another one's name", consumer, &podconfigv1.WatchObjectsRequest{Consumer: "d"}, codes.PermissionDenied},
		{"too many known objects", consumer, resumed(nil, many...), codes.ResourceExhausted},
		{"a known object without a name", consumer, resumed(nil, &podconfigv1.KnownObject{Ref: &podconfigv1.ObjectRef{Kind: 1}}), codes.InvalidArgument},
		{"a kind that isn't known", consumer, resumed(nil, &podconfigv1.KnownObject{Ref: &podconfigv1.ObjectRef{Kind: 9, Name: "a"}}), codes.InvalidArgument},
		{"a format that isn't known", consumer, &podconfigv1.WatchObjectsRequest{Format: 9}, codes.InvalidArgument},
		{"a selector", consumer, &podconfigv1.WatchObjectsRequest{Filter: &podconfigv1.PodFilter{LabelSelector: "=x"}}, codes.InvalidArgument},
		{"too many nodes", consumer, &podconfigv1.WatchObjectsRequest{Filter: &podconfigv1.PodFilter{Nodes: make([]string, 10_001)}}, codes.InvalidArgument},
		{"a heartbeat", consumer, &podconfigv1.WatchObjectsRequest{HeartbeatInterval: durationpb.New(-time.Second)}, codes.InvalidArgument},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := (&objectNode{node: n.as(tc.caller)}).watchObjects(tc.req)
			_, err := s.Recv()
			wantCode(t, "WatchObjects", err, tc.want)
		})
	}
	without := start(t, options{})
	s := (&objectNode{node: without}).watchObjects(&podconfigv1.WatchObjectsRequest{})
	_, err := s.Recv()
	wantCode(t, "WatchObjects without objects", err, codes.Unimplemented)
}
