package world

import (
	"context"
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/injectd/inject"
)

// TestAlone is for tests that need a podexecd without other pods, because they end it or fill the node.
func TestAlone(t *testing.T) {
	t.Parallel()
	onOwnBench(t, latest, []string{"--max-pods=2"}, func(t *testing.T, b *bench) {
		t.Run("fsGroupChangePolicy", func(t *testing.T) { testFSGroupChangePolicy(t, b) })
		api := newAPISource(t, b)
		t.Run("full-node", func(t *testing.T) { testFullNode(t, b, api.in(t)) })
		t.Run("resize", func(t *testing.T) { testResize(t, b, api.in(t)) })
	})
}

// testFullNode: admission of pods of an API server and of static pods, on a node with room for two pods.
func testFullNode(t *testing.T, b *bench, api *apiSource) {
	api.apply(apiPod("greedy", "1000", "0"), apiPod("vast", "0", "1000Ti"))
	api.await("greedy", refused("OutOfcpu", "Node didn't have enough resource: cpu, requested: 1000000, used: 0, capacity: "))
	api.await("vast", refused("OutOfmemory", "Node didn't have enough resource: memory, requested: 1099511627776000, used: 0, capacity: "))
	api.apply(apiPod("first", "0", "0"), apiPod("second", "100m", "32Mi"))
	api.await("first", isReady)
	api.await("second", isReady)

	// One more pod is rejected, unless it is critical.
	api.apply(apiPod("first", "0", "0"), apiPod("second", "100m", "32Mi"), apiPod("third", "0", "0"))
	api.await("third", refused("OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2"))

	// A static pod is critical. The pod without requests is preempted.
	static := newPod(t, b, "static")
	static.write("", `{}`, nil, nil)
	static.awaitReady()
	api.await("first", func(pod *v1.Pod) error {
		s := pod.Status
		if s.Phase != v1.PodFailed || s.Reason != "Preempting" || s.Message != "Preempted in order to admit critical pod" {
			return fmt.Errorf("it is %s for %q: %q", s.Phase, s.Reason, s.Message)
		}
		return nil
	})
	api.await("second", isReady)

	// For the next static pod, the last pod of the API server is preempted. A third one finds only static pods, and
	// waits until one ends.
	last, outside := newPod(t, b, "last"), newPod(t, b, "outside")
	last.write("", `{}`, nil, nil)
	last.awaitReady()
	api.await("second", func(pod *v1.Pod) error { return same("the reason", pod.Status.Reason, "Preempting") })
	outside.write("", `{}`, nil, nil)
	outside.awaitRefusal("UnexpectedAdmissionError", "no set of running pods found to reclaim resources: [(res: pods, q: 1), ]")
	api.apply()
	outside.awaitReadyAfter(static.remove)
}

func isReady(pod *v1.Pod) error {
	if !ready(pod) {
		return fmt.Errorf("it is %s: %s: %s", pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
	}
	return nil
}

// apiSource stands for an API server as a source of podconfigd.
type apiSource struct {
	t      *testing.T
	b      *bench
	client *inject.Client
}

// newAPISource replaces the bench's podconfigd with one that also has the source api. Its pods are removed when the
// test ends.
func newAPISource(t *testing.T, b *bench) *apiSource {
	t.Helper()
	check(t, b.Podconfigd.Kill())
	socket := b.Node.Socket(b.Name + "i")
	var err error
	b.Podconfigd, err = b.Node.StartDaemonAs(b.Name+"-injectd", "injectd",
		append(b.PodconfigdArgs(), "--inject-source=api", "--inject-listen=unix://"+socket)...)
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := inject.Dial(ctx, socket)
	check(t, err)
	s := &apiSource{t: t, b: b, client: client}
	t.Cleanup(func() {
		s.apply()
		check(t, client.Close())
	})
	return s
}

// in returns the apiSource for a subtest.
func (s *apiSource) in(t *testing.T) *apiSource { return &apiSource{t: t, b: s.b, client: s.client} }

// apply replaces all pods that the API server has for the node.
func (s *apiSource) apply(pods ...*v1.Pod) {
	s.t.Helper()
	set := inject.Set{Source: "api"}
	for _, p := range pods {
		p.Spec.NodeName = s.b.Name
		p.Name += "-" + s.b.Name // the suffix by which the bench identifies its pods
		set.Origins = append(set.Origins, inject.Origin{Name: p.Namespace + "/" + p.Name, Pods: []*v1.Pod{p}})
	}
	_, err := s.client.Apply(set)
	check(s.t, err)
}

// await waits until the function is returns nil for the pod.
func (s *apiSource) await(name string, is func(*v1.Pod) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	err := s.b.await(ctx, func() error {
		pod := s.b.pod(name + "-" + s.b.Name)
		if pod == nil {
			return errors.New("podexecd has no such pod")
		}
		return is(pod)
	})
	if err != nil {
		s.t.Fatalf("pod %s: %v", name, err)
	}
}

// apiPod returns a pod with its defaults, as an API server stores it, with these requests.
func apiPod(name, cpu, memory string) *v1.Pod {
	requests := v1.ResourceList{}
	for name, text := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
		if text != "0" {
			requests[name] = resource.MustParse(text)
		}
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: name, UID: types.UID("api-" + name)},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyAlways, DNSPolicy: v1.DNSDefault, TerminationGracePeriodSeconds: ptr.To[int64](1), Priority: ptr.To[int32](0),
			Containers: []v1.Container{{
				Name: "main", Image: devnode.SampleImage, ImagePullPolicy: v1.PullNever, Args: []string{"sleep"},
				TerminationMessagePath: v1.TerminationMessagePathDefault, TerminationMessagePolicy: v1.TerminationMessageReadFile,
				Resources: v1.ResourceRequirements{Requests: requests},
			}},
		},
	}
}
