package image

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestTextsAreBounded: neither a pod's image nor the runtime's error makes a message or an error longer than 4 KiB.
func TestTextsAreBounded(t *testing.T) {
	const limit = maxMessage + len("…")
	check := func(t *testing.T, wait *Wait, err error) {
		t.Helper()
		if len(wait.Message) > limit {
			t.Errorf("%s has a message of %d bytes", wait.Reason, len(wait.Message))
		}
		if err != nil && len(err.Error()) > limit {
			t.Errorf("%s has an error of %d bytes", wait.Reason, len(err.Error()))
		}
	}
	for name, image := range map[string]string{
		"name":       longText(1 << 20),
		"upper case": strings.Repeat("A", 1<<20),
		"tag":        "a:" + longText(1<<20),
		"digest":     "a@sha256:" + longText(1<<20),
		"no text":    strings.Repeat("\x01", maxReference),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, Config{})
			p := pod("1", image)
			_, wait, err := s.Ensure(t.Context(), p, &p.Spec.Containers[0], nil)
			if wait == nil || wait.Reason != InvalidImageName || !errors.Is(err, ErrReference) {
				t.Fatalf("%+v, %v", wait, err)
			}
			check(t, wait, err)
		})
	}
	t.Run("runtime", func(t *testing.T) {
		s := newSim(t, Config{})
		fail := "ImageStatus"
		s.SetFault(func(_ context.Context, method string) error {
			if method == fail {
				return status.Error(codes.Internal, longText(1<<20))
			}
			return nil
		})
		p := pod("1", "sim/app:1")
		_, wait, err := s.Ensure(t.Context(), p, &p.Spec.Containers[0], nil)
		check(t, wait, err)
		fail = "PullImage"
		s.want(p, 0, "pulling")
		s.wantDone(p)
		for _, reason := range []string{ErrImagePull, ImagePullBackOff} {
			_, wait, err = s.Ensure(t.Context(), p, &p.Spec.Containers[0], nil)
			if wait.Reason != reason {
				t.Errorf("reason %s; want %s", wait.Reason, reason)
			}
			check(t, wait, err)
		}
		// The error is still the runtime's.
		if err := clipError(status.Error(codes.Unavailable, longText(1<<20))); status.Code(err) != codes.Unavailable {
			t.Errorf("code %v", status.Code(err))
		}
	})
}

// TestCancelledLook: what a cancelled call doesn't find out is no failure of the pod.
func TestCancelledLook(t *testing.T) {
	s := newSim(t, Config{})
	p := pod("1", "sim/app:1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, wait, err := s.Ensure(ctx, p, &p.Spec.Containers[0], nil); wait == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v; want that the context is cancelled", wait, err)
	}
	if said := s.said(); len(said) > 0 {
		t.Errorf("events %q; want none", said)
	}
}

// TestPresentIsRecordedForEachImage: a container's image is recorded as present also if the image of one of its volumes
// was, once for each.
func TestPresentIsRecordedForEachImage(t *testing.T) {
	s := newSim(t, Config{})
	own := pod("1", "localhost/app:1")
	volume := own.Spec.Containers[0].DeepCopy()
	volume.Image = "localhost/sample:1"
	for range 2 {
		if _, wait, err := s.Ensure(t.Context(), own, volume, nil); wait != nil {
			t.Fatalf("%+v, %v", wait, err)
		}
		s.want(own, 0, "present")
	}
	want := []string{
		`a Pulled: Container image "localhost/sample:1" already present on machine and can be accessed by the pod`,
		`a Pulled: Container image "localhost/app:1" already present on machine and can be accessed by the pod`,
	}
	if got := s.said(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("events %q; want %q", got, want)
	}
}

// TestKnownImages: while a pod waits for an image, those that the runtime has aren't looked for at each request, but
// again after a while, and after a container was created.
func TestKnownImages(t *testing.T) {
	s := newSim(t, Config{})
	p := pod("1", "localhost/app:1", "slow/app:1h", "sim/app:1")
	looks := func() int { return s.Server.Calls()["ImageStatus"] }
	s.want(p, 0, "present")
	s.want(p, 1, "pulling")
	receive(t, s.clock.Set)
	s.want(p, 2, "pulling")
	s.wantDone(p)
	before := looks()
	ask := func(want int) {
		t.Helper()
		for range 5 {
			s.want(p, 0, "present")
			s.want(p, 2, "present")
		}
		if got := looks() - before; got != want {
			t.Errorf("%d looks; want %d", got, want)
		}
		before = looks()
	}
	ask(0)
	s.clock.Step(freshFor - time.Second)
	ask(0)
	s.clock.Step(time.Second)
	ask(2)
	s.Used(p.UID, "a")
	ask(2)
	if image, wait, err := s.Ensure(t.Context(), p, &p.Spec.Containers[0], nil); image.GetId() == "" {
		t.Errorf("image %v, %v, %v; want its ID", image, wait, err)
	}
}
