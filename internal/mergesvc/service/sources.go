package service

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// maxFindings bounds the findings of all sources, in bytes, so that a stock gRPC client accepts the list.
const maxFindings = 3 << 20

var severities = map[manifest.Severity]podconfigv1.FindingSeverity{
	manifest.Warning:  podconfigv1.FindingSeverity_FINDING_SEVERITY_WARNING,
	manifest.Error:    podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR,
	manifest.Conflict: podconfigv1.FindingSeverity_FINDING_SEVERITY_CONFLICT,
	manifest.Ignored:  podconfigv1.FindingSeverity_FINDING_SEVERITY_IGNORED,
}

// ListSources is part of podconfig.v1.PodConfigService.
func (s *Server) ListSources(ctx context.Context, _ *podconfigv1.ListSourcesRequest) (*podconfigv1.ListSourcesResponse, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	v, err := viewOf(caller, podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL, nil)
	if err != nil {
		return nil, err
	}
	end, err := s.sourceAdmission.take(ctx, caller)
	if err != nil {
		return nil, err
	}
	defer end()
	resp := &podconfigv1.ListSourcesResponse{}
	sources := s.cfg.Sources()
	inScope := s.podsInScope(caller, v)
	for _, src := range sources {
		if !v.Sees(src.Name) {
			continue
		}
		if inScope != nil {
			src.Pods = inScope[src.Name]
		}
		scoped := isScoped(caller)
		src.Findings = findingsFor(v, scoped, src.Name, src.Findings)
		if scoped && src.LastErr != nil {
			src.LastErr = errScoped
		} else if scoped && src.Unready != nil {
			src.Unready = errScoped
		}
		m := sourceMessage(src, maxFindings/len(sources))
		if !src.LastHeard.IsZero() {
			m.LastHeardTime = timestamppb.New(src.LastHeard)
			m.UnheardFor = durationpb.New(max(s.clock.Since(src.LastHeard), 0))
		}
		m.Path = s.hopsFor(caller, src.Name)
		m.Positions = s.history.Reached(src.Name).Current.Proto()
		resp.Sources = append(resp.Sources, m)
	}
	return resp, nil
}

// unsaid replaces the message of a finding about a manifest whose pods aren't all in the caller's scope.
const unsaid = "the manifest can't be used as it is; why isn't shown, as it may be about a pod out of the caller's scope"

// isScoped reports whether the caller's scope is some nodes, or the pods that it has applied: then it gets no text that may be
// about other pods.
func isScoped(caller access.Caller) bool { return len(caller.Nodes) > 0 || caller.OwnOnly() }

// podsInScope counts the pods of each source in the caller's scope. Nil: all of them.
func (s *Server) podsInScope(caller access.Caller, v *view.View) map[string]int {
	if !isScoped(caller) {
		return nil
	}
	counts := map[string]int{}
	for _, p := range s.history.State().Pods {
		if v.Matches(p) {
			counts[p.Source]++
		}
	}
	return counts
}

// sourceMessage returns a source as a message. A source's errors and paths may have bytes that aren't UTF-8, which no
// message can carry; they must not make the whole list fail.
func sourceMessage(src merge.SourceState, limit int) *podconfigv1.Source {
	m := &podconfigv1.Source{
		Name: src.Name, Location: asText(src.Location), Digest: src.Digest, Ready: src.Ready, ReadyRevision: src.ReadyRevision,
		PodCount: int32(src.Pods), //nolint:gosec // A node has nowhere near 2^31 pods.
	}
	if !src.LastRead.IsZero() {
		m.LastReadTime = timestamppb.New(src.LastRead)
	}
	if err := cmp.Or(src.LastErr, src.Unready); err != nil {
		m.LastError = asText(err.Error())
	}
	m.Findings = findingMessages(src.Findings, limit)
	return m
}

// asText replaces the bytes of a text that aren't UTF-8.
func asText(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// findingsFor returns a source's findings as the view's caller may see them: without pods that are out of its scope,
// and without quotes of manifests if it gets redacted pods. A caller whose scope is some nodes, or its own pods (scoped), gets only the
// findings about pods that are known to be in it: an unreadable manifest may be for any node.
func findingsFor(v *view.View, scoped bool, source string, findings []merge.Finding) []merge.Finding {
	out := make([]merge.Finding, 0, len(findings))
	for _, f := range findings {
		if f.Severity == manifest.Conflict {
			if !sees(v, f.Conflict.Waits.Source, f.Conflict.Waits.Pod) {
				continue
			}
			f.Message = f.Conflict.Message(sees(v, f.Conflict.Winner.Source, f.Conflict.Winner.Pod))
		}
		if v.Redacted() {
			f.Finding = f.Finding.Redacted()
		}
		kept := f.Kept
		f.Kept = nil
		for _, p := range kept {
			if sees(v, source, p) {
				f.Kept = append(f.Kept, p)
			}
		}
		if scoped && f.Severity != manifest.Conflict {
			switch len(f.Kept) {
			case 0:
				continue
			case len(kept):
			default:
				f.Document, f.Field, f.Message = 0, "", unsaid
			}
		}
		out = append(out, f)
	}
	return out
}

// sees reports whether a source's pod, served or not, is in the view.
func sees(v *view.View, source string, p *manifest.Pod) bool {
	return v.Matches(&revision.Pod{Object: p.Pod, Source: source})
}

// findingMessages returns as many of the findings as fit into about limit bytes.
func findingMessages(findings []merge.Finding, limit int) []*podconfigv1.Finding {
	var out []*podconfigv1.Finding
	size := 0
	for i, f := range findings {
		if size > limit {
			return append(out, &podconfigv1.Finding{
				Severity: podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR,
				Message:  fmt.Sprintf("and %d findings more, which are too many to list", len(findings)-i),
			})
		}
		finding := &podconfigv1.Finding{
			Severity: severities[f.Severity], Origin: asText(f.Origin), Document: int32(f.Document), //nolint:gosec // Bounded by the manifest's size.
			Field: asText(f.Field), Message: asText(f.Message),
		}
		size += proto.Size(finding)
		for _, p := range f.Kept {
			ref := &podconfigv1.PodRef{Uid: string(p.UID), Namespace: p.Namespace, Name: p.Name}
			if size += proto.Size(ref) + 3; size > limit {
				break
			}
			finding.KeptPods = append(finding.KeptPods, ref)
		}
		out = append(out, finding)
	}
	return out
}
