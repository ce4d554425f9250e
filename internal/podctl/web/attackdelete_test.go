package web_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/web/board"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Delete deletes whatever pod it gets.
func (applier) Delete(_ context.Context, pod *podconfigv1.PodRef) (lines []string, published uint64, err error) {
	return []string{"deleted " + pod.GetName()}, 8, nil
}

// deletion returns the action, after podctl web has the pod of a source, which has the source's name.
func (x *target) deletion(source string) *podwebv1.Action {
	x.t.Helper()
	_, client := x.open()
	key := board.Key("pod", podctltest.UID(source))
	webtest.Await(x.t, "the pod", nil, func() bool {
		_, err := client.GetPod(x.t.Context(), &podwebv1.GetPodRequest{Key: key})
		r, sessionErr := client.GetSession(x.t.Context(), &podwebv1.GetSessionRequest{})
		return err == nil && sessionErr == nil && !strings.Contains(r.GetSession().GetManifestRefusal(), "has no source")
	})
	return &podwebv1.Action{Action: &podwebv1.Action_Delete{Delete: &podwebv1.DeleteAction{PodKey: key}}}
}

// remove deletes the pod of a source a number of times by one confirmation. Zero: once, without a confirmation. It succeeds if the
// pod is deleted each time.
func remove(times int, source string) func(*testing.T, *target) (string, bool) {
	return func(t *testing.T, x *target) (string, bool) {
		t.Helper()
		action := x.deletion(source)
		_, client := x.open()
		confirmation := ""
		if times > 0 {
			r, err := client.Prepare(t.Context(), &podwebv1.PrepareRequest{Action: action})
			if err != nil {
				return err.Error(), false
			}
			confirmation = r.GetConfirmation()
		}
		for range max(times, 1) {
			r, err := client.Act(t.Context(), &podwebv1.ActRequest{Action: action, Confirmation: confirmation})
			if err != nil {
				return err.Error(), false
			}
			if got := strings.Join(r.GetLines(), " "); !strings.HasPrefix(got, "deleted "+source) {
				return got, false
			}
		}
		return "deleted", true
	}
}

// removeFrom deletes an applied pod by a request with these headers, after the user has confirmed that. It succeeds if the pod is
// deleted.
func removeFrom(headers map[string]string) func(*testing.T, *target) (string, bool) {
	return func(t *testing.T, x *target) (string, bool) {
		t.Helper()
		action := x.deletion("applied")
		session, client := x.open()
		r, err := client.Prepare(t.Context(), &podwebv1.PrepareRequest{Action: action})
		if err != nil {
			t.Fatal(err)
		}
		headers["Authorization"] = "Bearer " + session
		body := fmt.Sprintf(`{"action": {"delete": {"podKey": %q}}, "confirmation": %q}`, action.GetDelete().GetPodKey(), r.GetConfirmation())
		answer, ok := send(t, x, http.MethodPost, "/podweb.v1.WebService/Act", headers, strings.NewReader(body))
		return answer, ok && strings.Contains(answer, "deleted applied")
	}
}
