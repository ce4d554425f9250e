package service

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/access"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The bounds of reports, in bytes.
const (
	// maxReport is how much of a report's errors is remembered, and maxErrors how many of them.
	maxReport = 64 << 10
	maxErrors = 256
	// maxLogged is how many of them are logged, a line each.
	maxLogged = 16
	// maxCursor is how large a reported cursor may be. Those of podconfigd are far smaller.
	maxCursor = 1 << 10
	// maxList is how large the list of consumers may be.
	maxList = 7 << 19
)

// ReportApplied is part of podconfig.v1.PodConfigService.
func (s *Server) ReportApplied(ctx context.Context, req *podconfigv1.ReportAppliedRequest) (*podconfigv1.ReportAppliedResponse, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	if caller.Role < access.Consumer {
		return nil, status.Errorf(codes.PermissionDenied, "role %s may look, but not report", caller.Role)
	}
	name, err := consumerName(req.GetConsumer(), caller)
	if err != nil {
		return nil, err
	}
	if req.GetCursor() == nil {
		return nil, status.Error(codes.InvalidArgument, "cursor: is missing")
	}
	if size := proto.Size(req.GetCursor()); size > maxCursor {
		return nil, status.Errorf(codes.InvalidArgument, "cursor: has %d bytes; podconfigd's have %d at most", size, maxCursor)
	}
	switch req.GetOutcome() {
	case podconfigv1.ApplyOutcome_APPLY_OUTCOME_APPLIED:
		s.metrics.Reports.WithLabelValues("applied").Inc()
	case podconfigv1.ApplyOutcome_APPLY_OUTCOME_REJECTED:
		s.metrics.Reports.WithLabelValues("rejected").Inc()
	default:
		return nil, status.Errorf(codes.InvalidArgument, "outcome: is %v; want APPLIED or REJECTED", req.GetOutcome())
	}
	// A message of its own, so that nothing else of the request stays in memory.
	kept := &podconfigv1.ReportAppliedRequest{
		Consumer: name, Cursor: proto.CloneOf(req.GetCursor()), Outcome: req.GetOutcome(), Errors: bounded(req.GetErrors()),
	}
	if err := s.consumers.report(kept, caller); err != nil {
		return nil, err
	}
	s.logReport(kept, len(req.GetErrors()))
	return &podconfigv1.ReportAppliedResponse{}, nil
}

// bounded are copies of the first of the errors, as far as they are remembered.
func bounded(errs []*podconfigv1.PodError) []*podconfigv1.PodError {
	var out []*podconfigv1.PodError
	size := 0
	for _, e := range errs[:min(len(errs), maxErrors)] {
		if size += proto.Size(e); size > maxReport {
			break
		}
		out = append(out, proto.CloneOf(e))
	}
	return out
}

// logReport tells of a revision that was refused, and of the pods that were; told is how many the consumer named.
func (s *Server) logReport(r *podconfigv1.ReportAppliedRequest, told int) {
	if r.GetOutcome() == podconfigv1.ApplyOutcome_APPLY_OUTCOME_REJECTED {
		s.log.Warn("consumer couldn't apply a revision and is still at the one before", "consumer", r.GetConsumer(),
			"revision", r.GetCursor().GetRevision())
	}
	logged := r.GetErrors()[:min(len(r.GetErrors()), maxLogged)]
	for _, e := range logged {
		s.log.Warn("consumer refused a pod", "consumer", r.GetConsumer(), "pod", e.GetRef().GetNamespace()+"/"+e.GetRef().GetName(),
			"uid", e.GetRef().GetUid(), "reason", e.GetReason(), "message", e.GetMessage(), "revision", r.GetCursor().GetRevision())
	}
	if more := told - len(logged); more > 0 {
		s.log.Warn("consumer refused more pods", "consumer", r.GetConsumer(), "pods", more, "revision", r.GetCursor().GetRevision())
	}
}

