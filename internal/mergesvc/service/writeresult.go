package service

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/write"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// results returns the steps of a plan as messages.
func results(plan write.Plan) []*podconfigv1.ManifestResult {
	var out []*podconfigv1.ManifestResult
	for _, step := range plan.Steps {
		m := &podconfigv1.ManifestResult{Action: podconfigv1.ManifestAction(step.Action), Ref: refOf(step.Key)} //nolint:gosec // It is a small constant.
		if d := step.Before; d != nil {
			m.PreviousDigest, m.PreviousSet, m.Pod, m.PreviousUid = d.Digest, d.Set, podRef(d), string(d.UID())
		}
		if d := step.Next; d != nil {
			m.Digest, m.Set, m.Pod = d.Digest, d.Set, podRef(d)
			if step.Before != nil && step.Before.Caller != d.Caller {
				m.PreviousCaller = step.Before.Caller
			}
		}
		out = append(out, m)
	}
	return out
}

func refOf(k write.Key) *podconfigv1.ManifestRef {
	return &podconfigv1.ManifestRef{Kind: k.Kind, Namespace: k.Namespace, Name: k.Name}
}

// podRef returns the document's pod as the stream has it; nil: it is none, or can't be used.
func podRef(d *write.Document) *podconfigv1.PodRef {
	p := d.Pod()
	if p == nil {
		return nil
	}
	return &podconfigv1.PodRef{Uid: string(p.UID), Namespace: p.Namespace, Name: p.Name}
}

// warnings returns the warnings about the documents of a request.
func warnings(drafts []write.Draft, limit int) []*podconfigv1.Finding {
	var found []merge.Finding
	for _, d := range drafts {
		for _, f := range d.Origin.Findings {
			if f.Severity == manifest.Warning {
				f.Document = d.Place.Document
				found = append(found, merge.Finding{Finding: f, Origin: d.File})
			}
		}
	}
	return findingMessages(found, limit)
}

// ListManifests is part of podconfig.v1.PodConfigService.
func (s *Server) ListManifests(ctx context.Context, req *podconfigv1.ListManifestsRequest) (*podconfigv1.ListManifestsResponse, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	w := &writing{server: s, caller: caller, rights: caller.Writes}
	if err := w.open(); err != nil {
		return nil, err
	}
	end, err := s.admission.take(ctx, caller)
	if err != nil {
		return nil, err
	}
	defer end()
	resp, err := w.list(req)
	return resp, writeStatus(err)
}

func (w *writing) list(req *podconfigv1.ListManifestsRequest) (*podconfigv1.ListManifestsResponse, error) {
	present, err := w.writer.Documents()
	if err != nil {
		return nil, err
	}
	refs, err := w.keys("refs", req.GetRefs())
	if err != nil {
		return nil, err
	}
	wanted := sets.New(refs...)
	resp, size := &podconfigv1.ListManifestsResponse{}, 0
	for _, key := range slices.SortedFunc(maps.Keys(present), write.Key.Compare) {
		d := present[key]
		switch {
		case !w.rights.Everything && d.Caller != w.caller.Identity,
			len(wanted) > 0 && !wanted.Has(key),
			req.GetSet() != "" && req.GetSet() != d.Set,
			req.GetPageToken() != "" && pageToken(key) <= req.GetPageToken():
			continue
		}
		m := &podconfigv1.AppliedManifest{
			Ref: refOf(key), Set: d.Set, Caller: d.Caller, AppliedTime: timestamppb.New(d.Applied), Digest: d.Digest, Content: d.Text, Pod: podRef(d),
		}
		if size += proto.Size(m); size > maxManifestsPage && len(resp.GetManifests()) > 0 {
			last := resp.GetManifests()[len(resp.GetManifests())-1].GetRef()
			resp.NextPageToken = pageToken(write.Key{Kind: last.GetKind(), Namespace: last.GetNamespace(), Name: last.GetName()})
			break
		}
		resp.Manifests = append(resp.Manifests, m)
	}
	return resp, nil
}

// pageToken is ordered as Key.Compare orders the keys: no name has a NUL.
func pageToken(k write.Key) string { return k.Kind + "\x00" + k.Namespace + "\x00" + k.Name }

// heldElsewhere replaces the error that a pod isn't applied by one that says where it is from, if the caller may see that.
func (w *writing) heldElsewhere(err error) error {
	missing := (*write.MissingError)(nil)
	if !errors.As(err, &missing) {
		return err
	}
	return w.placeOrElse(missing.Key, err)
}

// placeOrElse returns an error that says where the pod is from, if it is another source's and the caller may see it, and
// err otherwise.
func (w *writing) placeOrElse(key write.Key, err error) error {
	if key.Kind != write.PodKind {
		return err
	}
	st := w.server.history.State()
	p := podNamed(st, w.view, key.Namespace, key.Name+"-"+strings.ToLower(w.options.Node))
	if p == nil {
		p = podNamed(st, w.view, key.Namespace, key.Name)
	}
	if p == nil || p.Source == write.Source {
		return err
	}
	name := p.Object.Namespace + "/" + p.Object.Name
	switch kind, _, _ := strings.Cut(p.Source, ":"); kind {
	case "api":
		return failedPrecondition("pod %s is from the API server (source %s): use kubectl delete", name, p.Source)
	case "relay":
		return failedPrecondition("pod %s is from another podconfigd (source %s): remove it there", name, p.Source)
	}
	return failedPrecondition("pod %s is from %s; remove it there", name, placeOf(w.server.offerOf(p)))
}
