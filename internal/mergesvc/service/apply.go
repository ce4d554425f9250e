package service

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podstream/podstream/internal/write"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The bounds of a write. podconfig.v1 documents them.
const (
	maxWriteBytes = 3 << 20
	maxWriteItems = 10_000
	// maxDeployerDocuments is how many documents a deployer may have: by bytes alone, one could have all of the source.
	maxDeployerDocuments = 1000
	maxFileName          = 1024
	defaultSet           = "default"
	maxWriterName        = 512
	maxManifestsPage     = 1 << 20
)

// Writer is the source that takes writes. sources/applied is one.
type Writer interface {
	// Write carries out a change, and returns once it is published. Its errors are those of package write, and of
	// Request.Check.
	Write(ctx context.Context, r *write.Request) (write.Plan, error)
	// Documents returns the present documents. The map isn't changed.
	Documents() (map[write.Key]*write.Document, error)
}

// Writing configures the writes of a Server.
type Writing struct {
	// Writer returns the source that takes writes, or nil if none is configured.
	Writer func() Writer
	// Options returns how documents are read. OwnMetadata is set for each write.
	Options func() write.Options
	// Gateway reports whether this podconfigd serves the pods of other nodes, so that it takes no writes.
	Gateway func() bool
}

// ApplyManifests is part of podconfig.v1.PodConfigService.
func (s *Server) ApplyManifests(ctx context.Context, req *podconfigv1.ApplyManifestsRequest) (*podconfigv1.ApplyManifestsResponse, error) {
	w, err := s.beginWrite(ctx, "apply", req.GetDryRun())
	if err != nil {
		return nil, err
	}
	w.set = cmp.Or(req.GetSet(), defaultSet)
	resp, err := w.apply(ctx, req)
	return resp, w.end(err)
}

func (w *writing) apply(ctx context.Context, req *podconfigv1.ApplyManifestsRequest) (*podconfigv1.ApplyManifestsResponse, error) {
	if problems := validation.IsDNS1123Label(w.set); len(problems) > 0 {
		return nil, invalidArgument("set: %q isn't the name of a set: %s", shortened(w.set), problems[0])
	}
	if err := checkFormat(req.GetFormat()); err != nil {
		return nil, err
	}
	files, size, err := filesOf(req.GetFiles())
	if err != nil {
		return nil, err
	}
	if len(files) == 0 && !req.GetPrune() {
		return nil, invalidArgument("files: there is none")
	}
	if err := w.take(size); err != nil {
		return nil, err
	}
	defer w.give()
	r := &write.Request{DryRun: req.GetDryRun(), Change: write.Change{Set: w.set, Prune: req.GetPrune(), AllowEmpty: req.GetAllowEmpty()}}
	if r.Expected, err = w.expected(req.GetExpected()); err != nil {
		return nil, err
	}
	if r.Drafts, err = w.read(ctx, files); err != nil {
		return nil, err
	}
	if err := w.permitNamespaces(r.Drafts); err != nil {
		return nil, err
	}
	plan, err := w.run(ctx, r)
	if err != nil {
		return nil, err
	}
	resp := &podconfigv1.ApplyManifestsResponse{
		Results: results(plan), InstanceId: w.instance, Revision: w.revision, Findings: warnings(r.Drafts, maxDiffFindings),
	}
	resp.Updates, err = w.updates(req.GetFormat())
	return resp, err
}

// DeleteManifests is part of podconfig.v1.PodConfigService.
func (s *Server) DeleteManifests(ctx context.Context, req *podconfigv1.DeleteManifestsRequest) (*podconfigv1.DeleteManifestsResponse, error) {
	w, err := s.beginWrite(ctx, "delete", req.GetDryRun(), req.GetRefs()...)
	if err != nil {
		return nil, err
	}
	resp, err := w.delete(ctx, req)
	return resp, w.end(err)
}

