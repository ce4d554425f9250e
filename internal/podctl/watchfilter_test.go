package podctl

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func TestWatchFilterFlags(t *testing.T) {
	all := &podconfigv1.PodFilter{
		Namespaces: []string{"a", "b"}, LabelSelector: "app=web,tier!=db", Sources: []string{"file", "api"}, Nodes: []string{"n1"},
		Names: []string{"web-n1"},
	}
	for _, tc := range []struct {
		name string
		args []string
		want *podconfigv1.PodFilter
	}{
		{"none", nil, nil},
		{"in kubectl's style", []string{"-n", "a", "-n", "b", "-l", "app=web,tier!=db", "--source=file,api", "--node=n1", "--name", "web-n1"}, all},
		{"with long names", []string{"--namespace=a,b", "--selector=app=web", "--selector=tier!=db", "--source=file", "--source=api",
			"--node=n1", "--name=web-n1"}, all},
		{"in one", []string{"--filter", "namespace=a,b;selector=app=web,tier!=db; source=file, api;node=n1;name=web-n1"}, all},
		{"both", []string{"-n", "a", "--filter=namespace=b;selector=app=web", "--source=file,api", "-l=tier!=db", "--filter", "node=n1;name=web-n1"}, all},
		{"a selector of sets", []string{"-l", "app in (web, db),!old"}, &podconfigv1.PodFilter{LabelSelector: "app in (web, db),!old"}},
		{"a source with a name", []string{"--source", "file:extra"}, &podconfigv1.PodFilter{Sources: []string{"file:extra"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNode(t)
			requests := make(chan *podconfigv1.WatchPodUpdatesRequest, 1)
			n.podconfigd(&fakePodconfigd{requests: requests})
			n.start(append([]string{"watch"}, tc.args...)...)
			if diff := cmp.Diff(tc.want, (<-requests).GetFilter(), protocmp.Transform()); diff != "" {
				t.Errorf("the filter (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWatchUsageErrors(t *testing.T) {
	for args, want := range map[string]string{
		"-l app=":                    "", // an empty value is a value
		"-l app==web==db":            "selector: ",
		"--selector=,":               "selector: ",
		"-n a,,b":                    "namespace: one of the values is empty",
		"--source=":                  "source: one of the values is empty",
		"--filter=web":               `"web" has no =`,
		"--filter=namespace=a;":      `"" has no =`,
		"--filter=pod=a":             `there is no key "pod": want namespace, selector, source, node or name`,
		"--filter==a":                `there is no key ""`,
		"--filter=selector=":         "selector: it is empty",
		"--mode=all":                 "want incremental, snapshot-and-updates or snapshot",
		"--resume=":                  "want a cursor INSTANCE/REVISION/VIEW, or a file",
		"--resume=nosuchfilethere":   "want a cursor INSTANCE/REVISION/VIEW, or a file",
		"--filter=node=a;selector=(": "selector: ",
	} {
		t.Run(args, func(t *testing.T) {
			flags := append([]string{"watch", "--podconfig-endpoint=unix:///nonexistent/s"}, strings.Fields(args)...)
			code, stdout, stderr := runAlone(flags...)
			wantCode := exitUsage
			if want == "" {
				wantCode = exitFailed
			}
			if code != wantCode || stdout != "" || !strings.Contains(stderr, want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d and %q", code, stdout, stderr, wantCode, want)
			}
		})
	}
}
