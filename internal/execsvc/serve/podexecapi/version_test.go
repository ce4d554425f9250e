package podexecapi

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Every role gets the version; the node's name only callers whose scope has the node.
func TestGetVersion(t *testing.T) {
	server := New(Config{Node: "n1", Version: "v1.2.3", Board: podview.New()})
	for _, node := range []string{"n1", "n2"} {
		caller := access.Caller{Role: access.Inspector, Nodes: []string{node}}
		got, err := server.GetVersion(access.NewContext(t.Context(), caller), &podexecv1.GetVersionRequest{})
		switch {
		case err != nil:
			t.Errorf("a caller of %s: %v", node, err)
		case got.GetVersion() != "v1.2.3", got.GetGoVersion() != runtime.Version(), got.GetPlatform() == "":
			t.Errorf("a caller of %s gets %v", node, got)
		case (got.GetNodeName() == "n1") != (node == "n1"):
			t.Errorf("a caller of %s gets the node %q", node, got.GetNodeName())
		}
	}
	_, err := server.GetVersion(access.NewContext(t.Context(), access.Caller{}), &podexecv1.GetVersionRequest{})
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("a caller without a role gets the error %v", err)
	}
}

// The runtime is asked for its version once in a while, and not by each caller; what it says is bounded. If it doesn't answer, the rest
// of the response comes without it.
func TestRuntimeVersion(t *testing.T) {
	clock, asked := clocktesting.NewFakePassiveClock(time.Now()), 0
	var failed error
	v := newRecentVersion(func(ctx context.Context) (*runtimeapi.VersionResponse, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the runtime may take as long as it likes")
		}
		asked++
		if failed != nil {
			return nil, failed
		}
		return &runtimeapi.VersionResponse{RuntimeName: "containerd", RuntimeVersion: strings.Repeat("é", 200), RuntimeApiVersion: "v1"}, nil
	}, clock)
	server := New(Config{Node: "n1", Version: "v1.2.3", Board: podview.New()})
	server.runtimeVersion = v
	get := func() *podexecv1.GetVersionResponse {
		got, err := server.GetVersion(access.NewContext(t.Context(), access.Caller{Role: access.Inspector}), &podexecv1.GetVersionRequest{})
		if err != nil || got.GetVersion() != "v1.2.3" {
			t.Errorf("%v, %v", got, err)
		}
		return got
	}
	for range 3 {
		got := get()
		if got.GetRuntimeName() != "containerd" || got.GetRuntimeApiVersion() != "v1" || got.GetRuntimeVersion() != strings.Repeat("é", 128) {
			t.Errorf("the runtime is %v", got)
		}
	}
	failed = errors.New("gone")
	clock.SetTime(clock.Now().Add(2 * runtimeVersionAge))
	for range 3 {
		if got := get(); got.GetRuntimeName() != "" {
			t.Errorf("after its end the runtime is %v", got)
		}
	}
	if asked != 2 {
		t.Errorf("the runtime is asked %d times; want twice", asked)
	}
}
