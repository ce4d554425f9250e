package web_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/web"
	"github.com/podstream/podstream/internal/podctl/web/board"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

func allowExec(_ *testing.T, cfg *web.Config) { cfg.AllowExec = true }

// socket runs a command by a WebSocket. It succeeds if the command runs.
func socket(origin string, withToken, confirmed bool) func(*testing.T, *target) (string, bool) {
	return func(t *testing.T, x *target) (string, bool) {
		t.Helper()
		x.podexecd.ExecFunc = func(_ *podexecv1.ExecStart, s grpc.BidiStreamingServer[podexecv1.ExecRequest, podexecv1.ExecResponse]) error {
			return s.Send(&podexecv1.ExecResponse{Message: &podexecv1.ExecResponse_ExitCode{ExitCode: 42}})
		}
		session, client := x.open()
		action := x.execAction("web")
		open := &podwebv1.ExecOpen{Action: action}
		if withToken {
			open.Session = session
		}
		if confirmed {
			r, err := client.Prepare(t.Context(), &podwebv1.PrepareRequest{Action: &podwebv1.Action{Action: &podwebv1.Action_Exec{Exec: action}}})
			if err == nil {
				open.Confirmation = r.GetConfirmation()
			}
		}
		if origin == "" {
			return runCommand(t, x.host(), "http://"+x.host(), open)
		}
		return runCommand(t, x.host(), origin, open)
	}
}

// execAction returns a command in a pod that runs.
func (x *target) execAction(name string) *podwebv1.ExecAction {
	x.t.Helper()
	x.runPod(name)
	return &podwebv1.ExecAction{PodKey: board.Key("pod", podctltest.UID(name)), Command: []string{"date"}}
}

// runPod has podexecd run a pod, and waits until podctl web has it.
func (x *target) runPod(name string) {
	x.t.Helper()
	x.podexecd.Put(podctltest.Observed(x.t, "default", name, &corev1.PodStatus{
		Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{podctltest.Running("web")},
	}))
	_, client := x.open()
	webtest.Await(x.t, "the pod", nil, func() bool {
		_, err := client.GetPod(x.t.Context(), &podwebv1.GetPodRequest{Key: board.Key("pod", podctltest.UID(name))})
		return err == nil
	})
}

func runCommand(t *testing.T, host, origin string, open *podwebv1.ExecOpen) (string, bool) {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{"podweb.exec.v1"}, HandshakeTimeout: webtest.Deadline}
	ws, resp, err := dialer.DialContext(t.Context(), "ws://"+host+"/exec", http.Header{"Origin": {origin}, "Sec-Fetch-Site": {"same-origin"}})
	if resp != nil {
		defer resp.Body.Close()
	}
	if err != nil {
		if resp == nil {
			return err.Error(), false
		}
		return strconv.Itoa(resp.StatusCode), false
	}
	defer ws.Close()
	data, err := proto.Marshal(&podwebv1.ExecClientMessage{Message: &podwebv1.ExecClientMessage_Open{Open: open}})
	if err == nil {
		err = ws.WriteMessage(websocket.BinaryMessage, data)
	}
	if err != nil {
		t.Fatal(err)
	}
	for {
		_, data, err := ws.ReadMessage()
		if err != nil {
			return err.Error(), false
		}
		m := &podwebv1.ExecServerMessage{}
		if err := proto.Unmarshal(data, m); err != nil {
			t.Fatal(err)
		}
		if end := m.GetEnd(); end != nil {
			return end.GetError(), end.GetError() == "" && end.GetExitCode() == 42
		}
	}
}

func restartable(_ *testing.T, cfg *web.Config) {
	cfg.Actions.Restart = func(context.Context, *podconfigv1.PodRef, string) ([]string, error) { return []string{"done"}, nil }
}

func restart(t *testing.T, x *target) (string, bool) {
	t.Helper()
	x.runPod("web")
	_, client := x.open()
	action := &podwebv1.Action{Action: &podwebv1.Action_Restart{Restart: &podwebv1.RestartAction{PodKey: board.Key("pod", podctltest.UID("web"))}}}
	r, err := client.Prepare(t.Context(), &podwebv1.PrepareRequest{Action: action})
	if err != nil {
		return err.Error(), false
	}
	done, err := client.Act(t.Context(), &podwebv1.ActRequest{Action: action, Confirmation: r.GetConfirmation()})
	if err != nil {
		return err.Error(), false
	}
	return strings.Join(done.GetLines(), " "), true
}
