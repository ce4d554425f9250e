package usage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// observer observes a node that has a machine of its own.
type observer struct {
	node *node
	// differed is the last difference between API server, podexecd and runtime before they agreed.
	differed error
	exec     podexecv1.PodExecServiceClient
	cri      runtimeapi.RuntimeServiceClient
}

func observe(t *testing.T, n *node) *observer {
	t.Helper()
	dial := func(endpoint string) *grpc.ClientConn {
		conn := rig.Get(grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
		t.Cleanup(func() { rig.Must(t, conn.Close()) })
		return conn
	}
	return &observer{
		node: n, exec: podexecv1.NewPodExecServiceClient(dial("unix://" + n.Machine.Socket(n.Name+"-exec"))),
		cri: runtimeapi.NewRuntimeServiceClient(dial(n.Machine.Endpoint())),
	}
}

// shownPod is a pod in podexecd's view.
type shownPod struct {
	*podexecv1.ObservedPod
	status corev1.PodStatus
}

// view is a node as shown by the API server, by podexecd and by the runtime.
type view struct {
	node string
	// pods are the node's pods at the API server.
	pods []corev1.Pod
	// shown are podexecd's pods, by UID.
	shown      map[string]shownPod
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
	// static are the names of the pods in manifests.
	static []string
}

// podUIDLabel is the label that has a pod's UID in the runtime.
const podUIDLabel = "io.kubernetes.pod.uid"

// look reads all three views.
func (o *observer) look(ctx context.Context) (v *view, err error) {
	v = &view{node: o.node.Name}
	list, err := o.node.site.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + o.node.Name})
	if err != nil {
		return nil, err
	}
	v.pods = list.Items
	return v, o.local(ctx, v)
}

// local reads the views of podexecd and the runtime.
func (o *observer) local(ctx context.Context, v *view) (err error) {
	if v.shown, err = o.shown(ctx); err != nil {
		return err
	}
	if v.sandboxes, v.containers, err = o.runtime(ctx); err != nil {
		return err
	}
	files, err := os.ReadDir(o.node.Manifests)
	for _, file := range files {
		if name, ok := strings.CutSuffix(file.Name(), ".yaml"); ok {
			v.static = append(v.static, name+"-"+o.node.Name)
		}
	}
	return err
}

func (o *observer) runtime(ctx context.Context) ([]*runtimeapi.PodSandbox, []*runtimeapi.Container, error) {
	sandboxes, err := o.cri.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, nil, err
	}
	containers, err := o.cri.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	return sandboxes.GetItems(), containers.GetContainers(), err
}

// shown reads podexecd's pods. podexecd may be starting.
func (o *observer) shown(ctx context.Context) (map[string]shownPod, error) {
	all := map[string]shownPod{}
	for token := ""; ; {
		page, err := o.exec.ListPods(ctx, &podexecv1.ListPodsRequest{Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, PageToken: token},
			grpc.WaitForReady(true))
		if err != nil {
			return nil, err
		}
		for _, p := range page.GetPods() {
			shown := shownPod{ObservedPod: p}
			if err := shown.status.Unmarshal(p.GetProtobuf()); err != nil {
				return nil, err
			}
			all[p.GetRef().GetUid()] = shown
		}
		if token = page.GetNextPageToken(); token == "" {
			return all, nil
		}
	}
}

// awaitShown waits until enough returns nil for podexecd's view of the pod; the argument is nil if there is no
// pod.
func (o *observer) awaitShown(t *testing.T, name, what string, enough func(*corev1.PodStatus) error) {
	t.Helper()
	rig.Must(t, control.Until(t.Context(), nil, "podexecd shows that pod "+name+" "+what, func(ctx context.Context) error {
		pods, err := o.shown(ctx)
		if err != nil {
			return err
		}
		for _, p := range pods {
			if p.GetRef().GetName() == name {
				if err := enough(&p.status); err == nil {
					return nil
				}
				return fmt.Errorf("it is %s", describe(&corev1.Pod{Status: p.status}))
			}
		}
		return enough(nil)
	}))
}

// settled waits until the three views agree, up to a time limit, and returns them. The error has the
// difference.
func (o *observer) settled(ctx context.Context, patience time.Duration) (v *view, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = control.Until(ctx, nil, "API server, podexecd and runtime agree", func(ctx context.Context) error {
		now, err := o.look(ctx)
		if err != nil {
			return err
		}
		v = now
		if err := errors.Join(v.differences()...); err != nil {
			o.differed = err
			return err
		}
		return nil
	})
	return v, err
}

