package podctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// restartOptions are the flags of restart.
type restartOptions struct {
	pod       podName
	container string
	wait      bool
	timeout   time.Duration
}

func (t *tool) restartCommand() *cobra.Command {
	var o restartOptions
	cmd := &cobra.Command{
		Use:   "restart POD",
		Short: "Restart the containers of a pod, or one of them",
		Long: `Restart ends the containers of a pod on this node, with their preStop hooks and the pod's grace period, and starts them
again at once, without a crash-loop backoff and whatever their restart policy. It requires the role of an operator, which root
has.

Without -c it restarts the pod's containers and sidecars, those that have ended too, and an init container that hasn't
completed. The sandbox, and with it the pod's address, stays. A container whose image must be pulled runs until the image is
there.

podexecd stores the request before it stops a container, and completes it also after a restart of its own. It needs neither
podconfigd nor the API server. Restart prints the progress until the containers run again; Ctrl-C and --timeout end the
printing only.`,
		Example: `  podctl restart web
  podctl restart web -c app --wait --timeout=2m`,
		Args: onePod,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.pod.set(args[0])
			return t.runRestart(cmd.Context(), o)
		},
	}
	o.pod.addNamespaceFlag(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&o.container, "container", "c", "", "restart only the container with this `name`")
	flags.BoolVar(&o.wait, "wait", false, "wait until the containers are ready too, and without -c until the pod is")
	flags.DurationVar(&o.timeout, "timeout", 0, "how long to wait; 0 waits forever")
	return cmd
}

func (t *tool) runRestart(ctx context.Context, o restartOptions) error {
	ref, err := t.findObserved(ctx, o.pod)
	if err != nil {
		return err
	}
	accepted, err := t.requestRestart(ctx, &podexecv1.RestartPodRequest{Ref: ref, Container: o.container})
	if err != nil {
		return err
	}
	f := &restartFollower{tool: t, accepted: accepted, whole: o.container == "", ready: o.wait, said: map[string]string{}}
	if err := f.begin(); err != nil {
		return err
	}
	following, release := t.withLimit(ctx, o.timeout)
	defer release()
	err = t.followStatus(following, &podconfigv1.PodFilter{Namespaces: []string{ref.GetNamespace()}, Names: []string{ref.GetName()}}, true, f.look)
	if errors.Is(err, errLimit) {
		return fmt.Errorf("timed out waiting for the restart of pods/%s: %s; podexecd goes on with it", ref.GetName(), f.missing())
	}
	return err
}

func (t *tool) requestRestart(ctx context.Context, req *podexecv1.RestartPodRequest) (*podexecv1.RestartPodResponse, error) {
	conn, err := t.podexecd.connect(t.userAgent())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	resp, err := podexecv1.NewPodExecServiceClient(conn).RestartPod(ctx, req)
	err = conn.explain(err)
	if code := status.Code(err); code == codes.Unavailable || code == codes.DeadlineExceeded {
		err = fmt.Errorf("%w; podexecd may have stored the request", err)
	}
	return resp, err
}

// restartFollower prints the progress of a restart.
type restartFollower struct {
	tool     *tool
	accepted *podexecv1.RestartPodResponse
	// whole is set if no container was named, ready if the containers must be ready too.
	whole, ready bool
	// said is what was printed last, by container; empty for the pod. Only changes are printed.
	said map[string]string
	// waits are the containers that weren't as wanted at the last look.
	waits []string
}

// begin prints what is going to be restarted.
func (f *restartFollower) begin() error {
	var names []string
	for _, c := range f.accepted.GetContainers() {
		names = append(names, c.GetName())
	}
	what := "restarting"
	if f.accepted.GetJoined() {
		what = "already restarting"
	}
	return f.print("pod/%s: %s %s (grace period %ds)", f.accepted.GetRef().GetName(), what, strings.Join(names, ", "), f.accepted.GetGracePeriodSeconds())
}

