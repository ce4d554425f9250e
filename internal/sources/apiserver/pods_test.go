package apiserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

func TestPodLife(t *testing.T) {
	server := apitest.New(t, apitest.Config{CA: certtest.NewCA(t, "cluster")})
	server.Put(newPod("a"), onNode(newPod("other"), "n2"))
	r := read(t, server)
	first, at := r.awaitPods(0, "ns/a")
	if pod := podOf(t, first, "ns/a"); len(pod.ManagedFields) > 0 || pod.Kind != "Pod" || pod.UID == "" {
		t.Errorf("the pod has managedFields %v, kind %q, UID %q", pod.ManagedFields, pod.Kind, pod.UID)
	}

	server.Put(newPod("b"))
	second, at := r.awaitPods(at, "ns/a", "ns/b")
	if first.Origins[0] != second.Origins[0] {
		t.Error("a pod that didn't change has another Origin")
	}

	changed := newPod("b")
	changed.Spec.Containers[0].Image = "image:2"
	server.Put(changed)
	third, at := r.await("the new image", at, func(s manifest.Set) bool {
		return podOf(t, s, "ns/b").Spec.Containers[0].Image == "image:2"
	})
	if podOf(t, second, "ns/b").SpecDigest == podOf(t, third, "ns/b").SpecDigest {
		t.Error("the spec digest stayed, though the image changed")
	}

	changed.Status.Phase = v1.PodSucceeded
	server.Put(changed)
	fourth, at := r.await("the terminal status", at, func(s manifest.Set) bool {
		return podOf(t, s, "ns/b").Status.Phase == v1.PodSucceeded
	})
	was, is := podOf(t, third, "ns/b"), podOf(t, fourth, "ns/b")
	if was.SpecDigest != is.SpecDigest || was.StatusDigest == is.StatusDigest {
		t.Error("a change of the status alone changed the spec digest, or left the status digest")
	}

	now, grace := metav1.NewTime(time.Now().Truncate(time.Second)), int64(30)
	changed.DeletionTimestamp, changed.DeletionGracePeriodSeconds = &now, &grace
	server.Put(changed)
	_, at = r.await("the graceful deletion", at, func(s manifest.Set) bool {
		return podOf(t, s, "ns/b").DeletionTimestamp.Equal(&now)
	})
	server.Delete(changed)
	r.awaitPods(at, "ns/a")

	accept := server.View().Requests[0].Accept
	if !strings.HasPrefix(accept, runtime.ContentTypeProtobuf) {
		t.Errorf("the client asks for %s first", accept)
	}
}

func TestRecreationUnderTheSameName(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	server.Put(withUID(newPod("a"), "first"))
	r := read(t, server)
	_, at := r.awaitPods(0, "ns/a")
	server.Put(withUID(newPod("a"), "second"))
	set, _ := r.await("the second pod", at, func(s manifest.Set) bool {
		return len(s.Origins) == 1 && s.Origins[0].Pods[0].UID == "second"
	})
	if set.Origins[0].Name != "ns/a" {
		t.Errorf("its origin is %s", set.Origins[0].Name)
	}
}

func TestMirrorPodIsPassedOnAsItIs(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	mirror := newPod("static-n1")
	mirror.Annotations = map[string]string{
		manifest.MirrorAnnotation: "hash", manifest.HashAnnotation: "hash", manifest.SourceAnnotation: "file",
	}
	server.Put(mirror)
	set, _ := read(t, server).awaitPods(0, "ns/static-n1")
	if got := podOf(t, set, "ns/static-n1").Annotations; fmt.Sprint(got) != fmt.Sprint(mirror.Annotations) {
		t.Errorf("its annotations are %v", got)
	}
}

func TestTooLargePodIsHeld(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	r := read(t, server)
	_, at := r.awaitPods(0)
	large := newPod("large")
	large.Annotations = map[string]string{"text": strings.Repeat("x", 2<<20)}
	server.Put(large, newPod("small"))
	set, _ := r.awaitPods(at, "ns/large", "ns/small")
	origin := set.Origins[0]
	if !origin.Held || len(origin.Pods) > 0 || len(origin.Findings) == 0 {
		t.Errorf("held %v, %d pods, findings %v", origin.Held, len(origin.Pods), origin.Findings)
	}
	if podOf(t, set, "ns/small").Name != "small" {
		t.Error("the small pod is missing")
	}
}