// differences returns the differences between the three views in the final state.
func (v *view) differences() []error {
	var all []error
	differ := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	known := map[string]bool{}
	for i := range v.pods {
		pod := &v.pods[i]
		uid, mirror := uidOf(pod)
		known[uid] = true
		name := pod.Namespace + "/" + pod.Name
		if pod.DeletionTimestamp != nil {
			differ("pod %s is being deleted since %v", name, pod.DeletionTimestamp)
		}
		if mirror && !slices.Contains(v.static, pod.Name) {
			differ("mirror pod %s has no static pod", name)
		}
		shown, ok := v.shown[uid]
		if !ok {
			differ("pod %s isn't shown by podexecd", name)
			continue
		}
		if reported, own := essence(&pod.Status), essence(&shown.status); reported != own {
			differ("pod %s at the API server:\n%s\npodexecd shows:\n%s", name, reported, own)
		}
		all = append(all, v.untrue(name, uid, &pod.Status)...)
	}
	for _, name := range v.static {
		if !slices.ContainsFunc(v.pods, func(p corev1.Pod) bool { _, mirror := uidOf(&p); return mirror && p.Name == name }) {
			differ("static pod %s has no mirror pod", name)
		}
	}
	for _, s := range v.sandboxes {
		if uid := s.GetLabels()[podUIDLabel]; !known[uid] {
			differ("sandbox %s, %v, is of pod %s (%s), which the API server hasn't", s.GetId(), s.GetState(), s.GetMetadata().GetName(), uid)
		}
	}
	for _, c := range v.containers {
		if uid := c.GetLabels()[podUIDLabel]; !known[uid] {
			differ("container %s, %v, is of pod %s, which the API server hasn't", c.GetMetadata().GetName(), c.GetState(), uid)
		}
	}
	return all
}

// untrue returns what the API server has of a pod's containers that isn't true in the runtime.
func (v *view) untrue(name, uid string, status *corev1.PodStatus) []error {
	var all []error
	said := map[string]bool{}
	for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses) {
		if c.State.Running != nil {
			said[strings.TrimPrefix(c.ContainerID, "containerd://")] = true
		}
	}
	for _, c := range v.containers {
		runs := c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING
		if c.GetLabels()[podUIDLabel] == uid && runs && !said[c.GetId()] {
			all = append(all, fmt.Errorf("container %s of pod %s runs, and the API server doesn't have it", c.GetMetadata().GetName(), name))
		}
		if runs {
			delete(said, c.GetId())
		}
	}
	for id := range said {
		all = append(all, fmt.Errorf("container %s of pod %s runs according to the API server, but doesn't", id, name))
	}
	return all
}

// uidOf returns the pod's UID on the node. A mirror pod's UID differs from its static pod's.
func uidOf(pod *corev1.Pod) (uid string, mirror bool) {
	if static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static != "" {
		return static, true
	}
	return string(pod.UID), false
}

// nodeConditions are the conditions that the node sets.
var nodeConditions = []corev1.PodConditionType{
	corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady,
}

// essence returns a status as text, without the fields that the API server adds, or that only one of both has
// by design.
func essence(status *corev1.PodStatus) string {
	e := corev1.PodStatus{Phase: status.Phase, Reason: status.Reason, Message: status.Message, PodIP: status.PodIP, HostIP: status.HostIP}
	for _, kind := range nodeConditions {
		for _, c := range status.Conditions {
			if c.Type == kind {
				e.Conditions = append(e.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
			}
		}
	}
	for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses) {
		e.ContainerStatuses = append(e.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, State: c.State, LastTerminationState: c.LastTerminationState, Ready: c.Ready, RestartCount: c.RestartCount,
			ContainerID: c.ContainerID, ImageID: c.ImageID, Started: c.Started,
		})
	}
	text, err := json.Marshal(e) // with times in whole seconds
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// ids returns the IDs of the running containers of the named pods, by pod name.
func (v *view) ids(names ...string) map[string]string {
	ids := map[string]string{}
	for _, c := range v.containers {
		name := c.GetLabels()["io.kubernetes.pod.name"]
		if c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING && slices.Contains(names, name) {
			ids[name] = fmt.Sprintf("%s, restarted %d times", c.GetId(), c.GetMetadata().GetAttempt())
		}
	}
	return ids
}

// isTrue reports whether a condition of a status is true.
func isTrue(status *corev1.PodStatus, kind corev1.PodConditionType) bool {
	c := podCondition(&corev1.Pod{Status: *status}, kind)
	return c != nil && c.Status == corev1.ConditionTrue
}
