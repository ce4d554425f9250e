package image_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podstream/podstream/internal/imagepolicy"
)

// list is a round of image garbage collection.
func (w *world) list() {
	w.t.Helper()
	done := w.records.Listing()
	list, err := w.runtime.ListImages(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	done(list)
}

func byDigest(id string) string { return "registry.example/private/app@" + digestOf(id) }

// TestMovedTag: a tag moves in the registry while two tenants pull it. Each of the images is recorded for the tenant that has
// pulled it, and the first tenant's container runs the one that its pull has brought.
func TestMovedTag(t *testing.T) {
	w := newWorld(t)
	w.secret("a", "pull", "uid-a", "alice", "sesame")
	w.secret("b", "pull", "uid-b", "bob", "hunter2")
	stored, answer, first := make(chan struct{}), make(chan struct{}), true
	w.runtime.stored = func() error {
		if first {
			first = false
			close(stored)
			<-answer
		}
		return nil
	}
	one := pod("a", v1.PullAlways, app, "pull")
	one.Spec.Containers = append(one.Spec.Containers, one.Spec.Containers[0])
	one.Spec.Containers[1].Name = "side"
	w.ask(one)
	<-stored
	if _, wait, err := w.puller.Ensure(t.Context(), one, &one.Spec.Containers[1], nil); !wait.Pulling || err != nil {
		t.Fatalf("the second container: %+v, %v", wait, err)
	}
	w.runtime.set(func() { w.runtime.offers[app] = "sha256:b0b" })
	w.wantRuns("the second tenant", pod("b", ifNotPresent, app, "pull"))
	close(answer)
	w.await(one)
	for _, c := range one.Spec.Containers {
		got, wait, err := w.puller.Ensure(t.Context(), one, &c, nil)
		if got.GetId() != "sha256:a99" || err != nil {
			t.Errorf("the first tenant's container %s has the image %q, %+v, %v; want that of its pull", c.Name, got.GetId(), wait, err)
		}
		w.puller.Used(one.UID, c.Name)
	}
	w.wantPulls("they", 2)
	for _, when := range []string{"at first", "after a listing", "after a restart"} {
		w.wantRuns(when+": the first tenant by digest", pod("a", v1.PullNever, byDigest("sha256:a99"), "pull"))
		w.wantRuns(when+": the second by digest", pod("b", v1.PullNever, byDigest("sha256:b0b"), "pull"))
		w.wantRuns(when+": the second by tag", pod("b", v1.PullNever, app, "pull"))
		for what, p := range map[string]*v1.Pod{
			"the first tenant, by tag": pod("a", v1.PullNever, app, "pull"),
			"another by tag":           pod("c", v1.PullNever, app),
			"another by digest":        pod("c", v1.PullNever, byDigest("sha256:a99")),
			"another by ID":            pod("c", v1.PullNever, "sha256:a99"),
		} {
			if got := w.starts(p); !strings.HasPrefix(got, "ErrImageNeverPull") {
				t.Errorf("%s: %s: %s", when, what, got)
			}
		}
		if when == "at first" {
			w.list()
		} else {
			w.restart()
		}
	}
	w.wantPulls("afterwards", 0)
}

// TestStoredAndRefused: the runtime answers with an error, or can't be asked, after it has stored the image. The image isn't
// for others, then and after it was listed.
func TestStoredAndRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		stored func(w *world) error
	}{
		{"the pull's answer is an error", func(*world) error { return grpcstatus.Error(codes.Unknown, "failed to unpack") }},
		{"the image can't be looked up after an error", func(w *world) error {
			w.runtime.set(func() { w.runtime.broken = errors.New("no disk") })
			return grpcstatus.Error(codes.Unknown, "failed to unpack")
		}},
		{"the image can't be looked up after the pull", func(w *world) error {
			w.runtime.set(func() { w.runtime.broken = errors.New("no disk") })
			return nil
		}},
		{"the image can't be looked up after the pull, and its tag is gone", func(w *world) error {
			w.runtime.set(func() { w.runtime.broken = errors.New("no disk"); delete(w.runtime.has, app) })
			return nil
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.secret("a", "pull", "uid-a", "alice", "sesame")
			w.runtime.stored = func() error { return tc.stored(w) }
			if got := w.starts(pod("a", v1.PullAlways, app, "pull")); !strings.HasPrefix(got, "ErrImagePull: ") {
				t.Fatal(got)
			}
			w.runtime.set(func() { w.runtime.stored = nil })
			for range 3 {
				for _, name := range []string{app, byDigest("sha256:a99")} {
					if got := w.starts(pod("b", v1.PullNever, name)); !strings.HasPrefix(got, "ErrImageNeverPull") {
						t.Errorf("another pod with %s: %s", name, got)
					}
				}
				w.list()
			}
			w.wantRuns("a pod with the secret", pod("a", ifNotPresent, app, "pull"))
		})
	}
}

// TestByID: an ID in a pod's spec is no name of a repository at Docker Hub. A loaded image may be used by it; another image
// may not, whatever the allowlist has, and isn't pulled by it.
func TestByID(t *testing.T) {
	w := newWorld(t)
	w.secret("a", "pull", "uid-a", "alice", "sesame")
	w.wantRuns("the tenant with the secret", pod("a", ifNotPresent, app, "pull"))
	w.wantPulls("it", 1)
	w.wantRuns("a loaded image", pod("b", v1.PullNever, "sha256:10ad"))
	allowlisted, err := imagepolicy.New(kubeletconfigv1beta1.NeverVerifyAllowlistedImages, []string{"docker.io/library/*"})
	if err != nil {
		t.Fatal(err)
	}
	for _, policy := range []imagepolicy.Policy{{}, allowlisted} {
		w.policy = policy
		w.restart()
		w.wantRuns("a loaded image by name", pod("b", v1.PullNever, "loaded:1"))
		for _, id := range []string{"sha256:a99", "sha256:a"} {
			if got := w.starts(pod("b", v1.PullNever, id)); !strings.HasPrefix(got, "ErrImageNeverPull") {
				t.Errorf("Never, %s: %s", id, got)
			}
			if got := w.starts(pod("b", ifNotPresent, id)); got != "ErrImagePull: "+id+" is an ID, and registries have no images by ID" {
				t.Errorf("IfNotPresent, %s: %s", id, got)
			}
		}
	}
	w.wantPulls("they", 0)
}
