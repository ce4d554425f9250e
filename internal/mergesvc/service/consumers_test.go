package service_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
	testclock "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/mergesvc/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	applied  = podconfigv1.ApplyOutcome_APPLY_OUTCOME_APPLIED
	rejected = podconfigv1.ApplyOutcome_APPLY_OUTCOME_REJECTED

	catchingUp = podconfigv1.ConsumerState_CONSUMER_STATE_CATCHING_UP
	live       = podconfigv1.ConsumerState_CONSUMER_STATE_LIVE
	parked     = podconfigv1.ConsumerState_CONSUMER_STATE_PARKED
	gone       = podconfigv1.ConsumerState_CONSUMER_STATE_GONE
)

// consumers returns the consumers of ListConsumers.
func (n *node) consumers() []*podconfigv1.Consumer {
	n.t.Helper()
	resp, err := n.api.ListConsumers(context.Background(), &podconfigv1.ListConsumersRequest{})
	if err != nil {
		n.t.Fatalf("ListConsumers: %v; want the consumers", err)
	}
	return resp.GetConsumers()
}

// until waits until a condition holds.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !is(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("after %v it still isn't so that %s", deadline, what)
		}
	}
}

// named returns a request with a consumer's name.
func named(name string) *podconfigv1.WatchPodUpdatesRequest {
	req := reference(nil)
	req.Consumer = name
	return req
}

// report calls ReportApplied for the revision.
func (n *node) report(name string, outcome podconfigv1.ApplyOutcome, errs ...*podconfigv1.PodError) error {
	_, err := n.api.ReportApplied(context.Background(), &podconfigv1.ReportAppliedRequest{
		Consumer: name, Outcome: outcome, Errors: errs, Cursor: &podconfigv1.Cursor{InstanceId: "i", Revision: 1, View: "v"},
	})
	return err
}

// TestConsumerNames: over TLS a name is the certificate's, or starts with it and a slash. On the socket any
// unused name is allowed. The default is the identity.
func TestConsumerNames(t *testing.T) {
	caller := func(identity string) access.Caller { return access.Caller{Identity: identity, Role: access.Consumer} }
	for _, tc := range []struct {
		identity, name, want string
		code                 codes.Code
	}{
		{"web", "", "web", codes.OK},
		{"web", "web", "web", codes.OK},
		{"web", "web/2", "web/2", codes.OK},
		{"web", "web2", "", codes.PermissionDenied},
		{"web", "other", "", codes.PermissionDenied},
		{"web", "uid:0", "", codes.PermissionDenied},
		{"web", "other/web", "", codes.PermissionDenied},
		{"uid:1000", "", "uid:1000", codes.OK},
		{"uid:1000", "podexecd", "podexecd", codes.OK},
	} {
		n := start(t, options{}).as(caller(tc.identity))
		what := fmt.Sprintf("%s as %q", tc.identity, tc.name)
		wantCode(t, "the report of "+what, n.report(tc.name, applied), tc.code)
		if tc.code != codes.OK {
			s, err := n.api.WatchPodUpdates(t.Context(), named(tc.name))
			if err == nil {
				_, err = s.Recv()
			}
			wantCode(t, "the stream of "+what, err, tc.code)
			continue
		}
		n.watch(named(tc.name)).want("synced")
		if cs := n.consumers(); len(cs) != 1 || cs[0].GetName() != tc.want || cs[0].GetIdentity() != tc.identity || cs[0].GetLastReport() == nil {
			t.Errorf("%s is listed as %v; want one consumer %q of that identity, with its report", what, cs, tc.want)
		}
	}
}

// TestConsumerNameIsOneCallers: a name that a stream or a report uses belongs to one caller, which may use it
// for several streams.
func TestConsumerNameIsOneCallers(t *testing.T) {
	n := start(t, options{})
	alice := n.as(access.Caller{Identity: "uid:1", Role: access.Consumer})
	bob := n.as(access.Caller{Identity: "uid:2", Role: access.Consumer})
	first := alice.watch(named("agent"))
	first.want("synced")
	second := alice.watch(named("agent"))
	second.want("synced")
	denied := func() error {
		s, err := bob.api.WatchPodUpdates(t.Context(), named("agent"))
		if err == nil {
			_, err = s.Recv()
		}
		return err
	}
	wantCode(t, "a stream under another one's name", denied(), codes.PermissionDenied)
	wantCode(t, "a report under another one's name", bob.report("agent", applied), codes.PermissionDenied)
	first.cancel()
	until(t, "one stream is left", func() bool { return len(n.consumers()) == 1 })
	wantCode(t, "a stream under a name that has one stream left", denied(), codes.PermissionDenied)
	second.cancel()
	until(t, "no stream is left", func() bool { return len(n.consumers()) == 0 })
	bob.watch(named("agent")).want("synced")
}

// TestMaxConsumers: a stream over the limit is RESOURCE_EXHAUSTED. When one ends, another one is served.
func TestMaxConsumers(t *testing.T) {
	n := start(t, options{service: func(c *service.Config) { c.MaxConsumers = 2 }})
	first, second := n.watch(reference(nil)), n.watch(reference(nil))
	first.want("synced")
	second.want("synced")
	s, err := n.api.WatchPodUpdates(t.Context(), reference(nil))
	if err == nil {
		_, err = s.Recv()
	}
	wantCode(t, "the third of two", err, codes.ResourceExhausted)
	first.cancel()
	until(t, "one has gone", func() bool { return len(n.consumers()) == 1 })
	n.watch(reference(nil)).want("synced")
}