func (w *writing) delete(ctx context.Context, req *podconfigv1.DeleteManifestsRequest) (*podconfigv1.DeleteManifestsResponse, error) {
	if err := checkFormat(req.GetFormat()); err != nil {
		return nil, err
	}
	if len(req.GetRefs()) == 0 {
		return nil, invalidArgument("refs: there is none")
	}
	if err := w.take(0); err != nil {
		return nil, err
	}
	defer w.give()
	r := &write.Request{DryRun: req.GetDryRun(), Change: write.Change{IgnoreMissing: req.GetIgnoreMissing()}}
	var err error
	if r.Delete, err = w.keys("refs", req.GetRefs()); err != nil {
		return nil, err
	}
	if r.Expected, err = w.expected(req.GetExpected()); err != nil {
		return nil, err
	}
	w.named = r.Delete
	plan, err := w.run(ctx, r)
	if err != nil {
		return nil, w.heldElsewhere(err)
	}
	resp := &podconfigv1.DeleteManifestsResponse{Results: results(plan), InstanceId: w.instance, Revision: w.revision}
	resp.Updates, err = w.updates(req.GetFormat())
	return resp, err
}

// filesOf returns the files of a request, and their size.
func filesOf(in []*podconfigv1.ManifestFile) (files []write.File, size int, err error) {
	if len(in) > maxWriteItems {
		return nil, 0, invalidArgument("files: has %d entries; the maximum is %d", len(in), maxWriteItems)
	}
	for i, f := range in {
		if n := len(f.GetName()); n > maxFileName {
			return nil, 0, invalidArgument("files[%d].name: has %d bytes; the maximum is %d", i, n, maxFileName)
		}
		if size += len(f.GetContent()); size > maxWriteBytes {
			return nil, 0, invalidArgument("files: have more than %d bytes", maxWriteBytes)
		}
		files = append(files, write.File{Name: f.GetName(), Content: f.GetContent()})
	}
	return files, size, nil
}

// keys returns the keys that a request names. A pod's name may have the node's name at its end.
func (w *writing) keys(field string, refs []*podconfigv1.ManifestRef) ([]write.Key, error) {
	if len(refs) > maxWriteItems {
		return nil, invalidArgument("%s: has %d entries; the maximum is %d", field, len(refs), maxWriteItems)
	}
	present, err := w.writer.Documents()
	if err != nil {
		return nil, err
	}
	var out []write.Key
	seen := map[write.Key]bool{}
	for i, ref := range refs {
		key := write.KeyOf(ref.GetKind(), ref.GetNamespace(), ref.GetName())
		if !write.IsKind(key.Kind) {
			return nil, invalidArgument("%s[%d].kind: %q; want Pod, ConfigMap, Secret or PersistentVolumeClaim", field, i, shortened(key.Kind))
		}
		if len(validation.IsDNS1123Subdomain(key.Name)) > 0 || len(validation.IsDNS1123Label(key.Namespace)) > 0 {
			return nil, invalidArgument("%s[%d]: %q isn't the name of a document", field, i, shortened(key.String()))
		}
		// Only the caller's own documents count: the answer must not depend on those of others.
		if short := (write.Key{Kind: key.Kind, Namespace: key.Namespace, Name: write.WrittenName(key.Name, w.options.Node)}); key.Kind == write.PodKind &&
			!w.owns(present[key]) && w.owns(present[short]) {
			key = short
		}
		if seen[key] {
			return nil, invalidArgument("%s[%d]: %s is named twice", field, i, key)
		}
		seen[key] = true
		out = append(out, key)
	}
	return out, nil
}

func (w *writing) expected(in []*podconfigv1.ManifestExpectation) (map[write.Key]string, error) {
	var refs []*podconfigv1.ManifestRef
	for _, e := range in {
		refs = append(refs, e.GetRef())
	}
	keys, err := w.keys("expected", refs)
	if err != nil {
		return nil, err
	}
	out := map[write.Key]string{}
	for i, key := range keys {
		out[key] = in[i].GetDigest()
	}
	return out, nil
}

// shortened cuts a text of a request for a message.
func shortened(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	return asText(text[:most]) + "…"
}
