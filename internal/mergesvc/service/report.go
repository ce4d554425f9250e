package service

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/redact"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The bounds of reports, in bytes.
const (
	// maxReport bounds the kept errors of a report, and maxErrors their number.
	maxReport = 64 << 10
	maxErrors = 256
	// maxLogged bounds the errors that are logged, a line each.
	maxLogged = 16
	// maxCursor bounds a reported cursor. podconfigd's own are far smaller.
	maxCursor = 16 << 10
	// maxList bounds the list of consumers.
	maxList = 7 << 19
)

// ReportApplied is part of podconfig.v1.PodConfigService.
func (s *Server) ReportApplied(ctx context.Context, req *podconfigv1.ReportAppliedRequest) (*podconfigv1.ReportAppliedResponse, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	if caller.Role < access.Consumer {
		return nil, permissionDenied("role %s may not report", caller.Role)
	}
	name, err := consumerName(req.GetConsumer(), caller)
	if err != nil {
		return nil, err
	}
	if req.GetCursor() == nil {
		return nil, invalidArgument("cursor: is missing")
	}
	if size := proto.Size(req.GetCursor()); size > maxCursor {
		return nil, invalidArgument("cursor: has %d bytes; podconfigd's have %d at most", size, maxCursor)
	}
	switch req.GetOutcome() {
	case podconfigv1.ApplyOutcome_APPLY_OUTCOME_APPLIED:
		s.metrics.Reports.WithLabelValues("applied").Inc()
	case podconfigv1.ApplyOutcome_APPLY_OUTCOME_REJECTED:
		s.metrics.Reports.WithLabelValues("rejected").Inc()
	default:
		return nil, invalidArgument("outcome: is %v; want APPLIED or REJECTED", req.GetOutcome())
	}
	// A new message, so that nothing else of the request stays in memory.
	kept := &podconfigv1.ReportAppliedRequest{
		Consumer: name, Cursor: proto.CloneOf(req.GetCursor()), Outcome: req.GetOutcome(), Errors: bounded(req.GetErrors()),
	}
	now := &report{ReportAppliedRequest: kept, time: s.clock.Now(), named: len(req.GetErrors())}
	before, err := s.consumers.report(now, caller)
	if err != nil {
		return nil, err
	}
	logReport(s.lines.logger(caller, name), before, now)
	return &podconfigv1.ReportAppliedResponse{}, nil
}

// bounded copies the first errors, within the bounds.
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

// logReport logs that a revision was refused, and the refused pods, unless the consumer's previous report was the
// same. before is nil if there was none.
func logReport(log *slog.Logger, before, now *report) {
	if before == nil {
		before = &report{}
	}
	revision := now.GetCursor().GetRevision()
	isRejected := func(r *report) bool { return r.GetOutcome() == podconfigv1.ApplyOutcome_APPLY_OUTCOME_REJECTED }
	if isRejected(now) && !(isRejected(before) && before.GetCursor().GetRevision() == revision) {
		log.Warn("consumer rejected a revision and stays at the previous one", "revision", revision)
	}
	type refusal struct{ uid, reason string }
	of := func(e *podconfigv1.PodError) refusal { return refusal{e.GetRef().GetUid(), e.GetReason()} }
	reported := map[refusal]bool{}
	for _, e := range before.GetErrors() {
		reported[of(e)] = true
	}
	logged, more := 0, 0
	for _, e := range now.GetErrors() {
		switch {
		case reported[of(e)]:
		case logged == maxLogged:
			more++
		default:
			logged++
			log.Warn("consumer refused a pod", "pod", e.GetRef().GetNamespace()+"/"+e.GetRef().GetName(), "uid", e.GetRef().GetUid(),
				"reason", e.GetReason(), "message", e.GetMessage(), "revision", revision)
		}
	}
	if now.named != before.named {
		more += now.named - len(now.GetErrors())
	}
	if more > 0 {
		log.Warn("consumer refused more pods", "pods", more, "revision", revision)
	}
}

// report stores a report as its consumer's last one, and returns the previous one; nil if there was none.
func (cs *consumers) report(now *report, caller access.Caller) (before *report, err error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if err := cs.owns(now.GetConsumer(), caller); err != nil {
		return nil, err
	}
	whose := holder{now.GetConsumer(), caller.Identity}
	before = cs.reports[whose]
	cs.reports[whose] = now
	if len(cs.reports) > maxReporters {
		var oldest holder
		for w, r := range cs.reports {
			if cs.reports[oldest] == nil || r.time.Before(cs.reports[oldest].time) {
				oldest = w
			}
		}
		delete(cs.reports, oldest)
	}
	return before, nil
}

// ListConsumers is part of podconfig.v1.PodConfigService.
func (s *Server) ListConsumers(ctx context.Context, _ *podconfigv1.ListConsumersRequest) (*podconfigv1.ListConsumersResponse, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	end, err := s.consumerAdmission.take(ctx, caller)
	if err != nil {
		return nil, err
	}
	defer end()
	return &podconfigv1.ListConsumersResponse{Consumers: s.consumers.list(caller)}, nil
}

// list returns what the caller may see: within a scope only its own streams, as others may have pods out of it; and
// for an inspector no text that consumers wrote about pods, which may quote anything.
func (cs *consumers) list(caller access.Caller) []*podconfigv1.Consumer {
	out := cs.messages()
	// The consumers of pods come first.
	kind := func(c *podconfigv1.Consumer) int {
		if c.GetObjects() {
			return 1
		}
		return 0
	}
	if len(caller.Nodes) > 0 || len(caller.Sources) > 0 {
		out = slices.DeleteFunc(out, func(c *podconfigv1.Consumer) bool { return c.GetIdentity() != caller.Identity })
	}
	for _, c := range out {
		c.LastReport = reportFor(audienceOf(caller), c.GetLastReport())
	}
	slices.SortFunc(out, func(a, b *podconfigv1.Consumer) int {
		return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(kind(a), kind(b)),
			a.GetConnectedTime().AsTime().Compare(b.GetConnectedTime().AsTime()))
	})
	return fitting(out)
}

func (cs *consumers) messages() []*podconfigv1.Consumer {
	var out []*podconfigv1.Consumer
	connected := map[holder]bool{}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.open {
		m := c.message()
		out = append(out, m)
		// Reports concern revisions of pods.
		if c.ofObjects {
			continue
		}
		w := holder{c.name, c.caller.Identity}
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

// reportFor is the report as the Audience may see it: an inspector sees no text that the consumer wrote.
func reportFor(audience redact.Audience, r *podconfigv1.ReportAppliedRequest) *podconfigv1.ReportAppliedRequest {
	if audience.Whole() || len(r.GetErrors()) == 0 {
		return r
	}
	out := proto.CloneOf(r)
	for _, e := range out.GetErrors() {
		e.Message, e.Reason = audience.Words(e.GetMessage()), audience.Reason(e.GetReason())
	}
	return out
}

// fitting bounds the list to what a stock gRPC client accepts. It leaves out filters and reports, which may be large,
// before it cuts off consumers. The latter happens only with many thousands of them, with the longest names.
func fitting(list []*podconfigv1.Consumer) []*podconfigv1.Consumer {
	// perField is the overhead of a message in its parent.
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
