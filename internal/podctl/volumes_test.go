package podctl

import (
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// removing is a podexecd that removes volumes.
type removing struct {
	busyPodexecd
	removed []string
}

func (r *removing) RemoveVolume(_ context.Context, req *podexecv1.RemoveVolumeRequest) (*podexecv1.RemoveVolumeResponse, error) {
	r.removed = append(r.removed, req.GetNamespace()+"/"+req.GetName())
	return &podexecv1.RemoveVolumeResponse{}, nil
}

// TestRemoveVolumes: volumes are removed in their order. If one is named twice, none is.
func TestRemoveVolumes(t *testing.T) {
	for _, tc := range []struct {
		args, stderr string
		code         int
		want         []string
	}{
		{args: "a shop/a b", want: []string{"default/a", "shop/a", "default/b"}},
		{args: "a b a", code: exitUsage, stderr: `default/a is named twice`},
		{args: "a default/a", code: exitUsage, stderr: `as "a" and "default/a"; nothing is removed`},
	} {
		n, r := newNode(t), &removing{}
		n.serve("podexecd", func(s *grpc.Server) { podexecv1.RegisterPodExecServiceServer(s, r) })
		if code := n.run(t.Context(), append([]string{"volumes", "rm", "--yes"}, strings.Fields(tc.args)...)...); code != tc.code ||
			!slices.Equal(r.removed, tc.want) || !strings.Contains(n.stderr.String(), tc.stderr) {
			t.Errorf("%s: exit code %d, removed %q, stderr %q; want %+v", tc.args, code, r.removed, n.stderr, tc)
		}
	}
}