// report remembers the request as its consumer's last one.
func (cs *consumers) report(req *podconfigv1.ReportAppliedRequest, caller access.Caller) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if err := cs.owns(req.GetConsumer(), caller); err != nil {
		return err
	}
	cs.reports[who{req.GetConsumer(), caller.Identity}] = &report{ReportAppliedRequest: req, time: cs.clock.Now()}
	if len(cs.reports) > maxReporters {
		var oldest who
		for w, r := range cs.reports {
			if cs.reports[oldest] == nil || r.time.Before(cs.reports[oldest].time) {
				oldest = w
			}
		}
		delete(cs.reports, oldest)
	}
	return nil
}

// ListConsumers is part of podconfig.v1.PodConfigService.
func (s *Server) ListConsumers(ctx context.Context, _ *podconfigv1.ListConsumersRequest) (*podconfigv1.ListConsumersResponse, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	return &podconfigv1.ListConsumersResponse{Consumers: s.consumers.list(caller)}, nil
}

// list is what the caller may know: within a scope only its own streams, as others may have pods that are out of it; and an
// inspector not what consumers say of pods in their own words, which may quote anything.
func (cs *consumers) list(caller access.Caller) []*podconfigv1.Consumer {
	out := cs.messages()
	// Those of pods first.
	kind := func(c *podconfigv1.Consumer) int {
		if c.GetObjects() {
			return 1
		}
		return 0
	}
	if len(caller.Nodes) > 0 || len(caller.Sources) > 0 {
		out = slices.DeleteFunc(out, func(c *podconfigv1.Consumer) bool { return c.GetIdentity() != caller.Identity })
	}
	if caller.Role < access.Consumer {
		for _, c := range out {
			c.LastReport = withoutWords(c.GetLastReport())
		}
	}
	slices.SortFunc(out, func(a, b *podconfigv1.Consumer) int {
		return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(kind(a), kind(b)),
			a.GetConnectedTime().AsTime().Compare(b.GetConnectedTime().AsTime()))
	})
	return fitting(out)
}

func (cs *consumers) messages() []*podconfigv1.Consumer {
	var out []*podconfigv1.Consumer
	connected := map[who]bool{}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.open {
		m := c.message()
		out = append(out, m)
		// Reports are of revisions of pods.
		if c.ofObjects {
			continue
		}
		w := who{c.name, c.caller.Identity}
		connected[w] = true
		if r := cs.reports[w]; r != nil {
			m.LastReport = r.ReportAppliedRequest
		}
	}
	for w, r := range cs.reports {
		if !connected[w] {
			out = append(out, &podconfigv1.Consumer{
				Name: w.name, Identity: w.identity, State: podconfigv1.ConsumerState_CONSUMER_STATE_GONE, Cursor: r.GetCursor(),
				LastReport: r.ReportAppliedRequest,
			})
		}
	}
	return out
}

// withoutWords is the report without the consumer's messages.
func withoutWords(r *podconfigv1.ReportAppliedRequest) *podconfigv1.ReportAppliedRequest {
	if len(r.GetErrors()) == 0 {
		return r
	}
	out := proto.CloneOf(r)
	for _, e := range out.GetErrors() {
		e.Message = ""
	}
	return out
}

// fitting is the list as it reaches a stock gRPC client: the filters and reports, which may be large, as far as there is room for
// them beside the consumers themselves. Those are cut off only where there are many thousands with the longest of names.
func fitting(list []*podconfigv1.Consumer) []*podconfigv1.Consumer {
	// perField is what a message takes beside its own bytes.
	const perField = 5
	room := maxList
	filters, reports := make([]*podconfigv1.PodFilter, len(list)), make([]*podconfigv1.ReportAppliedRequest, len(list))
	for i, c := range list {
		filters[i], reports[i], c.Filter, c.LastReport = c.Filter, c.LastReport, nil, nil
		if room -= proto.Size(c) + perField; room < 0 {
			list = list[:i]
			break
		}
	}
	fits := func(m proto.Message) bool {
		size := proto.Size(m) + perField
		if size > room {
			return false
		}
		room -= size
		return true
	}
	for i, c := range list {
		if fits(filters[i]) {
			c.Filter = filters[i]
		}
		if fits(reports[i]) {
			c.LastReport = reports[i]
		}
	}
	return list
}