// look prints what has changed. It returns errFollowed once the restart is complete.
func (f *restartFollower) look(pods map[string]*podexecv1.ObservedPod) error {
	name := f.accepted.GetRef().GetName()
	pod := pods[f.accepted.GetRef().GetUid()]
	if pod == nil {
		return fmt.Errorf("pod %s was removed before its restart was complete", name)
	}
	now := &corev1.PodStatus{}
	if err := now.Unmarshal(pod.GetProtobuf()); err != nil {
		return fmt.Errorf("decode the status of pod %s: %w", name, err)
	}
	f.waits = nil
	for _, c := range f.accepted.GetContainers() {
		done, text, err := f.progress(c, statusOf(slices.Concat(now.ContainerStatuses, now.InitContainerStatuses), c.GetName()))
		if text != "" {
			if err := f.say(c.GetName(), "container "+c.GetName()+": "+text); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		if !done {
			f.waits = append(f.waits, c.GetName())
		}
	}
	switch {
	case len(f.waits) == 0 && (!f.ready || !f.whole || isReady(now)):
		if err := f.print("pod/%s restarted", name); err != nil {
			return err
		}
		return errFollowed
	case now.Phase == corev1.PodSucceeded || now.Phase == corev1.PodFailed:
		return fmt.Errorf("pod %s finished before its restart was complete: it is %s", name, now.Phase)
	case pod.GetWorkerState() > podexecv1.WorkerState_WORKER_STATE_SYNCING:
		return fmt.Errorf("pod %s ends before its restart was complete", name)
	case pod.GetLastError() != "":
		return f.say("", "waiting: "+pod.GetLastError())
	}
	return nil
}

// progress returns whether the container is restarted as wanted, and a description of its state. It is an error that
// the new container has failed, unless it is to become ready.
func (f *restartFollower) progress(c *podexecv1.RestartedContainer, now *corev1.ContainerStatus) (done bool, text string, err error) {
	if now == nil {
		return false, "", nil
	}
	state := now.State
	if now.ContainerID == c.GetContainerId() || now.ContainerID == "" {
		switch {
		case state.Terminated != nil:
			text = fmt.Sprintf("stopped with exit code %d", state.Terminated.ExitCode)
		case state.Waiting != nil:
			text = "waiting: " + waitingText(state.Waiting)
		}
		return false, text, nil
	}
	switch {
	case state.Running != nil && f.ready && !now.Ready:
		return false, fmt.Sprintf("running, not ready (restart %d)", now.RestartCount), nil
	case state.Running != nil && f.ready:
		return true, fmt.Sprintf("ready (restart %d)", now.RestartCount), nil
	case state.Running != nil:
		return true, fmt.Sprintf("running (restart %d)", now.RestartCount), nil
	case state.Terminated != nil && state.Terminated.ExitCode == 0:
		return true, "ended again with exit code 0", nil
	}
	end := state.Terminated
	if end == nil {
		end = now.LastTerminationState.Terminated
	}
	text = "not running"
	if end != nil {
		text = fmt.Sprintf("ended again with exit code %d", end.ExitCode)
	}
	if state.Waiting != nil {
		text += ", waiting: " + waitingText(state.Waiting)
	}
	if end == nil || f.ready {
		return false, text, nil
	}
	return false, text, fmt.Errorf("container %s of pod %s was restarted, and %s", c.GetName(), f.accepted.GetRef().GetName(), text)
}

// missing returns what the restart waits for.
func (f *restartFollower) missing() string {
	if len(f.waits) == 0 {
		return "the pod isn't ready"
	}
	text := "not restarted: "
	if f.ready {
		text = "not restarted and ready: "
	}
	return text + strings.Join(f.waits, ", ")
}

// say prints a line about a container, or the pod, if it has changed.
func (f *restartFollower) say(about, text string) error {
	if f.said[about] == text {
		return nil
	}
	f.said[about] = text
	return f.print("%s", text)
}

func (f *restartFollower) print(format string, args ...any) error {
	if _, err := fmt.Fprintln(f.tool.Stdout, render.Escape(fmt.Sprintf(format, args...))); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func waitingText(w *corev1.ContainerStateWaiting) string {
	if w.Message == "" {
		return w.Reason
	}
	return w.Reason + ": " + w.Message
}

// isReady reports whether the pod has the condition Ready.
func isReady(s *corev1.PodStatus) bool {
	for _, c := range s.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
