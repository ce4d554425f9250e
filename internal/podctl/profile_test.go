package podctl

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// GetProfile sends the name and the duration in two parts.
func (f *fakePodconfigd) GetProfile(req *podconfigv1.GetProfileRequest, stream grpc.ServerStreamingServer[podconfigv1.GetProfileResponse]) error {
	if req.GetName() == "busy" {
		return status.Error(codes.ResourceExhausted, "another profile is being written; try again later")
	}
	for _, part := range []string{req.GetName(), "\x00" + req.GetDuration().AsDuration().String()} {
		if err := stream.Send(&podconfigv1.GetProfileResponse{Data: []byte(part)}); err != nil {
			return err
		}
	}
	return nil
}

// TestProfile: podctl profile writes what podconfigd sends, unchanged.
func TestProfile(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"profile", "profile\x0030s"}, {"profile --duration=2s trace", "trace\x002s"}, {"profile heap", "heap\x0030s"},
	} {
		n := newNode(t)
		n.podconfigd(&fakePodconfigd{})
		if code := n.run(t.Context(), strings.Fields(tc.args)...); code != exitOK || n.stdout.String() != tc.want {
			t.Errorf("%s: exit code %d, %q, stderr:\n%s", tc.args, code, n.stdout, n.stderr)
		}
		if code := n.run(t.Context(), "profile", "busy"); code == exitOK || !strings.Contains(n.stderr.String(), "another profile") {
			t.Errorf("while another one is written: exit code %d, stderr:\n%s", code, n.stderr)
		}
	}
}
