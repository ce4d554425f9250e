package service_test

import (
	"runtime"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/mergesvc/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Every role receives the version. The node's name is only for callers whose scope has the node.
func TestGetVersion(t *testing.T) {
	n := start(t, options{service: func(c *service.Config) { c.Node, c.Version = "n1", "v1.2.3" }})
	ask := func(caller access.Caller) (*podconfigv1.GetVersionResponse, error) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), callerHeader, n.callers.add(caller))
		return n.api.GetVersion(ctx, &podconfigv1.GetVersionRequest{})
	}
	want := &podconfigv1.GetVersionResponse{
		Version: "v1.2.3", GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, NodeName: "n1",
	}
	if got, err := ask(access.Caller{Role: access.Inspector}); err != nil || !proto.Equal(got, want) {
		t.Errorf("an inspector gets %v, %v; want %v", got, err, want)
	}
	want.NodeName = ""
	if got, err := ask(access.Caller{Role: access.Consumer, Nodes: []string{"n2"}}); err != nil || !proto.Equal(got, want) {
		t.Errorf("a caller of another node gets %v, %v; want %v", got, err, want)
	}
	if _, err := ask(access.Caller{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a caller without a role gets the error %v", err)
	}
}
