package service

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

var severities = map[manifest.Severity]podconfigv1.FindingSeverity{
	manifest.Warning:  podconfigv1.FindingSeverity_FINDING_SEVERITY_WARNING,
	manifest.Error:    podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR,
	manifest.Conflict: podconfigv1.FindingSeverity_FINDING_SEVERITY_CONFLICT,
	manifest.Ignored:  podconfigv1.FindingSeverity_FINDING_SEVERITY_IGNORED,
}

// ListSources is part of podconfig.v1.PodConfigService.
func (s *Server) ListSources(context.Context, *podconfigv1.ListSourcesRequest) (*podconfigv1.ListSourcesResponse, error) {
	resp := &podconfigv1.ListSourcesResponse{}
	for _, src := range s.sources() {
		resp.Sources = append(resp.Sources, sourceMessage(src))
	}
	return resp, nil
}

func sourceMessage(src merge.SourceState) *podconfigv1.Source {
	m := &podconfigv1.Source{
		Name: src.Name, Location: src.Location, Ready: src.Ready, ReadyRevision: src.ReadyRevision,
		PodCount: int32(src.Pods), //nolint:gosec // A node has nowhere near 2^31 pods.
	}
	if !src.LastRead.IsZero() {
		m.LastReadTime = timestamppb.New(src.LastRead)
	}
	if src.LastErr != nil {
		m.LastError = src.LastErr.Error()
	}
	for _, f := range src.Findings {
		finding := &podconfigv1.Finding{
			Severity: severities[f.Severity], Origin: f.Origin, Document: int32(f.Document), //nolint:gosec // Bounded by the manifest's size.
			Field: f.Field, Message: f.Message,
		}
		for _, p := range f.Kept {
			finding.KeptPods = append(finding.KeptPods,
				&podconfigv1.PodRef{Uid: string(p.UID), Namespace: p.Namespace, Name: p.Name})
		}
		m.Findings = append(m.Findings, finding)
	}
	return m
}
