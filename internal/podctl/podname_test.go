package podctl

import (
	"strings"
	"testing"

	"google.golang.org/grpc"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// TestPodNames: which pod a command is about. The node is called node1.
func TestPodNames(t *testing.T) {
	leaving := runningPod(t, "default", "twice")
	leaving.Ref.Uid, leaving.Desired = "leaving", false
	for _, tc := range []struct {
		args, want, stderr string
	}{
		{args: "web-node1", want: uidOf("web-node1")},
		{args: "web", want: uidOf("web-node1")},
		{args: "pod/web", want: uidOf("web-node1")},
		{args: "pods/db", want: uidOf("db")},
		{args: "twice", want: uidOf("twice")},
		{args: "cache -n shop", want: uidOf("cache-node1")},
		{args: "cache", stderr: "podctl: there is no pod default/cache\n"},
		{args: "api", stderr: "podctl: there is no pod default/api; there is api-0, api-node2\n"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			n, got := newNode(t), ""
			n.busy(&busyPodexecd{
				pods: []*podexecv1.ObservedPod{
					runningPod(t, "default", "web-node1"), runningPod(t, "default", "db"), runningPod(t, "default", "db-node1"),
					leaving, runningPod(t, "default", "twice"), runningPod(t, "shop", "cache-node1"),
					runningPod(t, "default", "api-node2"), runningPod(t, "default", "api-0"),
				},
				logs: func(req *podexecv1.ReadLogsRequest, _ grpc.ServerStreamingServer[podexecv1.ReadLogsResponse]) error {
					got = req.GetRef().GetUid()
					return nil
				},
			})
			code := n.run(t.Context(), append([]string{"logs"}, strings.Fields(tc.args)...)...)
			if got != tc.want || n.stderr.String() != tc.stderr || (code == exitOK) != (tc.stderr == "") {
				t.Errorf("exit code %d, pod %q, stderr %q; want %q, %q", code, got, n.stderr, tc.want, tc.stderr)
			}
		})
	}
}
