package service

import (
	"context"
	"path"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/podctl/web/board"
	"github.com/podstream/podstream/internal/podctl/web/manifestplace"
	"github.com/podstream/podstream/internal/podctl/web/plaintext"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The bounds of a diff.
const (
	// maxManifest is podconfigd's bound for the manifests of one request.
	maxManifest = 3 << 20
	// maxDiff is the maximum size of its answer.
	maxDiff = 32 << 20
	// maxChanges, maxUnified and maxUnifiedLines bound the answer to the page, and maxUnifieds all texts of it.
	maxChanges                   = 500
	maxUnified, maxUnifiedLines  = 64 << 10, 2000
	maxUnifieds                  = 2 << 20
	maxDiffFindings, maxFileName = 200, 253
)

// DiffManifest is part of podweb.v1.
func (s *Service) DiffManifest(ctx context.Context, req *podwebv1.DiffManifestRequest) (*podwebv1.DiffManifestResponse, error) {
	s.cfg.Idle.Touch()
	d := s.cfg.Podconfigd
	if d == nil {
		return nil, refuse(connect.CodeFailedPrecondition, "a recording can't be compared with: start podctl web without --recording")
	}
	if len(req.GetContent()) > maxManifest {
		return nil, refuse(connect.CodeResourceExhausted, "the manifest is larger than 3 MiB")
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	compared, origin, err := s.compare(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := compared.Diff
	changes, err := s.cfg.Changes(ctx, resp)
	if err != nil {
		return nil, failed(nil, err) // It is explained already.
	}
	out := &podwebv1.DiffManifestResponse{
		Revision: resp.GetRevision(), Origin: plaintext.Line(origin, plaintext.Message), Changes: bounded(changes),
		Documents: boundedLines(compared.Documents), Basis: compared.Basis,
	}
	m := manifestplace.New(req.GetContent())
	for i, f := range resp.GetFindings() {
		out.Rejected = out.GetRejected() || f.GetSeverity() == podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR
		if i < maxDiffFindings {
			out.Findings = append(out.Findings, board.Finding(f, m))
		}
	}
	return out, nil
}

// compare has podconfigd compare the manifest.
func (s *Service) compare(ctx context.Context, req *podwebv1.DiffManifestRequest) (compared *Comparison, origin string, err error) {
	d := s.cfg.Podconfigd
	if req.GetSource() == AppliedSource {
		if refusal := s.manifestRefusal(); refusal != "" {
			return nil, "", refuse(connect.CodeFailedPrecondition, refusal)
		}
		compared, err = s.cfg.Actions.Applier.Compare(ctx, req.GetContent())
		return compared, "a document of the source " + AppliedSource, failed(nil, err)
	}
	source, origin, err := s.origin(ctx, req)
	if err != nil {
		return nil, "", err
	}
	resp, err := podconfigv1.NewPodConfigServiceClient(d.Conn).DiffManifests(ctx, &podconfigv1.DiffManifestsRequest{
		Source: source, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF,
		Manifests: []*podconfigv1.ManifestInput{{Origin: origin, Content: req.GetContent()}},
	}, grpc.MaxCallRecvMsgSize(maxDiff))
	return &Comparison{Diff: resp}, origin, failed(d, err)
}

// bounded makes the texts of the changes short and harmless.
func bounded(changes []*podwebv1.PodDiff) []*podwebv1.PodDiff {
	changes = changes[:min(len(changes), maxChanges)]
	total := 0
	for _, c := range changes {
		c.Name = &podwebv1.PodName{
			Namespace: plaintext.Line(c.GetName().GetNamespace(), plaintext.Name), Name: plaintext.Line(c.GetName().GetName(), plaintext.Name),
			Uid: plaintext.Line(c.GetName().GetUid(), plaintext.Name),
		}
		c.Reason = plaintext.Line(c.GetReason(), plaintext.Message)
		text, cut := plaintext.Lines(c.GetUnified(), min(maxUnified, maxUnifieds-total), maxUnifiedLines)
		if cut {
			text += "\n… it is longer: see podctl diff\n"
		}
		c.Unified = text
		total = min(total+len(text), maxUnifieds)
	}
	return changes
}

// fileSources returns the sources that a manifest can be compared with, as podconfigd last listed them.
func (s *Service) fileSources() []string {
	var out []string
	for _, row := range sortedSources(s.cfg.Board) {
		if kind, _, _ := strings.Cut(row.GetName(), ":"); kind == "file" {
			out = append(out, row.GetName())
		}
	}
	if s.manifestRefusal() == "" {
		out = append(out, AppliedSource)
	}
	return out
}

// origin returns the source and the path that the manifest would have in it.
func (s *Service) origin(ctx context.Context, req *podwebv1.DiffManifestRequest) (source, origin string, err error) {
	name := req.GetFileName()
	switch {
	case name == "":
		name = "manifest.yaml"
	case len(name) > maxFileName || strings.ContainsAny(name, "/\x00") || name == "." || name == "..":
		return "", "", refuse(connect.CodeInvalidArgument, "the file's name isn't one element of a path")
	}
	resp, err := podconfigv1.NewPodConfigServiceClient(s.cfg.Podconfigd.Conn).ListSources(ctx, &podconfigv1.ListSourcesRequest{})
	if err != nil {
		return "", "", failed(s.cfg.Podconfigd, err)
	}
	for _, one := range resp.GetSources() {
		kind, _, _ := strings.Cut(one.GetName(), ":")
		if kind != "file" || req.GetSource() != "" && req.GetSource() != one.GetName() {
			continue
		}
		location := one.GetLocation()
		switch path.Ext(location) {
		case ".yaml", ".yml", ".json": // One file.
			return one.GetName(), location, nil
		}
		return one.GetName(), path.Join(location, name), nil
	}
	return "", "", refuse(connect.CodeFailedPrecondition, "podconfigd has no such source of files: give it --pod-manifest-path")
}
