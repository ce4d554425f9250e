package service_test

import (
	"context"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/web/board"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/service"
	"github.com/podstream/podstream/internal/podctl/web/upstream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

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
	f.publish(2, opAdd, podctltest.Desired(t, "file", podctltest.Pod("default", "c")))
	_, err = prepare(&podwebv1.Action{Action: &podwebv1.Action_Delete{Delete: &podwebv1.DeleteAction{PodKey: board.Key("pod", podctltest.UID("c"))}}})
	wantCode(t, "a pod of a file", err, connect.CodeFailedPrecondition)
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
