package service

import (
	"context"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The bounds of a diff, in bytes: together they fit the limit of a stock gRPC client.
const (
	// maxDiff bounds the pods.
	maxDiff = 3 << 20
	// maxDiffFindings bounds the findings.
	maxDiffFindings = 1 << 19
	// maxDiffInputs is how many manifests one request may have.
	maxDiffInputs = 10_000
)

// DiffManifests is part of podconfig.v1.PodConfigService.
func (s *Server) DiffManifests(ctx context.Context, req *podconfigv1.DiffManifestsRequest) (*podconfigv1.DiffManifestsResponse, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	if caller.Role < access.Consumer {
		return nil, permissionDenied("role %s may not diff manifests", caller.Role)
	}
	if s.cfg.Preview == nil || s.cfg.Parse == nil {
		return nil, unimplemented("this server doesn't read manifests")
	}
	if err := checkFormat(req.GetFormat()); err != nil {
		return nil, err
	}
	v, err := viewOf(caller, podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL, nil)
	if err != nil {
		return nil, err
	}
	if n := len(req.GetManifests()); n > maxDiffInputs {
		return nil, invalidArgument("manifests: has %d entries; the maximum is %d", n, maxDiffInputs)
	}
	end, err := s.diffs.begin(ctx, caller, &s.admission)
	if err != nil {
		return nil, err
	}
	defer end()
	origins, gone, err := s.inputs(req)
	if err != nil {
		return nil, err
	}
	source := req.GetSource()
	if source == "" {
		source = "file"
	}
	// A source out of the caller's scope doesn't exist for it. Only file sources read manifests.
	if kind, _, _ := strings.Cut(source, ":"); kind != "file" || !v.Sees(source) {
		return nil, notFound("source %s: there is no such source of manifest files", source)
	}
	preview, err := s.cfg.Preview(source, origins, gone)
	if err != nil {
		return nil, statusOf(err)
	}
	resp := &podconfigv1.DiffManifestsResponse{
		Revision: preview.Number, Findings: findingMessages(findingsFor(v, false, source, preview.Findings), maxDiffFindings),
	}
	ready := func(of string) bool {
		if of == source {
			return preview.SourceReady
		}
		return s.history.State().ReadyAt(of, preview.Number)
	}
	changes := v.Changes(&revision.Revision{Source: source, Changes: preview.Changes}, nil)
	resp.Updates, err = updateMessages(changes, ready, revision.EncodingFor(audienceOf(caller), req.GetFormat()))
	return resp, err
}

// inputs returns the manifests, parsed, and the origins to remove.
func (s *Server) inputs(req *podconfigv1.DiffManifestsRequest) (origins []*manifest.Origin, gone []string, err error) {
	seen := map[string]bool{}
	for i, in := range req.GetManifests() {
		switch {
		case !filepath.IsAbs(in.GetOrigin()):
			return nil, nil, invalidArgument("manifests[%d].origin: %q isn't an absolute path", i, in.GetOrigin())
		case seen[in.GetOrigin()]:
			return nil, nil, invalidArgument("manifests[%d].origin: %q is named twice", i, in.GetOrigin())
		case in.GetRemove() && len(in.GetContent()) > 0:
			return nil, nil, invalidArgument("manifests[%d].content: must be empty for an origin that is removed", i)
		}
		seen[in.GetOrigin()] = true
		if in.GetRemove() {
			gone = append(gone, in.GetOrigin())
		} else {
			origins = append(origins, s.cfg.Parse(in.GetOrigin(), in.GetContent()))
		}
	}
	return origins, gone, nil
}

func updateMessages(changes []revision.Change, ready func(source string) bool, e revision.Encoding) ([]*podconfigv1.PodUpdate, error) {
	var out []*podconfigv1.PodUpdate
	size := 0
	for _, c := range changes {
		update := &podconfigv1.PodUpdate{Op: podconfigv1.PodOperation(c.Op), Source: c.Source, SourceReady: ready(c.Source)}
		for _, p := range c.Pods {
			encoding := e
			if c.Op == revision.REMOVE {
				encoding = revision.EncodingFor(e.Audience(), podconfigv1.PodFormat_POD_FORMAT_REFERENCE)
			}
			m, err := p.Message(encoding)
			if err != nil {
				return nil, statusOf(err)
			}
			if size += proto.Size(m); size > maxDiff {
				return nil, resourceExhausted("the ops exceed the size of one message; try fewer manifests at a time, or the format REFERENCE")
			}
			update.Pods = append(update.Pods, m)
		}
		out = append(out, update)
	}
	return out, nil
}