func TestManyNodesTakeOneWatch(t *testing.T) {
	for name, test := range map[string]struct {
		nodes []string
		want  []string
	}{
		"some": {[]string{"n1", "n3", "n3"}, []string{"ns/p1", "ns/p3"}},
		"all":  {[]string{AllNodes}, []string{"ns/p1", "ns/p2", "ns/p3"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := apitest.New(t, apitest.Config{})
			server.Put(onNode(newPod("p1"), "n1"), onNode(newPod("p2"), "n2"), onNode(newPod("waits"), ""))
			r := start(t, newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{}), Nodes: test.nodes}))
			server.AwaitWatches("pods", 1)
			// A pod is created without a node, and then bound to this node.
			server.Put(onNode(newPod("p3"), ""))
			server.Put(onNode(newPod("p3"), "n3"))
			r.awaitPods(0, test.want...)
			view := server.View()
			if len(view.Watches) != 1 || view.Watches[0].FieldSelector != "spec.nodeName!=" || view.Watches[0].Namespace != "" {
				t.Errorf("the open watches are %+v", view.Watches)
			}
			if n := view.Answered(isOfPods); n != 1 {
				t.Errorf("it took %d requests", n)
			}
			if name == "all" {
				return
			}
			// Other nodes' pods produce no sets.
			_, at := r.awaitPods(0, test.want...)
			for i := range 20 {
				server.Put(onNode(newPod(fmt.Sprintf("foreign%d", i)), "n2"))
			}
			server.Put(onNode(newPod("p4"), "n1"))
			if _, n := r.awaitPods(at, "ns/p1", "ns/p3", "ns/p4"); n != at+1 {
				t.Errorf("20 foreign pods and one of its own produced %d sets", n-at)
			}
		})
	}
}

// TestFloodComesInOneSet: changes while a set is being handled come in the next set, however many they are.
func TestFloodComesInOneSet(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	sets, taken := make(chan manifest.Set), make(chan struct{})
	s := newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{})})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, func(set manifest.Set) {
			select {
			case sets <- set:
			case <-ctx.Done():
			}
			select {
			case <-taken:
			case <-ctx.Done():
			}
		})
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run returned %v", err)
		}
	}()
	<-sets
	server.AwaitWatches("pods", 1)
	var names []string
	for i := range 2000 {
		server.Put(newPod(fmt.Sprintf("p%04d", i%500)))
	}
	for i := range 500 {
		names = append(names, fmt.Sprintf("ns/p%04d", i))
	}
	last := server.Version()
	// A reflector that resumes from the last version has read everything before it.
	server.EndWatches()
	server.Await("the next watch", func(v apitest.View) bool {
		return v.Count(func(r apitest.Request) bool { return r.ResourceVersion == last }, "pods") == 1
	})
	taken <- struct{}{}
	set := <-sets
	if !slices.Equal(originNames(set), names) || podOf(t, set, "ns/p0499").ResourceVersion != last {
		t.Errorf("the set after the flood has %d pods: %s", len(set.Origins), describe(set))
	}
}

// TestRelayPathIsNotBelieved: otherwise any user that may create a pod could make it look relayed.
func TestRelayPathIsNotBelieved(t *testing.T) {
	server := apitest.New(t, apitest.Config{})
	pod := newPod("a")
	pod.Annotations = map[string]string{manifest.RelayPathAnnotation: "n1(1234abcd)/file", "note": "kept"}
	server.Put(pod)
	r := read(t, server)
	set, at := r.awaitPods(0, "ns/a")
	server.AwaitWatches("pods", 1)
	pod.Name = "b"
	server.Put(pod)
	next, _ := r.awaitPods(at, "ns/a", "ns/b")
	for _, got := range []*manifest.Pod{podOf(t, set, "ns/a"), podOf(t, next, "ns/b")} {
		if fmt.Sprint(got.Annotations) != "map[note:kept]" {
			t.Errorf("the annotations of %s are %v", got.Name, got.Annotations)
		}
	}
}
