package hazards

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

func running(s *scenario, d *datadriven.TestData) string {
	return s.until(d, func() (string, error) {
		resp, err := s.exec.ListPods(s.t.Context(), &podexecv1.ListPodsRequest{Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF})
		if err != nil {
			return "", err
		}
		var out []string
		for _, p := range resp.GetPods() {
			line, err := observed(p)
			if err != nil {
				return "", err
			}
			out = append(out, line)
		}
		return unlines(s.names.sorted(out)), nil
	})
}

// observed shows SOURCE NAMESPACE/NAME UID PHASE, the state of each container, the worker's state if it isn't
// syncing, and why the pod isn't running yet.
func observed(p *podexecv1.ObservedPod) (string, error) {
	var status v1.PodStatus
	if err := status.Unmarshal(p.GetProtobuf()); err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s %s/%s %s %s", p.GetSource(), p.GetRef().GetNamespace(), p.GetRef().GetName(),
		mark("u", p.GetRef().GetUid()), cmp.Or(p.GetPhase(), "Unknown"))
	for _, c := range status.ContainerStatuses {
		_, id, _ := strings.Cut(c.ContainerID, "://")
		switch {
		case c.State.Running != nil:
			text += fmt.Sprintf(" %s=%s", c.Name, mark("c", id))
		case c.State.Waiting != nil:
			text += fmt.Sprintf(" %s=%s", c.Name, c.State.Waiting.Reason)
		case c.State.Terminated != nil:
			text += fmt.Sprintf(" %s=exited(%d)", c.Name, c.State.Terminated.ExitCode)
		}
	}
	if state := p.GetWorkerState(); state != podexecv1.WorkerState_WORKER_STATE_SYNCING {
		text += " " + strings.ToLower(strings.TrimPrefix(state.String(), "WORKER_STATE_"))
	}
	if !p.GetDesired() {
		text += " undesired"
	}
	if status.Reason != "" {
		text += " " + status.Reason + ": " + status.Message
	}
	if p.GetLastError() != "" {
		text += " error: " + p.GetLastError()
	}
	return text, nil
}

func containers(s *scenario, d *datadriven.TestData) string {
	cri := runtimeapi.NewRuntimeServiceClient(dial(s.t, s.node.Endpoint()))
	return s.until(d, func() (string, error) {
		resp, err := cri.ListContainers(s.t.Context(), &runtimeapi.ListContainersRequest{})
		if err != nil {
			return "", err
		}
		var out []string
		for _, c := range resp.GetContainers() {
			labels := c.GetLabels()
			state := strings.ToLower(strings.TrimPrefix(c.GetState().String(), "CONTAINER_"))
			out = append(out, fmt.Sprintf("%s %s %s %s", labels["io.kubernetes.pod.name"], mark("u", labels["io.kubernetes.pod.uid"]),
				mark("c", c.GetId()), state))
		}
		return unlines(s.names.sorted(out)), nil
	})
}

// finish makes the runtime kill the container.
func finish(s *scenario, d *datadriven.TestData) string {
	cri := runtimeapi.NewRuntimeServiceClient(dial(s.t, s.node.Endpoint()))
	_, err := cri.StopContainer(s.t.Context(), &runtimeapi.StopContainerRequest{ContainerId: s.container(d)})
	s.check(err)
	return ""
}

func inside(s *scenario, d *datadriven.TestData) string {
	cri, id, command := runtimeapi.NewRuntimeServiceClient(dial(s.t, s.node.Endpoint())), s.container(d), []string{"/sample"}
	for i := range d.CmdArgs[1:] {
		command = append(command, s.arg(d, i+1))
	}
	return s.until(d, func() (string, error) {
		resp, err := cri.ExecSync(s.t.Context(), &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command})
		return string(resp.GetStdout()) + string(resp.GetStderr()), err
	})
}

// container returns the ID of the container in the command's first argument.
func (s *scenario) container(d *datadriven.TestData) string {
	s.t.Helper()
	for m, name := range s.names {
		if id, ok := strings.CutPrefix(m, "\x01c"); ok && name == s.arg(d, 0) {
			return strings.TrimSuffix(id, "\x02")
		}
	}
	d.Fatalf(s.t, "there is no container %s", s.arg(d, 0))
	return ""
}
