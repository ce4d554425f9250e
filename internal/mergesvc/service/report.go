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
	// maxReport is how much of a report's errors is remembered.
	maxReport = 64 << 10
	// maxCursor is how large a reported cursor may be. Those of podconfigd are far smaller.
	maxCursor = 1 << 10
	// maxDetails is how much of all reports and filters is listed at once.
	maxDetails = 2 << 20
)

// ReportApplied is part of podconfig.v1.PodConfigService.
func (s *Server) ReportApplied(ctx context.Context, req *podconfigv1.ReportAppliedRequest) (*podconfigv1.ReportAppliedResponse, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	if caller.Role != access.Consumer {
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
	kept := proto.CloneOf(req)
	kept.Consumer, kept.Errors = name, bounded(req.GetErrors())
	if err := s.consumers.report(kept, caller); err != nil {
		return nil, err
	}
	s.logReport(kept)
	return &podconfigv1.ReportAppliedResponse{}, nil
}

// bounded are the first of the errors, as far as they are remembered.
func bounded(errs []*podconfigv1.PodError) []*podconfigv1.PodError {
	size := 0
	for i, e := range errs {
		if size += proto.Size(e); size > maxReport {
			return errs[:i]
		}
	}
	return errs
}

func (s *Server) logReport(r *podconfigv1.ReportAppliedRequest) {
	if r.GetOutcome() == podconfigv1.ApplyOutcome_APPLY_OUTCOME_REJECTED {
		s.log.Warn("consumer couldn't apply a revision and is still at the one before", "consumer", r.GetConsumer(),
			"revision", r.GetCursor().GetRevision())
	}
	for _, e := range r.GetErrors() {
		s.log.Warn("consumer refused a pod", "consumer", r.GetConsumer(), "pod", e.GetRef().GetNamespace()+"/"+e.GetRef().GetName(),
			"uid", e.GetRef().GetUid(), "reason", e.GetReason(), "message", e.GetMessage(), "revision", r.GetCursor().GetRevision())
	}
}

// report remembers the request as its consumer's last one.
func (cs *consumers) report(req *podconfigv1.ReportAppliedRequest, caller access.Caller) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if err := cs.owns(req.GetConsumer(), caller); err != nil {
		return err
	}
	cs.reports[req.GetConsumer()] = &report{ReportAppliedRequest: req, identity: caller.Identity, time: cs.clock.Now()}
	if len(cs.reports) > maxReporters {
		oldest := ""
		for name, r := range cs.reports {
			if oldest == "" || r.time.Before(cs.reports[oldest].time) {
				oldest = name
			}
		}
		delete(cs.reports, oldest)
	}
	return nil
}

// ListConsumers is part of podconfig.v1.PodConfigService.
func (s *Server) ListConsumers(ctx context.Context, _ *podconfigv1.ListConsumersRequest) (*podconfigv1.ListConsumersResponse, error) {
	if _, err := callerOf(ctx); err != nil {
		return nil, err
	}
	return &podconfigv1.ListConsumersResponse{Consumers: s.consumers.list()}, nil
}

func (cs *consumers) list() []*podconfigv1.Consumer {
	var out []*podconfigv1.Consumer
	details := 0
	// fits tells whether a detail is listed. Beyond that the list wouldn't reach a stock gRPC client; the reports are in the log.
	fits := func(m proto.Message) bool {
		size := proto.Size(m)
		if details+size > maxDetails {
			return false
		}
		details += size
		return true
	}
	attach := func(m *podconfigv1.Consumer, r *report) {
		if fits(r.ReportAppliedRequest) {
			m.LastReport = r.ReportAppliedRequest
		}
	}
	connected := map[string]bool{}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.open {
		m := c.message(cs.history)
		if !fits(m.GetFilter()) {
			m.Filter = nil
		}
		connected[c.name] = true
		if r := cs.reports[c.name]; r != nil {
			attach(m, r)
		}
		out = append(out, m)
	}
	for name, r := range cs.reports {
		if !connected[name] {
			m := &podconfigv1.Consumer{
				Name: name, Identity: r.identity, State: podconfigv1.ConsumerState_CONSUMER_STATE_GONE, Cursor: r.GetCursor(),
			}
			attach(m, r)
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *podconfigv1.Consumer) int {
		return cmp.Or(cmp.Compare(a.GetName(), b.GetName()),
			a.GetConnectedTime().AsTime().Compare(b.GetConnectedTime().AsTime()))
	})
	return out
}
