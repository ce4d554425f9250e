package service

import (
	"context"

	"connectrpc.com/connect"

	"github.com/podstream/podstream/internal/failpoint"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// AppliedSource is the source that podctl writes. podconfigd has it if it is started with --applied.
const AppliedSource = "applied"

// Applier writes manifests to podconfigd's source "applied".
//
// Its errors have the codes of gRPC, and a text for the user.
type Applier interface {
	// Compare returns what applying the manifests would change. Mistakes in the manifests are findings, as far as their place is
	// known.
	Compare(ctx context.Context, content []byte) (*Comparison, error)
	// Apply writes all documents of the manifests, or none. If a document isn't that of basis any more, it fails with ABORTED. It
	// returns what was done, a line each, and the revision in which the change was published.
	Apply(ctx context.Context, content []byte, basis string) (lines []string, published uint64, err error)
	// Delete removes the document of a pod.
	Delete(ctx context.Context, pod *podconfigv1.PodRef) (lines []string, published uint64, err error)
}

// Comparison is what applying manifests would change.
type Comparison struct {
	Diff *podconfigv1.DiffManifestsResponse
	// Documents is what would be done with each document, a line each: "pod/web created (dry run)".
	Documents []string
	// Basis stands for the versions of the documents that were compared with. Empty: a document is rejected.
	Basis string
}

// unavailable is the refusal of an action that is nil.
const unavailable = "this podctl web has no such action"

// manifestRefusal returns why no manifest can be applied, and no applied pod deleted. Empty: they can.
func (s *Service) manifestRefusal() string {
	if refusal := s.applyRefusal(); refusal != "" {
		return refusal
	}
	switch {
	case s.cfg.Actions.Applier == nil:
		return unavailable
	case s.cfg.Board.Gateway():
		return "podconfigd is a gateway: pods are applied at a node's own podconfigd"
	case !s.hasApplied():
		return "podconfigd has no source \"applied\": start it with --applied, or write the manifest into a directory of a source"
	}
	return ""
}

// hasApplied reports whether podconfigd has listed the source "applied".
func (s *Service) hasApplied() bool {
	for _, row := range s.cfg.Board.Sources.Rows() {
		if row.GetName() == AppliedSource {
			return true
		}
	}
	return false
}

// deletable returns an applied pod. podconfigd deletes no other one either.
func (s *Service) deletable(key string) (*podconfigv1.PodRef, error) {
	uid, _ := s.cfg.Board.UID(key)
	desired, _ := s.cfg.Board.Pod(uid)
	if desired == nil {
		return nil, refuse(connect.CodeNotFound, "there is no such pod any more")
	}
	if source := desired.GetSource(); source != AppliedSource && !failpoint.Active(failpoint.WebSource) {
		return nil, refuse(connect.CodeFailedPrecondition, "the pod is from the source "+source+": only applied pods can be deleted here")
	}
	return desired.GetRef(), nil
}
