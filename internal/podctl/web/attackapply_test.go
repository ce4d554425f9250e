package web_test

import (
	"context"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/web"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/service"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
)

// applier applies whatever it gets.
type applier struct{ service.Applier }

func (applier) Apply(_ context.Context, content []byte, _ string) (lines []string, published uint64, err error) {
	return []string{"applied " + string(content)}, 8, nil
}

func readOnlyApplier(t *testing.T, cfg *web.Config) {
	p := webtest.NewPodconfigd(t, 0, "file", service.AppliedSource)
	for _, source := range []string{"file", service.AppliedSource} {
		p.Set(source, source+": "+source+"(uid="+podctltest.UID(source)+",image=i)")
	}
	cfg.Podconfigd = p.Daemon()
	cfg.Actions.Applier = applier{}
}

func allowApply(t *testing.T, cfg *web.Config) {
	readOnlyApplier(t, cfg)
	cfg.AllowApply = true
}

// apply applies a manifest a number of times, after the user has confirmed one; empty: none. It succeeds if each time the manifest
// is applied.
func apply(times int, confirmed, content string) func(*testing.T, *target) (string, bool) {
	return func(t *testing.T, x *target) (string, bool) {
		t.Helper()
		_, client := x.open()
		webtest.Await(t, "the source applied", nil, func() bool {
			r, err := client.GetSession(t.Context(), &podwebv1.GetSessionRequest{})
			return err == nil && !strings.Contains(r.GetSession().GetManifestRefusal(), "has no source")
		})
		action := func(content string) *podwebv1.Action {
			return &podwebv1.Action{Action: &podwebv1.Action_Apply{Apply: &podwebv1.ApplyAction{Content: []byte(content), Basis: "basis"}}}
		}
		confirmation := ""
		if confirmed != "" {
			r, err := client.Prepare(t.Context(), &podwebv1.PrepareRequest{Action: action(confirmed)})
			if err != nil {
				return err.Error(), false
			}
			confirmation = r.GetConfirmation()
		}
		for range times {
			r, err := client.Act(t.Context(), &podwebv1.ActRequest{Action: action(content), Confirmation: confirmation})
			if err != nil {
				return err.Error(), false
			}
			if got := strings.Join(r.GetLines(), " "); got != "applied "+content {
				return got, false
			}
		}
		return "applied", true
	}
}
