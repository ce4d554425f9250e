package podctl

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func exampleConsumers() []*podconfigv1.Consumer {
	refused := func(name, reason, message string) *podconfigv1.PodError {
		return &podconfigv1.PodError{Ref: &podconfigv1.PodRef{Namespace: "default", Name: name}, Reason: reason, Message: message}
	}
	cursor := func(revision uint64) *podconfigv1.Cursor {
		return &podconfigv1.Cursor{InstanceId: "one", Revision: revision, View: "all"}
	}
	return []*podconfigv1.Consumer{
		{
			Name: "podexecd", Identity: "uid:0", Peer: "@", State: podconfigv1.ConsumerState_CONSUMER_STATE_LIVE, Cursor: cursor(17),
			Mode:   podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL,
			Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, ConnectedTime: timestamppb.New(podctltest.Noon.Add(-3 * time.Hour)),
			LastReport: &podconfigv1.ReportAppliedRequest{
				Consumer: "podexecd", Cursor: cursor(17), Outcome: podconfigv1.ApplyOutcome_APPLY_OUTCOME_APPLIED,
				Errors: []*podconfigv1.PodError{
					refused("web-node1", "OutOfmemory", "not enough"), refused("db-node1", "", "a port is taken"), refused("log-node1", "", ""),
				},
			},
		},
		{
			Name: "podexecd", Identity: "uid:0", Peer: "@", State: podconfigv1.ConsumerState_CONSUMER_STATE_LIVE, Cursor: cursor(3),
			Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, ConnectedTime: timestamppb.New(podctltest.Noon.Add(-3 * time.Hour)), Objects: true,
		},
		{
			Name: "shipper", Identity: "node1", Peer: "192.0.2.7:4711", State: podconfigv1.ConsumerState_CONSUMER_STATE_PARKED, Cursor: cursor(5),
			LagRevisions: 12, LaggingSince: timestamppb.New(podctltest.Noon.Add(-40 * time.Second)), ParkedCount: 2,
			Mode: podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT_AND_UPDATES, Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE,
			ConnectedTime: timestamppb.New(podctltest.Noon.Add(-time.Minute)),
			Filter: &podconfigv1.PodFilter{
				Sources: []string{"file", "api"}, Nodes: []string{"node1"}, Namespaces: []string{"kube-system"}, Names: []string{"proxy"},
				LabelSelector: "app=web,tier!=db",
			},
			LastReport: &podconfigv1.ReportAppliedRequest{Cursor: cursor(4), Outcome: podconfigv1.ApplyOutcome_APPLY_OUTCOME_REJECTED},
		},
		// One that was just connected, with a name that would clear the screen, from a podconfigd with more states.
		{Name: "\x1b[2Jevil\u202e", State: podconfigv1.ConsumerState(9)},
	}
}

func TestConsumers(t *testing.T) {
	for _, output := range []string{"table", "wide", "json", "yaml"} {
		t.Run(output, func(t *testing.T) {
			n := newNode(t)
			n.ask(&askedPodconfigd{consumers: exampleConsumers()})
			if code := n.run(t.Context(), "consumers", "-o", output); code != exitOK || n.stderr.String() != "" {
				t.Errorf("exit code %d, stderr:\n%s", code, n.stderr)
			}
			n.golden("consumers."+output, n.stdout.String())
		})
	}
}

func TestConsumersNone(t *testing.T) {
	n := newNode(t)
	n.ask(&askedPodconfigd{})
	code := n.run(t.Context(), "consumers")
	if code != exitOK || n.stdout.String() != "" || n.stderr.String() != "podctl: podconfigd has no consumers\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, n.stdout, n.stderr)
	}
}
