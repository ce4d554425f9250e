package client_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func TestReports(t *testing.T) {
	s, p := newScript(), testPlace(t)
	up(t, p, s)
	c, err := client.New(client.Config{Endpoint: p.endpoint, Consumer: "agent"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	refused := []client.PodError{{UID: "u", Namespace: "prod", Name: "web", Reason: "HostPort", Message: "the port is taken"}}
	want := &podconfigv1.ReportAppliedRequest{
		Consumer: "agent", Cursor: cursor(4), Outcome: podconfigv1.ApplyOutcome_APPLY_OUTCOME_APPLIED,
		Errors: []*podconfigv1.PodError{{
			Ref: &podconfigv1.PodRef{Uid: "u", Namespace: "prod", Name: "web"}, Reason: "HostPort", Message: "the port is taken",
		}},
	}
	for outcome, report := range map[podconfigv1.ApplyOutcome]func(context.Context, *podconfigv1.Cursor, []client.PodError) error{
		podconfigv1.ApplyOutcome_APPLY_OUTCOME_APPLIED: c.ReportApplied, podconfigv1.ApplyOutcome_APPLY_OUTCOME_REJECTED: c.ReportRejected,
	} {
		if err := report(t.Context(), cursor(4), refused); err != nil {
			t.Errorf("%v: %v", outcome, err)
			continue
		}
		want.Outcome = outcome
		if diff := cmp.Diff(want, <-s.reports, protocmp.Transform()); diff != "" {
			t.Errorf("the report (-want +got):\n%s", diff)
		}
		err := report(t.Context(), nil, nil)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "cursor: unset") {
			t.Errorf("%v of no revision: %v; want podconfigd's own error", outcome, err)
		}
	}
}
