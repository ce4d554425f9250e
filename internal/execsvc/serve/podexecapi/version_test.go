package podexecapi

import (
	"runtime"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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
