package service_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

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

func restartOf(name, container string) *podwebv1.Action {
	return &podwebv1.Action{Action: &podwebv1.Action_Restart{Restart: &podwebv1.RestartAction{PodKey: board.Key("pod", podctltest.UID(name)), Container: container}}}
}

// TestActions: an action is done once, with a confirmation of exactly this one, and only if it is allowed and available.
func TestActions(t *testing.T) {
	var done []string
	f := start(t, func(cfg *service.Config, _ *upstream.Config) {
		cfg.AllowApply = true
		cfg.Actions = service.Actions{
			Restart: func(_ context.Context, pod *podconfigv1.PodRef, container string) ([]string, error) {
				done = append(done, pod.GetUid()+" "+container)
				return []string{"restarted" + podctltest.Hostile}, nil
			},
			Applier: fakeApplier{},
		}
	})
	f.observe("a", "b")
	f.board.ApplySources(t.Context(), []*podconfigv1.Source{{Name: "file"}, {Name: "applied"}})
	f.publish(1, opAdd, podctltest.Desired(t, "applied", podctltest.Pod("default", "b")))
	prepare := func(action *podwebv1.Action) (string, error) {
		r, err := f.client.Prepare(t.Context(), &podwebv1.PrepareRequest{Action: action})
		return r.GetConfirmation(), err
	}
	act := func(action *podwebv1.Action, confirmation string) (*podwebv1.ActResponse, error) {
		return f.client.Act(t.Context(), &podwebv1.ActRequest{Action: action, Confirmation: confirmation})
	}
	confirmation, err := prepare(restartOf("a", "web"))
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []*podwebv1.Action{restartOf("b", "web"), restartOf("a", "other"), restartOf("a", "")} {
		// A confirmation that was tried for another action is used up, so each one gets its own.
		c, err := prepare(restartOf("a", "web"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = act(other, c)
		wantCode(t, "another action", err, connect.CodeFailedPrecondition)
		_, err = act(restartOf("a", "web"), c)
		wantCode(t, "a confirmation that was tried", err, connect.CodeFailedPrecondition)
	}
	_, err = act(restartOf("a", "web"), "")
	wantCode(t, "no confirmation", err, connect.CodeFailedPrecondition)
	r, err := act(restartOf("a", "web"), confirmation)
	if err != nil || len(done) != 1 || done[0] != podctltest.UID("a")+" web" {
		t.Errorf("the action is done: %v, %v, %v", done, r, err)
	}
	wantHarmless(t, "the result", r)
	_, err = act(restartOf("a", "web"), confirmation)
	wantCode(t, "a confirmation again", err, connect.CodeFailedPrecondition)

	apply := func(content string) *podwebv1.Action {
		return &podwebv1.Action{Action: &podwebv1.Action_Apply{Apply: &podwebv1.ApplyAction{Content: []byte(content), Revision: 7, Basis: "basis"}}}
	}
	for content, want := range map[string]connect.Code{"new": 0, "stale": connect.CodeAborted} {
		c, err := prepare(apply(content))
		if err != nil {
			t.Fatal(err)
		}
		r, err := act(apply(content), c)
		if want != 0 {
			wantCode(t, content, err, want)
		} else if err != nil || r.GetRevision() != 8 {
			t.Errorf("%s: %v, %v", content, r, err)
		}
	}
	_, err = prepare(apply(strings.Repeat("x", 3<<20+1)))
	wantCode(t, "a large manifest", err, connect.CodeResourceExhausted)
	remove := &podwebv1.Action{Action: &podwebv1.Action_Delete{Delete: &podwebv1.DeleteAction{PodKey: board.Key("pod", podctltest.UID("b"))}}}
	c, err := prepare(remove)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := act(remove, c); err != nil || len(r.GetLines()) != 1 || r.GetLines()[0] != "deleted b" {
		t.Errorf("a pod is deleted: %v, %v", r, err)
	}
	_, err = prepare(restartOf("none", ""))
	wantCode(t, "no pod", err, connect.CodeNotFound)
	_, err = prepare(nil)
	wantCode(t, "no action", err, connect.CodeInvalidArgument)
	exec := func(command ...string) *podwebv1.Action {
		return &podwebv1.Action{Action: &podwebv1.Action_Exec{Exec: &podwebv1.ExecAction{Command: command}}}
	}
	_, err = prepare(exec("date"))
	wantCode(t, "exec", err, connect.CodePermissionDenied)
	_, err = prepare(exec())
	wantCode(t, "no command", err, connect.CodeInvalidArgument)
	_, err = prepare(exec(strings.Repeat("x", 5<<10)))
	wantCode(t, "a long command", err, connect.CodeInvalidArgument)

	readOnly := start(t, nil)
	_, err = readOnly.client.Prepare(t.Context(), &podwebv1.PrepareRequest{Action: restartOf("a", "")})
	wantCode(t, "without --allow-apply", err, connect.CodePermissionDenied)
	session, err := readOnly.client.GetSession(t.Context(), &podwebv1.GetSessionRequest{})
	if s := session.GetSession(); err != nil || s.GetExecAllowed() || s.GetApplyAllowed() || s.GetExecRefusal() == "" || s.GetApplyRefusal() == "" {
		t.Errorf("the session is %v, %v", session, err)
	}
}

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

// TestConfirmationTime: a confirmation is valid for a minute.
func TestConfirmationTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := service.NewConfirmations(clock.RealClock{})
		action := restartOf("a", "")
		one, err := c.New(action)
		if err != nil {
			t.Fatal(err)
		}
		two, err := c.New(action)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute - time.Nanosecond)
		if err := c.Use(one, action); err != nil {
			t.Errorf("within a minute: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if err := c.Use(two, action); err == nil {
			t.Error("it is valid after a minute")
		}
		first, _ := c.New(action)
		for range 32 {
			_, _ = c.New(action)
		}
		if err := c.Use(first, action); err == nil {
			t.Error("33 confirmations are kept")
		}
	})
}

// TestIdle: the time begins again with each use, and ends with the context.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := service.NewIdle(clock.RealClock{}, time.Minute)
		began := time.Now()
		go func() {
			for range 3 {
				time.Sleep(50 * time.Second)
				i.Touch()
			}
		}()
		if !i.Wait(t.Context()) || time.Since(began) != 150*time.Second+time.Minute {
			t.Errorf("it is over after %v", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if forever := service.NewIdle(clock.RealClock{}, 0); forever.Wait(ctx) || !errors.Is(ctx.Err(), context.DeadlineExceeded) || !forever.Ends().IsZero() {
			t.Error("an idle time without a limit is over")
		}
	})
}
