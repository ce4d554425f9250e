package service_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/mergesvc/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestObjectsConsumersAreListed: ListConsumers and the gauges show a consumer's stream of objects beside its stream
// of pods, without the reports of the latter.
func TestObjectsConsumersAreListed(t *testing.T) {
	n := startObjects(t, 0, options{})
	n.apply("file", from("a", user("web", "n1", "cm/a"), object("cm/a", "1")))
	s := n.watchObjects(&podconfigv1.WatchObjectsRequest{Consumer: "agent", Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE})
	synced := s.want("SET cm/a", "synced file api?").cursor
	until(t, "the consumer is live", func() bool { return n.consumers()[0].GetState() == live })
	wantCode(t, "its report", n.report("agent", applied), codes.OK)
	got := n.consumers()
	if len(got) != 2 || got[0].GetObjects() || got[0].GetState() != gone || got[0].GetLastReport() == nil {
		t.Fatalf("the consumers are %v; want first what is left of one of pods, its report", got)
	}
	want := &podconfigv1.Consumer{
		Name: "agent", Peer: "uid:0", Identity: "uid:0", State: live, Cursor: synced, Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE, Objects: true,
	}
	got[1].ConnectedTime = nil
	if !proto.Equal(got[1], want) {
		t.Errorf("the consumer is %v; want %v", got[1], want)
	}
	n.watch(named("agent")).unit()
	until(t, "the stream of pods is live", func() bool { return n.consumers()[0].GetState() == live })
	got = n.consumers()
	if len(got) != 2 || got[0].GetObjects() || got[0].GetLastReport() == nil || !got[1].GetObjects() || got[1].GetLastReport() != nil {
		t.Errorf("the consumers are %v; want that of pods with its report, and that of objects", got)
	}
	if got := gauges(t, n.svc); !strings.Contains(got, "podconfigd_consumers{live}=2") {
		t.Errorf("the gauges are %s; want two live consumers", got)
	}
	// The name is its owner's for both.
	bob := &objectNode{node: n.as(access.Caller{Identity: "uid:2", Role: access.Consumer})}
	_, err := bob.watchObjects(&podconfigv1.WatchObjectsRequest{Consumer: "agent"}).Recv()
	wantCode(t, "another one's name", err, codes.PermissionDenied)
}

// TestObjectsConsumersLag: the lag of a consumer of objects that doesn't read is counted in the objects'
// revisions.
func TestObjectsConsumersLag(t *testing.T) {
	n := startObjects(t, 0, options{})
	web := user("web", "n1", "cm/a")
	n.watchObjects(&podconfigv1.WatchObjectsRequest{}).unit()
	until(t, "the consumer is behind", func() bool {
		n.apply("file", from("a", web, object("cm/a", strings.Repeat(fmt.Sprint(n.second%10), 900<<10))))
		c := n.consumers()[0]
		return c.GetLagRevisions() > 0 && c.GetLaggingSince() != nil && c.GetState() == catchingUp
	})
}

// TestObjectsCountAsConsumers: one limit applies to the streams of pods and of objects together.
func TestObjectsCountAsConsumers(t *testing.T) {
	n := startObjects(t, 0, options{service: func(c *service.Config) { c.MaxConsumers = 2 }})
	n.watch(reference(nil)).want("synced")
	s := n.watchObjects(&podconfigv1.WatchObjectsRequest{})
	s.want("SET", "synced file? api?")
	_, err := n.watchObjects(&podconfigv1.WatchObjectsRequest{}).Recv()
	wantCode(t, "the third of two", err, codes.ResourceExhausted)
	s.cancel()
	until(t, "one has gone", func() bool { return len(n.consumers()) == 1 })
	n.watchObjects(&podconfigv1.WatchObjectsRequest{}).want("SET", "synced file? api?")
}
