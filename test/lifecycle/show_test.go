package lifecycle

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/rig"
)

// podctl shows a pod's logs and events, describes it, and runs commands in it.
func TestPodctl(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
containers:
- {name: one, args: [print, the first]}
- {name: two, args: [seq, exists, /log/up, ;, print, the second]}`)
		p.await("two has crashed", func(s *state) bool { return s.endedBefore("two") != nil })
		p.touch("up")
		p.awaitReady()
		name := p.name + "-" + b.Name
		says := func(want string, args ...string) {
			t.Helper()
			eventually(t, fmt.Sprintf("podctl %q prints %q", args, want), func() error {
				if stdout, stderr, code := b.podctl(t.Context(), args...); code != 0 || !strings.Contains(stdout, want) {
					return fmt.Errorf("code %d, %s%s", code, stdout, stderr)
				}
				return nil
			})
		}
		says("the first\n", "logs", name, "-c", "one")
		says("the first\n", "logs", p.name) // the name without the node's suffix, and the log of the first container
		says("the second\n", "logs", name, "-c", "two")
		says("/log/up", "logs", name, "-c", "two", "-p")
		says("asked", "exec", name, "-c", "one", "--", "/sample", "seq", "write", "/log/asked", "asked", ";", "cat", "/log/asked")
		if _, stderr, code := b.podctl(t.Context(), "exec", name, "-c", "one", "--", "/sample", "exit", "7"); code != 7 {
			t.Errorf("a command that ends with 7 ended with %d: %s", code, stderr)
		}
		says("Started", "events", name)
		says("Last State:     Terminated", "describe", name)
		says("Running", "pods", "-o", "yaml")
	})
}

// A client that resumes a status watch receives only the changes since its token.
func TestWatchPodStatusResumes(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		first := b.run(t, "containers:\n- {name: main, args: [sleep]}")
		second := b.run(t, `
containers:
- {name: main, args: [sleep], readinessProbe: {exec: {command: [/sample, exists, /log/up]}, periodSeconds: 1}}`)
		first.awaitReady()
		second.awaitNow("the second pod runs", func(s *state) bool { return s.runs("main") })
		request := &podexecv1.WatchPodStatusRequest{
			Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE,
			Filter: &podconfigv1.PodFilter{Names: []string{first.name + "-" + b.Name, second.name + "-" + b.Name}},
		}
		if pods, resumed, token := watchUntilSynced(t, b, request); len(pods) != 2 || resumed || token == "" {
			t.Fatalf("a first watch starts with %v, resumed %v, token %q; want both pods, and a token", pods, resumed, token)
		} else {
			request.ResumeToken = token
		}
		second.touch("up")
		second.awaitReady()
		pods, resumed, _ := watchUntilSynced(t, b, request)
		if len(pods) != 1 || pods[0] != second.name || !resumed {
			t.Errorf("the resumed watch starts with %v, resumed %v; want only %s", pods, resumed, second.name)
		}
		request.ResumeToken += "x"
		if pods, resumed, _ := watchUntilSynced(t, b, request); len(pods) != 2 || resumed {
			t.Errorf("with an unknown token the watch starts with %v, resumed %v; want both pods", pods, resumed)
		}
	})
}

// watchUntilSynced returns the pods, without the node's suffix, that a watch sends before synced, and its resume
// token.
func watchUntilSynced(t *testing.T, b *bench, request *podexecv1.WatchPodStatusRequest) (pods []string, resumed bool, token string) {
	t.Helper()
	stream, err := b.Exec.WatchPodStatus(t.Context(), request)
	check(t, err)
	for {
		msg, err := stream.Recv()
		check(t, err)
		if msg.GetSynced() != nil {
			return pods, msg.GetSynced().GetResumed(), msg.GetResumeToken()
		}
		pods = append(pods, strings.TrimSuffix(msg.GetPod().GetRef().GetName(), "-"+b.Name))
	}
}

// The Kubelet Pods API serves the pods with their statuses, to root only.
func TestKubeletPodsAPI(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		socket := b.Node.Socket(b.Name + "p")
		var info os.FileInfo
		eventually(t, "the socket exists", func() (err error) { info, err = os.Stat(socket); return err })
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("the socket's mode is %v; want access for root only", info.Mode())
		}
		conn, err := rig.Dial("unix://" + socket)
		check(t, err)
		defer conn.Close()
		api := podsv1alpha1.NewPodsClient(conn)
		watch, err := api.WatchPods(t.Context(), &podsv1alpha1.WatchPodsRequest{})
		check(t, err)

		p := b.run(t, "containers:\n- {name: main, args: [sleep]}")
		ready := p.awaitReady()
		for {
			event, err := watch.Recv()
			check(t, err)
			pod := v1.Pod{}
			check(t, pod.Unmarshal(event.GetPod()))
			if s := (state{PodStatus: pod.Status}); string(pod.UID) == ready.uid && s.is(v1.PodReady) {
				break
			}
		}
		resp, err := api.GetPod(t.Context(), &podsv1alpha1.GetPodRequest{PodUID: ready.uid})
		check(t, err)
		pod := v1.Pod{}
		check(t, pod.Unmarshal(resp.GetPod()))
		if pod.Name != p.name+"-"+b.Name || pod.Spec.Containers[0].Name != "main" || pod.Status.Phase != v1.PodRunning {
			t.Errorf("the pod is served as %+v", pod)
		}
		list, err := api.ListPods(t.Context(), &podsv1alpha1.ListPodsRequest{})
		check(t, err)
		if len(list.GetPods()) == 0 {
			t.Error("no pod is listed")
		}
		if _, err := api.GetPod(t.Context(), &podsv1alpha1.GetPodRequest{PodUID: "none"}); status.Code(err) != codes.NotFound {
			t.Errorf("an unknown pod: %v; want NOT_FOUND", err)
		}
	})
}

// A pod that needs something that this node can't provide waits. podconfigd and podctl show the reason.
func TestWaitingPodIsReported(t *testing.T) {
	on(t, latest, func(t *testing.T, b *bench) {
		p := b.run(t, `
containers:
- {name: main, args: [sleep], volumeMounts: [{name: data, mountPath: /data}]}
volumes:
- {name: data, cephfs: {monitors: [ceph.invalid]}}`)
		p.awaitEvent("FailedMount", "spec.volumes[0].cephfs: ")
		s := p.awaitPhase(v1.PodPending)
		if s.Reason != "" {
			t.Errorf("reason %q, message %q; want none", s.Reason, s.Message)
		}
		const reason = "UnsupportedFeature"
		name := p.name + "-" + b.Name
		reported := func() (*podconfigv1.PodError, error) {
			resp, err := b.Config.ListConsumers(t.Context(), &podconfigv1.ListConsumersRequest{})
			if err != nil {
				return nil, err
			}
			for _, c := range resp.GetConsumers() {
				for _, e := range c.GetLastReport().GetErrors() {
					if e.GetRef().GetName() == name {
						return e, nil
					}
				}
			}
			text, _ := json.Marshal(resp)
			return nil, fmt.Errorf("no consumer reports the pod: %s", text)
		}
		eventually(t, "what it lacks is reported", func() error {
			e, err := reported()
			if err == nil && (e.GetReason() != reason || e.GetRef().GetUid() != s.uid) {
				err = fmt.Errorf("the pod is reported with %v", e)
			}
			return err
		})
		if stdout, stderr, code := b.podctl(t.Context(), "consumers", "-o", "wide"); code != 0 ||
			!strings.Contains(stdout, name) || !strings.Contains(stdout, reason) {
			t.Errorf("podctl consumers ends with %d:\n%s%s", code, stdout, stderr)
		}
		p.remove()
		eventually(t, "the report ends with the pod", func() error {
			if e, err := reported(); e != nil || err == nil {
				return fmt.Errorf("the pod is reported with %v", e)
			}
			return nil
		})
	})
}
