package service

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// probe is the name of an origin that comes after all others, and the UID of its pod. No pod has it.
const probe = "\xff"

// offerOf returns the place of a pod's manifest. The served pods don't have the document and the line, but the source's
// present ones do: the preview of another pod of the name, in the same source, names the pod that it waits for. Without a
// reading since the start, both are zero.
func (s *Server) offerOf(p *revision.Pod) merge.Offer {
	offer := merge.Offer{Source: p.Source, Origin: p.Origin, Pod: &manifest.Pod{Pod: p.Object}}
	if s.cfg.Preview == nil {
		return offer
	}
	other := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Object.Namespace, Name: p.Object.Name, UID: probe}}
	preview, err := s.cfg.Preview(p.Source, []*manifest.Origin{{Name: probe, Pods: []*manifest.Pod{{Pod: other}}}}, nil)
	if err != nil {
		return offer // The source hasn't been read, so there is no line.
	}
	for _, f := range preview.Findings {
		if w := f.Conflict.Winner; w.Pod != nil && w.Source == p.Source && w.Origin == p.Origin && w.Pod.UID == p.UID() {
			return w
		}
	}
	return offer
}

// originMessage returns the place of a pod's manifest as a message.
func originMessage(o merge.Offer) *podconfigv1.PodOrigin {
	return &podconfigv1.PodOrigin{
		Source: o.Source, Origin: asText(o.Origin),
		Document: int32(o.Pod.Document), Line: int32(o.Pod.Line), //nolint:gosec // Both are bounded by the manifest's size.
	}
}
