package service_test

import (
	"context"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/web/board"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/service"
	"github.com/podstream/podstream/internal/podctl/web/upstream"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestGetPod: all about a pod, from both daemons; a half whose daemon doesn't answer is as last known, and that is said.
func TestGetPod(t *testing.T) {
	p, e := webtest.NewPodconfigd(t, 0, "file"), webtest.NewPodexecd(t)
	f := start(t, func(cfg *service.Config, _ *upstream.Config) { cfg.Podconfigd, cfg.Podexecd = p.Daemon(), e.Daemon() })
	uid := podctltest.UID("web")
	key := board.Key("pod", uid)
	p.Set("file", "a: web(uid="+uid+",image=nginx:1)")
	get := func() (*podwebv1.GetPodResponse, error) {
		return f.client.GetPod(t.Context(), &podwebv1.GetPodRequest{Key: key})
	}
	var r *podwebv1.GetPodResponse
	webtest.Await(t, "the pod", nil, func() bool {
		var err error
		r, err = get()
		return err == nil
	})
	if !strings.Contains(r.GetDesiredYaml(), "image: nginx:1") || r.GetObservedYaml() != "" || len(r.GetWaitReasons()) == 0 || r.GetMissing() != "" {
		t.Errorf("a desired pod is %v", r)
	}
	e.Down()
	webtest.Await(t, "podexecd's half to be missing", nil, func() bool {
		var err error
		r, err = get()
		return err == nil && strings.Contains(r.GetMissing(), "what is observed is as last known")
	})
	p.Down()
	webtest.Await(t, "both halves to be missing", nil, func() bool {
		var err error
		r, err = get()
		return err == nil && strings.Contains(r.GetMissing(), "what is desired is as last known")
	})
	if !strings.Contains(r.GetDesiredYaml(), "image: nginx:1") {
		t.Errorf("while both are away, the desired pod is %v", r)
	}
	_, err := f.client.GetPod(t.Context(), &podwebv1.GetPodRequest{Key: "none"})
	wantCode(t, "no pod", err, connect.CodeNotFound)
}

// TestDiffManifest: a manifest is compared as a file of the source, and its mistakes are marked in it.
func TestDiffManifest(t *testing.T) {
	p := webtest.NewPodconfigd(t, 0, "file", "api")
	var asked *podconfigv1.DiffManifestsRequest
	p.Diff = func(req *podconfigv1.DiffManifestsRequest) (*podconfigv1.DiffManifestsResponse, error) {
		asked = req
		return &podconfigv1.DiffManifestsResponse{Revision: 7, Findings: []*podconfigv1.Finding{{
			Severity: podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR, Origin: "o", Document: 1, Field: "spec.x", Message: "unknown field",
		}}}, nil
	}
	f := start(t, func(cfg *service.Config, _ *upstream.Config) {
		cfg.Podconfigd = p.Daemon()
		cfg.Changes = func(context.Context, *podconfigv1.DiffManifestsResponse) ([]*podwebv1.PodDiff, error) {
			return []*podwebv1.PodDiff{{
				Name: &podwebv1.PodName{Name: podctltest.Hostile}, Effect: "restarts", Reason: podctltest.Hostile, Unified: "-a" + podctltest.Hostile + strings.Repeat("\n+b", 100_000),
			}}, nil
		}
	})
	r, err := f.client.DiffManifest(t.Context(), &podwebv1.DiffManifestRequest{Content: []byte("kind: Pod\nspec:\n  x: 1\n"), FileName: "web.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	finding := r.GetFindings()[0]
	if r.GetRevision() != 7 || !r.GetRejected() || finding.GetLine() != 3 || len(finding.GetLines()) != 3 || !finding.GetLines()[2].GetMarked() || finding.GetLines()[2].GetMarkFrom() != 2 {
		t.Errorf("the answer is %v", r)
	}
	if change := r.GetChanges()[0]; len(change.GetUnified()) > 65<<10 || !strings.HasSuffix(change.GetUnified(), "see podctl diff\n") {
		t.Errorf("the change has %d bytes", len(change.GetUnified()))
	}
	wantHarmless(t, "the diff", r)
	if asked.GetSource() != "file" || !strings.HasSuffix(asked.GetManifests()[0].GetOrigin(), "web.yaml") {
		t.Errorf("podconfigd was asked %v", asked)
	}
	for _, name := range []string{"../x", "a/b", "..", ".", "x\x00", strings.Repeat("x", 254)} {
		_, err := f.client.DiffManifest(t.Context(), &podwebv1.DiffManifestRequest{FileName: name})
		wantCode(t, "the name "+name, err, connect.CodeInvalidArgument)
	}
	_, err = f.client.DiffManifest(t.Context(), &podwebv1.DiffManifestRequest{Content: make([]byte, 3<<20+1)})
	wantCode(t, "a large manifest", err, connect.CodeResourceExhausted)
	_, err = f.client.DiffManifest(t.Context(), &podwebv1.DiffManifestRequest{Source: "api"})
	wantCode(t, "a source of another kind", err, connect.CodeFailedPrecondition)
	p.Diff = func(*podconfigv1.DiffManifestsRequest) (*podconfigv1.DiffManifestsResponse, error) {
		return nil, status.Error(codes.PermissionDenied, "you are an inspector")
	}
	_, err = f.client.DiffManifest(t.Context(), &podwebv1.DiffManifestRequest{})
	wantCode(t, "an inspector", err, connect.CodePermissionDenied)

	recorded := start(t, func(cfg *service.Config, _ *upstream.Config) { cfg.Recording = "r" })
	_, err = recorded.client.DiffManifest(t.Context(), &podwebv1.DiffManifestRequest{})
	wantCode(t, "a recording", err, connect.CodeFailedPrecondition)
}
