package service

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// maxFindings is how many bytes of findings are listed, of all sources together, so that the list reaches a stock gRPC client.
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
		src.Findings = findingsFor(v, src.Name, src.Findings)
		m := sourceMessage(src, maxFindings/len(sources))
		m.Path = s.cfg.SourcePath(src.Name)
		resp.Sources = append(resp.Sources, m)
	}
	return resp, nil
}

// podsInScope counts the pods of each source that the caller may know of. Nil: all of them.
func (s *Server) podsInScope(caller access.Caller, v *view.View) map[string]int {
	if len(caller.Nodes) == 0 {
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

// sourceMessage is a source as a message. A source's errors and paths may have bytes in them that aren't text, which no message can
// carry: they must not keep the others from being listed.
func sourceMessage(src merge.SourceState, limit int) *podconfigv1.Source {
	m := &podconfigv1.Source{
		Name: src.Name, Location: asText(src.Location), Ready: src.Ready, ReadyRevision: src.ReadyRevision,
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

// asText is a text with its bytes that aren't UTF-8 replaced.
func asText(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// findingsFor are a source's findings as the view's caller may know them: without pods that are out of its scope, and without what
// is quoted of manifests if it gets pods redacted.
func findingsFor(v *view.View, source string, findings []merge.Finding) []merge.Finding {
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
		out = append(out, f)
	}
	return out
}

// sees tells whether a source's pod, served or not, is in the view.
func sees(v *view.View, source string, p *manifest.Pod) bool {
	return v.Matches(&revision.Pod{Object: p.Pod, Source: source})
}

// findingMessages are as many of the findings as fit into so many bytes, nearly.
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
