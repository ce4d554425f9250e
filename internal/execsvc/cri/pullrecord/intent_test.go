package pullrecord

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
	"github.com/podstream/podstream/internal/imagepolicy"
)

const intentText = `{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"%s"}`

func (n *node) write(dir, name, text string) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// TestDamagedIntent: an image that may be from the pull of an intent that can't be used must be pulled, under each policy,
// by each spelling of its name, until it has a record. The intent is logged, and stays; a pull that fails doesn't end it.
func TestDamagedIntent(t *testing.T) {
	const full = "docker.io/library/app:latest"
	for _, spelling := range []string{"app", "app:latest", "library/app", "docker.io/app", "index.docker.io/library/app:latest", full} {
		for name, text := range map[string]string{"empty": "", "cut off": fmt.Sprintf(intentText, spelling)[:50], "another image": fmt.Sprintf(intentText, "a:1")} {
			t.Run(spelling+", "+name, func(t *testing.T) {
				n := newNode(t)
				n.write(n.pulling, fileName(spelling), text)
				n.restart()
				tags := []string{full, "docker.io/library/app@sha256:12"}
				refused := func(when string) {
					t.Helper()
					for _, given := range []string{spelling, "app", full, "docker.io/library/app@sha256:" + strings.Repeat("12", 32), "sha256:1111"} {
						if n.may(given, id, tags) || n.may(given, id, tags, secretOf("a")) {
							t.Errorf("%s: %s may be used", when, given)
						}
					}
					if !n.may("registry.example/app:latest", "sha256:2222", []string{"registry.example/app:latest"}) {
						t.Errorf("%s: another image can't be used", when)
					}
				}
				refused("at first")
				if !strings.Contains(n.log.String(), "an image pull intent can't be used; an image by its name must be pulled again") ||
					!strings.Contains(n.log.String(), "an image pull intent can't be used; the image must be pulled again") {
					t.Errorf("the log has\n%s", &n.log)
				}
				n.list()
				n.list()
				n.wantFiles(1, 0)
				refused("when it isn't listed")
				failed := n.intend(spelling, "")
				refused("during a pull")
				if err := failed.Failed(); err != nil {
					t.Fatal(err)
				}
				refused("after a pull that has failed")
				n.restart()
				refused("after a restart")
				n.list(id + " " + strings.Join(tags, " "))
				refused("when it is listed")
				n.wantFiles(0, 1)
				n.pull(full, id, secretOf("a"))
				if !n.may(full, id, tags, secretOf("a")) || n.may(full, id, tags) {
					t.Error("after a pull it isn't for the pod with the secret only")
				}
			})
		}
	}
	n := newNode(t)
	n.write(n.pulling, fileName(app), "")
	for _, policy := range []kubeletconfigv1beta1.ImagePullCredentialsVerificationPolicy{imagepolicy.NeverVerify, imagepolicy.AlwaysVerify, ""} {
		n.restart()
		n.cfg.Policy, _ = imagepolicy.New(policy, nil)
		if n.may(app, id, []string{app}) {
			t.Errorf("%q: it may be used", policy)
		}
	}
}

// TestMisnamedIntent: an intent in the file of another image's name concerns both.
func TestMisnamedIntent(t *testing.T) {
	n := newNode(t)
	n.write(n.pulling, fileName("registry.example/other:1"), fmt.Sprintf(intentText, app))
	n.restart()
	for _, name := range []string{app, "registry.example/other:1"} {
		if n.may(name, id, []string{name}) {
			t.Errorf("%s may be used", name)
		}
	}
}

// TestManyIntents: those of a previous process all count, however many it has left; no pull is added to more than the bound.
func TestManyIntents(t *testing.T) {
	n := newNode(t)
	last := "" // as the files are read
	for i := range maxIntents + 1 {
		name := fmt.Sprint("registry.example/app:", i)
		n.write(n.pulling, fileName(name), fmt.Sprintf(intentText, name))
		if last == "" || fileName(name) > fileName(last) {
			last = name
		}
	}
	n.restart()
	if n.may(last, id, []string{last}) {
		t.Errorf("%s may be used", last)
	}
	if _, err := n.Intend(app, ""); err == nil {
		t.Error("one more pull may start")
	}
}

// TestMovedTag: another pull has moved the tag of an interrupted pull, so that its image has only a digest. Images that were
// there before it, and those with another tag, aren't from it.
func TestMovedTag(t *testing.T) {
	const digest = "registry.example/team/app@sha256:"
	for _, tc := range []struct {
		name      string
		interrupt func(n *node)
		// before reports whether the image that was listed before is known not to be from the pull.
		before bool
	}{
		{"under way", func(n *node) { n.intend(app, "") }, true},
		{"interrupted", func(n *node) { n.intend(app, "").Interrupted() }, true},
		{"the end of the process", func(n *node) { n.intend(app, ""); n.restart() }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNode(t)
			there := []string{"sha256:3333 " + digest + "33", "sha256:4444 registry.example/team/app:4 " + digest + "44", "sha256:5555 registry.example/other@sha256:55"}
			n.list(there...)
			tc.interrupt(n)
			n.pull(app, "sha256:2222", secretOf("b"))
			by := digest + strings.Repeat("12", 32)
			check := func(when string) {
				t.Helper()
				if n.may(by, id, []string{by}) || n.may("sha256:1111", id, []string{by}) {
					t.Errorf("%s: it may be used", when)
				}
				if n.may(by, "sha256:3333", []string{digest + "33"}) != tc.before {
					t.Errorf("%s: an image that was listed before: %t", when, !tc.before)
				}
				if !n.may("registry.example/team/app:4", "sha256:4444", []string{"registry.example/team/app:4", digest + "44"}) {
					t.Errorf("%s: an image with another tag can't be used", when)
				}
				if !n.may("registry.example/other:5", "sha256:5555", []string{"registry.example/other@sha256:55"}) {
					t.Errorf("%s: an image of another repository can't be used", when)
				}
			}
			check("at first")
			for range 3 {
				n.list(append(there, id+" "+by, "sha256:2222 "+app)...)
				check("after a listing")
			}
			if tc.name != "under way" {
				n.restart()
				check("after a restart")
			}
		})
	}
}

// TestOtherRegistry: a runtime may complete a short name by another registry. Then the image is for no pod by the runtime's
// names of it, unless the pod pulls it by one of these.
func TestOtherRegistry(t *testing.T) {
	n := newNode(t)
	names := []string{"quay.example/team/app:1", "quay.example/team/app@sha256:12"}
	pull := func() {
		t.Helper()
		if err := n.intend("team/app:1", "").Pulled(&runtimeapi.Image{Id: id, RepoTags: names[:1], RepoDigests: names[1:]}, []imageaccess.Login{secretOf("a")}); err != nil {
			t.Fatal(err)
		}
	}
	pull()
	for range 2 {
		if !n.may("team/app:1", id, names, secretOf("a")) || n.may("team/app:1", id, names) {
			t.Error("by the short name it isn't for the pod with the secret only")
		}
		if n.may("quay.example/team/app:1", id, names) {
			t.Error("by the runtime's name it may be used")
		}
		n.restart()
	}
	// A record that was complete isn't any more.
	n = newNode(t)
	n.pull("registry.example/copy:1", id, secretOf("b"))
	if !n.may("quay.example/team/app:1", id, names) {
		t.Error("a loaded image can't be used: this test shows nothing")
	}
	pull()
	if n.may("quay.example/team/app:1", id, names) {
		t.Error("after a second pull, by the runtime's name it may be used")
	}
}
