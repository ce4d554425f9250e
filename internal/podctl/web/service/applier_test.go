package service_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/service"
	"github.com/podstream/podstream/internal/podctl/web/upstream"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// fakeApplier compares with the basis "basis".
type fakeApplier struct{}

func (fakeApplier) Compare(_ context.Context, content []byte) (*service.Comparison, error) {
	if string(content) == "refused" {
		return nil, status.Error(codes.PermissionDenied, "you are no deployer"+podctltest.Hostile)
	}
	documents := slices.Repeat([]string{"pod/web created" + podctltest.Hostile}, 300)
	return &service.Comparison{Diff: &podconfigv1.DiffManifestsResponse{Revision: 7}, Documents: documents, Basis: "basis"}, nil
}

func (fakeApplier) Apply(_ context.Context, content []byte, basis string) ([]string, uint64, error) {
	if string(content) == "stale" || basis != "basis" {
		return nil, 0, status.Error(codes.Aborted, "the pod has changed")
	}
	return nil, 8, nil
}

func (fakeApplier) Delete(_ context.Context, pod *podconfigv1.PodRef) ([]string, uint64, error) {
	return []string{"deleted " + pod.GetName()}, 8, nil
}

// TestManifestRefusal: the page is told why nothing can be applied; what can't be applied isn't, whatever the page asks for.
func TestManifestRefusal(t *testing.T) {
	apply := &podwebv1.Action{Action: &podwebv1.Action_Apply{Apply: &podwebv1.ApplyAction{Content: []byte("new"), Basis: "basis"}}}
	restart := func(context.Context, *podconfigv1.PodRef, string) ([]string, error) { return nil, nil }
	for name, tc := range map[string]struct {
		allow   bool
		actions service.Actions
		sources []string
		want    string
	}{
		"read-only":       {false, service.Actions{Applier: fakeApplier{}}, []string{"file", "applied"}, "--allow-apply"},
		"no applier":      {true, service.Actions{Restart: restart}, []string{"applied"}, "has no such action"},
		"no such source":  {true, service.Actions{Applier: fakeApplier{}}, []string{"file"}, "start it with --applied"},
		"nothing missing": {true, service.Actions{Applier: fakeApplier{}}, []string{"file", "applied"}, ""},
	} {
		f := start(t, func(cfg *service.Config, _ *upstream.Config) {
			cfg.AllowApply, cfg.Actions, cfg.Podconfigd = tc.allow, tc.actions, webtest.NewPodconfigd(t, 0, tc.sources...).Daemon()
			cfg.Changes = func(context.Context, *podconfigv1.DiffManifestsResponse) ([]*podwebv1.PodDiff, error) {
				return nil, nil
			}
		})
		var rows []*podconfigv1.Source
		for _, source := range tc.sources {
			rows = append(rows, &podconfigv1.Source{Name: source})
		}
		f.board.ApplySources(t.Context(), rows)
		session, err := f.client.GetSession(t.Context(), &podwebv1.GetSessionRequest{})
		refusal := session.GetSession().GetManifestRefusal()
		if err != nil || (refusal == "") != (tc.want == "") || !strings.Contains(refusal, tc.want) {
			t.Errorf("%s: the refusal is %q, %v; want %q", name, refusal, err, tc.want)
		}
		if offered := slices.Contains(session.GetSession().GetFileSources(), "applied"); offered != (tc.want == "") {
			t.Errorf("%s: the source applied is offered: %v", name, offered)
		}
		compared, err := f.client.DiffManifest(t.Context(), &podwebv1.DiffManifestRequest{Content: []byte("new"), Source: "applied"})
		_, prepareErr := f.client.Prepare(t.Context(), &podwebv1.PrepareRequest{Action: apply})
		if tc.want != "" {
			wantCode(t, name, err, connect.CodeFailedPrecondition)
			wantCode(t, name, prepareErr, connect.CodePermissionDenied)
			continue
		}
		if err != nil || prepareErr != nil || compared.GetBasis() != "basis" || compared.GetRevision() != 7 {
			t.Errorf("%s: %v, %v, %v", name, compared, err, prepareErr)
		}
		wantHarmless(t, "the documents", compared)
		if lines := compared.GetDocuments(); len(lines) != 201 || lines[200] != "and 100 more" {
			t.Errorf("the documents are %q", lines)
		}
		_, err = f.client.DiffManifest(t.Context(), &podwebv1.DiffManifestRequest{Content: []byte("refused"), Source: "applied"})
		wantCode(t, "a refused comparison", err, connect.CodePermissionDenied)
		podctltest.CheckHarmless(t, "the refusal", err.Error())
	}
}
