package podctl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/podctl/web/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// webManifest is the name of the page's manifest in messages.
const webManifest = "manifest"

// webApplier is what the page of podctl web applies and deletes with: the requests of podctl apply, with its default set, and of
// podctl delete. Its errors are explained.
type webApplier struct {
	tool *tool
	conn *connection
}

// Compare is part of service.Applier. What podconfigd finds wrong at a place of the manifest is a finding, and no error.
func (a webApplier) Compare(ctx context.Context, content []byte) (*service.Comparison, error) {
	planned, err := a.tool.applyDry(ctx, a.conn, webRequest(content))
	if err != nil {
		if findings := findingsOf(content, err); len(findings) > 0 {
			return &service.Comparison{Diff: &podconfigv1.DiffManifestsResponse{Findings: findings}}, nil
		}
		return nil, err
	}
	return &service.Comparison{
		Diff:      &podconfigv1.DiffManifestsResponse{Updates: planned.GetUpdates(), Findings: planned.GetFindings(), Revision: planned.GetRevision()},
		Documents: resultLines(planned.GetResults(), dryRunClient),
		Basis:     basisOf(planned.GetResults()),
	}, nil
}

// Apply is part of service.Applier. A document may also change between its dry run and its write: podconfigd compares it with the
// version that the dry run has found.
func (a webApplier) Apply(ctx context.Context, content []byte, basis string) (lines []string, published uint64, err error) {
	req := webRequest(content)
	planned, err := a.tool.applyDry(ctx, a.conn, req)
	if err != nil {
		return nil, 0, err
	}
	if basisOf(planned.GetResults()) != basis {
		return nil, 0, aborted("a document has changed since it was compared; nothing was written: compare again")
	}
	req.Expected = expectations(planned.GetResults())
	resp, err := a.tool.applyNow(ctx, a.conn, req)
	if err != nil {
		return nil, 0, err
	}
	return resultLines(resp.GetResults(), noDryRun), resp.GetRevision(), nil
}

// Delete is part of service.Applier. The page shows a pod and podconfigd deletes a document, so a dry run shows whether the document
// is the pod's, and in which version.
func (a webApplier) Delete(ctx context.Context, pod *podconfigv1.PodRef) (lines []string, published uint64, err error) {
	req := &podconfigv1.DeleteManifestsRequest{
		Refs: []*podconfigv1.ManifestRef{{Kind: "Pod", Namespace: pod.GetNamespace(), Name: pod.GetName()}}, DryRun: true,
	}
	planned, err := a.delete(ctx, req)
	if err != nil {
		return nil, 0, err
	}
	results := planned.GetResults()
	if len(results) != 1 || results[0].GetPod().GetUid() != pod.GetUid() {
		return nil, 0, aborted("the pod was replaced by another one of its name; nothing was deleted")
	}
	req = &podconfigv1.DeleteManifestsRequest{Refs: []*podconfigv1.ManifestRef{results[0].GetRef()}, Expected: expectations(results)}
	resp, err := a.delete(ctx, req)
	if err != nil {
		return nil, 0, err
	}
	return resultLines(resp.GetResults(), noDryRun), resp.GetRevision(), nil
}

func (a webApplier) delete(ctx context.Context, req *podconfigv1.DeleteManifestsRequest) (*podconfigv1.DeleteManifestsResponse, error) {
	ctx, cancel := a.tool.writeContext(ctx)
	defer cancel()
	resp, err := podconfigv1.NewPodConfigServiceClient(a.conn).DeleteManifests(ctx, req, grpc.MaxCallRecvMsgSize(maxDiff))
	return resp, a.conn.explainWrite(err)
}

func webRequest(content []byte) *podconfigv1.ApplyManifestsRequest {
	return &podconfigv1.ApplyManifestsRequest{Files: []*podconfigv1.ManifestFile{{Name: webManifest, Content: content}}}
}

// aborted returns the error of a write that podctl itself doesn't send.
func aborted(text string) error {
	return &callError{text: text, err: status.Error(codes.Aborted, text)}
}

// basisOf returns a digest of the versions that a dry run has found.
func basisOf(results []*podconfigv1.ManifestResult) string {
	hash := sha256.New()
	for _, r := range results {
		ref := r.GetRef()
		_, _ = fmt.Fprintf(hash, "%q %q %q %q\n", ref.GetKind(), ref.GetNamespace(), ref.GetName(), r.GetPreviousDigest()) // It never fails.
	}
	return hex.EncodeToString(hash.Sum(nil))
}

func resultLines(results []*podconfigv1.ManifestResult, dry dryRun) []string {
	out := make([]string, len(results))
	for i, r := range results {
		out[i] = resultLine(r, dry)
	}
	return out
}

var (
	// atPlace matches a problem of a refused write: its line in the page's manifest, and the text.
	atPlace = regexp.MustCompile(`(?s)^` + webManifest + `:([0-9]{1,7}): (.*)$`)
	// aboutField matches the field at the begin of that text.
	aboutField = regexp.MustCompile(`(?s)^([A-Za-z]+(?:\.[A-Za-z0-9_-]+|\[[^\]]*\])*): (.*)$`)
)

// maxProblems bounds the problems that are read of an error. podconfigd reports fewer.
const maxProblems = 1000

// findingsOf returns the problems of a refused write. None: the error isn't about places in the manifest.
func findingsOf(content []byte, err error) []*podconfigv1.Finding {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.AlreadyExists, codes.PermissionDenied:
	default:
		return nil
	}
	// Places name the line at which the document begins, and findings the document.
	numbers := map[int]int32{}
	for text := range manifest.Documents(content) {
		numbers[text.Line] = int32(len(numbers) + 1) //nolint:gosec // A manifest of 3 MiB has fewer documents.
	}
	var out []*podconfigv1.Finding
	for text := range strings.SplitSeq(err.Error(), "\n") {
		f := &podconfigv1.Finding{Severity: podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR, Origin: webManifest, Message: text}
		if found := atPlace.FindStringSubmatch(text); found != nil {
			line, _ := strconv.Atoi(found[1]) // It has at most 7 digits.
			f.Document, f.Message = numbers[line], found[2]
		} else if len(out) == 0 {
			return nil
		}
		if found := aboutField.FindStringSubmatch(f.GetMessage()); found != nil && f.GetDocument() > 0 {
			f.Field, f.Message = found[1], found[2]
		}
		if out = append(out, f); len(out) == maxProblems {
			break
		}
	}
	return out
}
