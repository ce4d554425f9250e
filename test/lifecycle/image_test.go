package lifecycle

import (
	"slices"
	"strings"
	"testing"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
)

// If an image isn't available, the pod's status has the kubelet's reason.
func TestImageReasons(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, image, policy, reason, event, text string }{
		{"never pulled", "podstream.invalid/none:v1", "Never", "ErrImageNeverPull", "ErrImageNeverPull", "not present with pull policy of Never"},
		{"no name", "podstream.invalid/None:v1", "IfNotPresent", "InvalidImageName", "InspectFailed", "podstream.invalid/None:v1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			on(t, all, func(t *testing.T, b *bench) {
				p := b.run(t, `
containers:
- {name: main, image: "`+c.image+`", imagePullPolicy: `+c.policy+`}`)
				p.await("main waits for "+c.reason, func(s *state) bool { return s.waitsFor("main") == c.reason })
				p.awaitEvent(c.event, c.text)
				p.awaitEvent("Failed", "Error: "+c.reason)
			})
		})
	}
}

// A pull that fails is retried after a delay. Other containers don't wait for it.
func TestPullBackOff(t *testing.T) {
	on(t, all, func(t *testing.T, b *bench) {
		image := sharedHub(t).address + "/public/" + b.podName(t) + ":v1"
		p := b.run(t, `
containers:
- {name: main, image: "`+image+`"}
- {name: other, args: [sleep]}`)
		p.await("the pull has failed", func(s *state) bool { return s.waitsFor("main") == "ErrImagePull" })
		s := p.await("the next pull is delayed", func(s *state) bool { return s.waitsFor("main") == "ImagePullBackOff" })
		if text := s.of("main").State.Waiting.Message; !strings.Contains(text, "Back-off pulling image \""+image+"\"") {
			t.Errorf("the message is %q", text)
		}
		p.awaitEvent("Pulling", image)
		p.awaitEvent("Failed", "Failed to pull image", image)
		p.awaitEvent("Failed", "Error: ErrImagePull")
		p.awaitEvent("BackOff", "Back-off pulling image", image)
		p.awaitNow("other runs", func(s *state) bool { return s.runs("other") })
	})
}

// An image that is pushed to the registry later is pulled at the next attempt.
func TestImageAppears(t *testing.T) {
	on(t, containerds, func(t *testing.T, b *bench) {
		hub, repository := sharedHub(t), "public/"+b.podName(t)
		p := b.run(t, `
containers:
- {name: main, image: "`+hub.address+`/`+repository+`:v1", args: [sleep]}`)
		p.await("the pull has failed", func(s *state) bool { return s.waitsFor("main") == "ErrImagePull" })
		image := hub.push(t, repository)
		s := p.awaitReady()
		p.awaitEvent("Pulled", "Successfully pulled image", image)
		if got := s.of("main"); !strings.Contains(got.ImageID, "sha256:") {
			t.Errorf("main has the image %q", got.ImageID)
		}
	})
}

// A private image is pulled with the Secret that imagePullSecrets names and that is in the same manifest. When the
// Secret is corrected, the image is pulled.
func TestImagePullSecrets(t *testing.T) {
	on(t, containerds, func(t *testing.T, b *bench) {
		hub := sharedHub(t)
		secret := b.podName(t)
		image := hub.push(t, "private/"+secret)
		spec := `
imagePullSecrets: [{name: ` + secret + `}]
containers:
- {name: main, image: "` + image + `", imagePullPolicy: Always, args: [sleep]}`
		p := b.run(t, spec, hub.pullSecret(secret, "wrong"))
		s := p.await("the password is wrong", func(s *state) bool { return s.waitsFor("main") == "ErrImagePull" })
		p.beside = []any{hub.pullSecret(secret, hubPassword)}
		p.write(spec)
		if now := p.awaitReady(); now.uid != s.uid {
			t.Errorf("the pod's UID is %s, and was %s before the change of the Secret", now.uid, s.uid)
		}
	})
}

// A missing pull secret is reported, and the image is pulled without it.
func TestMissingPullSecret(t *testing.T) {
	on(t, latestContainerd, func(t *testing.T, b *bench) {
		hub := sharedHub(t)
		image := hub.push(t, "public/"+b.podName(t))
		p := b.run(t, `
imagePullSecrets: [{name: missing}]
containers:
- {name: main, image: "`+image+`", args: [sleep]}`)
		p.awaitEvent("FailedToRetrieveImagePullSecret", "missing")
		p.awaitReady()
	})
}

// slowImages returns two images whose pulls last until release is called. With the simulated runtime they last 5 s.
func slowImages(t *testing.T, b *bench) (images []string, release func()) {
	if b.runtime == devnode.Sim {
		return []string{"slow/" + b.podName(t) + ":v1", "slow/" + b.podName(t) + ":v1"}, func() {}
	}
	hub := sharedHub(t)
	var opens []func()
	for range 2 {
		repository := "gated/" + b.podName(t)
		images = append(images, hub.push(t, repository))
		opens = append(opens, hub.gate(repository))
	}
	release = func() {
		for _, open := range opens {
			open()
		}
	}
	t.Cleanup(release)
	return images, release
}

// started counts the pulls that the runtime has started.
func started(pulls []*podexecv1.ImagePull) int {
	return len(slices.DeleteFunc(slices.Clone(pulls), func(p *podexecv1.ImagePull) bool { return p.GetStartedTime() == nil }))
}

const twoImages = `
containers:
- {name: one, image: "IMAGE0", args: [sleep]}
- {name: two, image: "IMAGE1", args: [sleep]}`

// Images are pulled in parallel. The status shows the current pulls and their start times.
func TestParallelPulls(t *testing.T) {
	on(t, all, func(t *testing.T, b *bench) {
		images, release := slowImages(t, b)
		p := b.run(t, strings.NewReplacer("IMAGE0", images[0], "IMAGE1", images[1]).Replace(twoImages))
		s := p.await("both are being pulled", func(s *state) bool { return started(s.pulls) == 2 })
		if s.waitsFor("one") != "ContainerCreating" || s.waitsFor("two") != "ContainerCreating" {
			t.Errorf("one is %+v, two %+v", s.of("one").State, s.of("two").State)
		}
		release()
		p.awaitReady()
	})
}

// With --serialize-image-pulls, the second pull waits for the first.
func TestSerialPulls(t *testing.T) {
	onOwnBench(t, latest, []string{"--serialize-image-pulls=true"}, func(t *testing.T, b *bench) {
		images, release := slowImages(t, b)
		p := b.run(t, strings.NewReplacer("IMAGE0", images[0], "IMAGE1", images[1]).Replace(twoImages))
		p.await("one is being pulled, one waits", func(s *state) bool { return len(s.pulls) == 2 && started(s.pulls) == 1 })
		p.never("two are pulled at a time", func(s *state) bool { return started(s.pulls) == 2 })
		release()
		p.awaitReady()
		p.never("two are pulled at a time", func(s *state) bool { return started(s.pulls) == 2 })
	})
}

// A pod may be removed while its image is being pulled.
func TestRemovedWhilePulling(t *testing.T) {
	on(t, all, func(t *testing.T, b *bench) {
		images, _ := slowImages(t, b)
		p := b.run(t, `
containers:
- {name: main, image: "`+images[0]+`", args: [sleep]}`)
		p.await("the image is being pulled", func(s *state) bool { return started(s.pulls) == 1 })
		p.remove()
		p.awaitGone()
	})
}
