package usage

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// resource is the objects of a kind, in one namespace or in all.
type resource[O runtime.Object] struct {
	client          rest.Interface
	name, namespace string
	empty           O
}

func (s *site) nodes() resource[*corev1.Node] {
	return resource[*corev1.Node]{s.Client.CoreV1().RESTClient(), "nodes", "", &corev1.Node{}}
}

func (s *site) requests() resource[*certificatesv1.CertificateSigningRequest] {
	return resource[*certificatesv1.CertificateSigningRequest]{s.Client.CertificatesV1().RESTClient(), "certificatesigningrequests", "",
		&certificatesv1.CertificateSigningRequest{}}
}

func (s *site) leases() resource[*coordinationv1.Lease] {
	return resource[*coordinationv1.Lease]{s.Client.CoordinationV1().RESTClient(), "leases", corev1.NamespaceNodeLease, &coordinationv1.Lease{}}
}

func (s *site) attachments() resource[*storagev1.VolumeAttachment] {
	return resource[*storagev1.VolumeAttachment]{s.Client.StorageV1().RESTClient(), "volumeattachments", "", &storagev1.VolumeAttachment{}}
}

func (s *site) accounts(namespace string) resource[*corev1.ServiceAccount] {
	return resource[*corev1.ServiceAccount]{s.Client.CoreV1().RESTClient(), "serviceaccounts", namespace, &corev1.ServiceAccount{}}
}

func (s *site) namespaces() resource[*corev1.Namespace] {
	return resource[*corev1.Namespace]{s.Client.CoreV1().RESTClient(), "namespaces", "", &corev1.Namespace{}}
}

func (s *space) pods() resource[*corev1.Pod] {
	return resource[*corev1.Pod]{s.site.Client.CoreV1().RESTClient(), "pods", s.name, &corev1.Pod{}}
}

func (s *space) events() resource[*corev1.Event] {
	return resource[*corev1.Event]{s.site.Client.CoreV1().RESTClient(), "events", s.name, &corev1.Event{}}
}

func (s *space) jobs() resource[*batchv1.Job] {
	return resource[*batchv1.Job]{s.site.Client.BatchV1().RESTClient(), "jobs", s.name, &batchv1.Job{}}
}

func (s *space) statefulSets() resource[*appsv1.StatefulSet] {
	return resource[*appsv1.StatefulSet]{s.site.Client.AppsV1().RESTClient(), "statefulsets", s.name, &appsv1.StatefulSet{}}
}

// await watches a resource until enough returns nil for its objects, by name; otherwise enough returns what
// they lack. It waits for at most control.Bound, including outages of the API server, and returns the objects
// as of then.
func await[O runtime.Object](ctx context.Context, r resource[O], what string, enough func(map[string]O) error) (map[string]O, error) {
	return awaitWithin(ctx, control.Bound, r, what, enough)
}

// awaitWithin is await with another time limit.
func awaitWithin[O runtime.Object](
	ctx context.Context, bound time.Duration, r resource[O], what string, enough func(map[string]O) error,
) (map[string]O, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	var store cache.Store
	var objects map[string]O
	var lack error
	look := func() bool {
		objects = map[string]O{}
		for _, object := range store.List() {
			o := object.(O)
			accessor, err := meta.Accessor(o)
			if err != nil {
				lack = err
				return false
			}
			objects[accessor.GetName()] = o
		}
		lack = enough(objects)
		return lack == nil
	}
	// Once at the start, because a resource without objects has no events.
	begin := func(s cache.Store) (bool, error) {
		store = s
		return look(), nil
	}
	_, err := watchtools.UntilWithSync(ctx, cache.NewListWatchFromClient(r.client, r.name, r.namespace, fields.Everything()), r.empty, begin,
		func(watch.Event) (bool, error) { return look(), nil })
	if err != nil {
		return nil, fmt.Errorf("wait until %s: %w; but: %w", what, err, lack)
	}
	return objects, nil
}

// awaitPod waits until enough returns nil for a pod.
func (s *space) awaitPod(t *testing.T, name, what string, enough func(*corev1.Pod) error) *corev1.Pod {
	t.Helper()
	pods := rig.Get(await(t.Context(), s.pods(), "pod "+name+" "+what, func(pods map[string]*corev1.Pod) error {
		pod := pods[name]
		if pod == nil {
			return errNone
		}
		if err := enough(pod); err != nil {
			return fmt.Errorf("%w: it is %s", err, describe(pod))
		}
		return nil
	}))(t)
	return pods[name]
}

var (
	errNone = errors.New("it doesn't exist")
	errNo   = errors.New("not yet")
)

// awaitReady waits until a pod is ready.
func (s *space) awaitReady(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	return s.awaitPod(t, name, "is ready", func(pod *corev1.Pod) error { return when(isReady(pod)) })
}

// awaitGone waits until the pod doesn't exist.
func (s *space) awaitGone(t *testing.T, name string) {
	t.Helper()
	s.awaitPods(t, "pod "+name+" is gone", func(pods map[string]*corev1.Pod) error { return when(pods[name] == nil) })
}

// awaitPods waits until enough returns nil for the pods of the namespace.
func (s *space) awaitPods(t *testing.T, what string, enough func(map[string]*corev1.Pod) error) map[string]*corev1.Pod {
	t.Helper()
	return rig.Get(await(t.Context(), s.pods(), what, enough))(t)
}

// awaitEvent waits until the pod has an event with the reason.
func (s *space) awaitEvent(t *testing.T, pod, reason string) *corev1.Event {
	t.Helper()
	var found *corev1.Event
	rig.Get(await(t.Context(), s.events(), "pod "+pod+" has an event "+reason, func(events map[string]*corev1.Event) error {
		for _, e := range events {
			if e.InvolvedObject.Name == pod && e.Reason == reason {
				found = e
				return nil
			}
		}
		return errNone
	}))(t)
	return found
}

// when returns nil if so is true, and errNo otherwise.
func when(so bool) error {
	if !so {
		return errNo
	}
	return nil
}

func isReady(pod *corev1.Pod) bool {
	c := podCondition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// describe returns a pod's state for messages.
func describe(pod *corev1.Pod) string {
	text := fmt.Sprintf("%s, deleted at %v", pod.Status.Phase, pod.DeletionTimestamp)
	for _, c := range pod.Status.Conditions {
		text += fmt.Sprintf(", %s=%s %s", c.Type, c.Status, c.Message)
	}
	for _, c := range pod.Status.ContainerStatuses {
		text += fmt.Sprintf(", container %s restarted %d times: %+v", c.Name, c.RestartCount, c.State)
	}
	return text
}

// untilNil polls until ask returns no error.
func untilNil(t *testing.T, what string, ask func() error) error {
	t.Helper()
	return control.Until(t.Context(), nil, what, func(context.Context) error { return ask() })
}