// TestListConsumers: each consumer is listed with its request, position and last report, even after its stream has
// ended.
func TestListConsumers(t *testing.T) {
	c := testclock.NewFakeClock(time.Unix(1000, 0))
	n := start(t, options{clock: c})
	req := named("b")
	req.Mode, req.Format, req.Filter = snapshot, podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED, byLabel("app=web")
	at := n.watch(req).want("SET file:", "synced").cursor
	whole := n.watch(named("a")).want("synced").cursor
	refused := &podconfigv1.PodError{Ref: &podconfigv1.PodRef{Uid: "u", Name: "web"}, Reason: "HostPortConflict", Message: "port 80 is taken"}
	for name, outcome := range map[string]podconfigv1.ApplyOutcome{"b": rejected, "c": applied} {
		wantCode(t, "the first report of "+name, n.report(name, applied), codes.OK)
		wantCode(t, "the report of "+name, n.report(name, outcome, refused), codes.OK)
	}
	until(t, "both are synced", func() bool {
		cs := n.consumers()
		return cs[0].GetState() == live && cs[1].GetState() == live
	})
	report := func(name string, outcome podconfigv1.ApplyOutcome) *podconfigv1.ReportAppliedRequest {
		return &podconfigv1.ReportAppliedRequest{
			Consumer: name, Outcome: outcome, Errors: []*podconfigv1.PodError{refused},
			Cursor: &podconfigv1.Cursor{InstanceId: "i", Revision: 1, View: "v"},
		}
	}
	want := []*podconfigv1.Consumer{
		{Name: "a", Peer: "uid:0", Identity: "uid:0", State: live, Cursor: whole, Mode: incremental, Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE},
		{
			Name: "b", Peer: "uid:0", Identity: "uid:0", State: live, Cursor: at, Mode: snapshot, Format: podconfigv1.PodFormat_POD_FORMAT_JSON,
			Filter: byLabel("app=web"), LastReport: report("b", rejected),
		},
		{Name: "c", Identity: "uid:0", State: gone, Cursor: report("c", applied).GetCursor(), LastReport: report("c", applied)},
	}
	got := n.consumers()
	for _, c := range got[:2] {
		if c.GetConnectedTime().AsTime().Unix() != 1000 {
			t.Errorf("consumer %s is connected since %v; want second 1000", c.GetName(), c.GetConnectedTime().AsTime())
		}
	}
	if diff := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(&podconfigv1.Consumer{}, "connected_time")); diff != "" {
		t.Errorf("ListConsumers (-want +got):\n%s", diff)
	}
}

// TestReportBounds: the stored reports are bounded, each and together, and the list fits gRPC's default limit
// of 4 MiB.
func TestReportBounds(t *testing.T) {
	n := start(t, options{})
	var errs []*podconfigv1.PodError
	for range 100 {
		errs = append(errs, &podconfigv1.PodError{Reason: "Refused", Message: strings.Repeat("x", 10<<10)})
	}
	for i := range 80 {
		wantCode(t, "a report of 1 MiB", n.report(fmt.Sprintf("reporter-%02d", i), rejected, errs...), codes.OK)
	}
	const filters = 6
	for range filters {
		n.watch(filtered(&podconfigv1.PodFilter{Names: []string{strings.Repeat("x", 1<<20)}}, nil)).want("synced")
	}
	cs := n.consumers()
	if len(cs) != 80+filters {
		t.Fatalf("%d consumers are listed; want %d", len(cs), 80+filters)
	}
	for i, c := range cs[:10] {
		if got := len(c.GetLastReport().GetErrors()); got < 5 || got > 7 {
			t.Errorf("of report %d %d errors of 10 KiB are listed; want about 64 KiB of them", i, got)
		}
	}
	_, err := n.api.ReportApplied(t.Context(), &podconfigv1.ReportAppliedRequest{
		Outcome: applied, Cursor: &podconfigv1.Cursor{InstanceId: strings.Repeat("x", 1<<20)},
	})
	wantCode(t, "a report of a cursor of 1 MiB", err, codes.InvalidArgument)
}

// TestReportersBound: the reports of 1024 consumers are stored; the oldest is dropped first.
func TestReportersBound(t *testing.T) {
	c := testclock.NewFakeClock(time.Unix(1000, 0))
	n := start(t, options{clock: c})
	ctx := access.NewContext(t.Context(), access.Caller{Identity: "uid:0", Role: access.Consumer})
	for i := range 1025 {
		_, err := n.svc.ReportApplied(ctx, &podconfigv1.ReportAppliedRequest{
			Consumer: fmt.Sprintf("%04d", i), Outcome: applied, Cursor: &podconfigv1.Cursor{},
		})
		wantCode(t, "ReportApplied", err, codes.OK)
		c.Step(time.Second)
	}
	if cs := n.consumers(); len(cs) != 1024 || cs[0].GetName() != "0001" {
		t.Errorf("%d reporters are listed, %s first; want 1024, without the oldest", len(cs), cs[0].GetName())
	}
}

// TestListConsumersLarge: the list of ten thousand consumers with names of the maximum length fits a client's
// default limit.
func TestListConsumersLarge(t *testing.T) {
	n := start(t, options{})
	n.set("file", "a: web()")
	for i := range 9000 {
		ctx, cancel := context.WithCancel(access.NewContext(t.Context(), access.Caller{Identity: "uid:0", Role: access.Consumer}))
		s, ended := newGatedStream(ctx), make(chan error, 1)
		go func() { ended <- n.svc.WatchPodUpdates(named(fmt.Sprintf("%04d%s", i, strings.Repeat("x", 249))), s) }()
		<-s.entered
		t.Cleanup(func() {
			cancel()
			<-ended
		})
	}
	cs := n.consumers()
	if len(cs) < 8000 || cs[0].GetName()[:4] != "0000" {
		t.Errorf("%d consumers are listed; want most of the 9000", len(cs))
	}
}
