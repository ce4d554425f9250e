package lifecycle

import (
	"strings"
	"testing"

	"github.com/podstream/podstream/test/devnode"
)

// A private image that one pod has pulled isn't for a pod without its credentials, under any of its names, whether
// podexecd was killed in between or not. The loaded image with the same content stays usable for all.
func TestPrivateImages(t *testing.T) {
	onOwnBench(t, containerds, nil, func(t *testing.T, b *bench) {
		hub := sharedHub(t)
		name := b.podName(t)
		image := hub.push(t, "private/"+name)
		with := func(image, policy, secret string) string {
			spec := `
containers:
- {name: main, image: "` + image + `", imagePullPolicy: ` + policy + `, args: [sleep]}`
			if secret != "" {
				spec += "\nimagePullSecrets: [{name: " + secret + "}]"
			}
			return spec
		}
		refused := func(p *pod, why string) {
			t.Helper()
			p.await(why+": it waits", func(s *state) bool { return s.waitsFor("main") == "ErrImagePull" || s.runs("main") })
			if s := p.now(); s.runs("main") {
				t.Fatalf("%s: it runs", why)
			}
			p.awaitEvent("Failed", "Failed to pull image")
			p.awaitEvent("Failed", "Error: ErrImagePull")
		}
		first := b.run(t, with(image, "IfNotPresent", name), hub.pullSecret(name, hubPassword))
		ready := first.awaitReady()
		// Other tests push the same image: the runtime may report it by the name of theirs.
		_, digest, found := strings.Cut(ready.of("main").ImageID, "@sha256:")
		if !found {
			t.Fatalf("the image is %q; want one with a digest", ready.of("main").ImageID)
		}
		digest = strings.TrimSuffix(image, ":v1") + "@sha256:" + digest
		for _, when := range []string{"at first", "after a restart"} {
			refused(b.run(t, with(image, "IfNotPresent", "")), when+", without a secret")
			refused(b.run(t, with(image, "IfNotPresent", "wrong-"+name), hub.pullSecret("wrong-"+name, "wrong")), when+", with a wrong secret")
			refused(b.run(t, with(digest, "IfNotPresent", "")), when+", by digest")
			never := b.run(t, with(image, "Never", ""))
			never.await(when+", with the policy Never: it waits", func(s *state) bool { return s.waitsFor("main") == "ErrImageNeverPull" })
			never.awaitEvent("ErrImageNeverPull", "is not present with pull policy of Never")
			good := b.run(t, with(image, "Never", "good-"+name), hub.pullSecret("good-"+name, hubPassword))
			good.awaitReady()
			good.awaitEvent("Pulled", "already present on machine and can be accessed by the pod")
			good.remove()
			good.awaitGone()
			b.run(t, with(devnode.SampleImage, "Never", "")).awaitReady()
			b.restartPodexecd(t, (*devnode.Process).Kill)
		}
	})
}

// An image volume is verified like a container's image.
func TestPrivateImageVolume(t *testing.T) {
	onOwnBench(t, latestContainerd, nil, func(t *testing.T, b *bench) {
		hub := sharedHub(t)
		name := b.podName(t)
		image := hub.push(t, "private/"+name)
		spec := `
containers:
- {name: main, args: [sleep], volumeMounts: [{name: files, mountPath: /files}]}
volumes: [{name: files, image: {reference: "` + image + `", pullPolicy: IfNotPresent}}]`
		b.run(t, spec+"\nimagePullSecrets: [{name: "+name+"}]", hub.pullSecret(name, hubPassword)).awaitReady()
		other := b.run(t, spec)
		other.await("it waits", func(s *state) bool { return s.waitsFor("main") == "ErrImagePull" || s.runs("main") })
		if s := other.now(); s.runs("main") {
			t.Error("it runs")
		}
		other.awaitEvent("Failed", "Failed to pull image")
	})
}
