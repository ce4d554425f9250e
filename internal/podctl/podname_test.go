package podctl

import (
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// The node's name is that of the daemons, podexecd's before podconfigd's; the host's is a guess for daemons without
// one.
func TestPodNamesOfAnotherHost(t *testing.T) {
	for _, tc := range []struct {
		name, config, exec, want string
	}{
		{"podexecd", "gateway", "devnode", "web-devnode"},
		{"podconfigd", "devnode", "", "web-devnode"},
		{"neither", "", "", "web-node1"},
	} {
		n, got := newNode(t), ""
		exec := &busyPodexecd{
			pods: []*podexecv1.ObservedPod{
				runningPod(t, "default", "web-node1"), runningPod(t, "default", "web-devnode"), runningPod(t, "default", "web-gateway"),
			},
			logs: func(req *podexecv1.ReadLogsRequest, _ grpc.ServerStreamingServer[podexecv1.ReadLogsResponse]) error {
				got = req.GetRef().GetName()
				return nil
			},
		}
		if tc.exec != "" {
			exec.version = &podexecv1.GetVersionResponse{NodeName: tc.exec}
		}
		n.busy(exec)
		if tc.config != "" {
			n.podconfigd(&fakePodconfigd{version: &podconfigv1.GetVersionResponse{NodeName: tc.config}})
		}
		if code := n.run(t.Context(), "logs", "web"); code != exitOK || got != tc.want {
			t.Errorf("%s tells the node's name: exit code %d, pod %s, stderr %q; want %s", tc.name, code, got, n.stderr, tc.want)
		}
		for _, args := range [][]string{{"describe", "web"}, {"events", "web"}} {
			if code := n.run(t.Context(), args...); code != exitOK && tc.config != "" {
				t.Errorf("%s tells the node's name: %v: exit code %d, stderr %q", tc.name, args, code, n.stderr)
			}
		}
	}
}

// TestPodNames: which pod a command is about. The node is called node1.
func TestPodNames(t *testing.T) {
	leaving := runningPod(t, "default", "twice")
	leaving.Ref.Uid, leaving.Desired = "leaving", false
	for _, tc := range []struct {
		args, want, stderr string
	}{
		{args: "web-node1", want: podctltest.UID("web-node1")},
		{args: "web", want: podctltest.UID("web-node1")},
		{args: "pod/web", want: podctltest.UID("web-node1")},
		{args: "pods/db", want: podctltest.UID("db")},
		{args: "twice", want: podctltest.UID("twice")},
		{args: "cache -n shop", want: podctltest.UID("cache-node1")},
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
