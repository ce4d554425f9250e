package pullrecord

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
	"github.com/podstream/podstream/internal/metrictest"
)

// TestFiles: the files have the kubelet's names and content, and only root can read them.
func TestFiles(t *testing.T) {
	n := newNode(t)
	first := n.intend("docker.io/testing/test:latest", "")
	n.wantFile("pulling/sha256-aef2af226629a35d5f3ef0fdbb29fdbebf038d0acd8850590e8c48e1e283aa56",
		`{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"docker.io/testing/test:latest"}`)
	login := imageaccess.Login{Secret: &imageaccess.Secret{UID: "testsecretuid", Namespace: "default", Name: "pull-secret", CredentialHash: "testsecrethash"}}
	if err := first.Pulled(pulledAs("docker.io/testing/test:latest", "testimageref"), []imageaccess.Login{login}); err != nil {
		t.Fatal(err)
	}
	n.wantFile("pulled/sha256-b3c0cc4278800b03a308ceb2611161430df571ca733122f0a40ac8b9792a9064",
		`{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","lastUpdatedTime":"2024-10-21T12:26:40Z","imageRef":"testimageref",`+
			`"credentialMapping":{"docker.io/testing/test":{"kubernetesSecrets":[{"uid":"testsecretuid","namespace":"default","name":"pull-secret",`+
			`"credentialHash":"testsecrethash"}]},"podstream.io/*":{}}}`)
	n.pull("docker.io/testing/test:latest", "testimage-anonpull", imageaccess.Login{})
	n.wantFile("pulled/sha256-a2eace2182b24cdbbb730798e47b10709b9ef5e0f0c1624a3bc06c8ca987727a",
		`{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","lastUpdatedTime":"2024-10-21T12:26:40Z","imageRef":"testimage-anonpull",`+
			`"credentialMapping":{"docker.io/testing/test":{"nodePodsAccessible":true},"podstream.io/*":{}}}`)
	n.wantFiles(0, 2)
}

func (n *node) wantFile(name, want string) {
	n.t.Helper()
	path := filepath.Join(n.dir, "image_manager", name)
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want+"\n" {
		n.t.Errorf("%s: %v\n%s; want\n%s", name, err, got, want)
	}
	if info, err := os.Stat(path); err == nil && info.Mode() != 0o600 {
		n.t.Errorf("%s has the mode %v", name, info.Mode())
	}
}

// Each decision on the use of an image that is there counts, by its result.
func TestChecksMetric(t *testing.T) {
	n := newNode(t)
	n.pull(app, id, secretOf("a"))
	tags := []string{app}
	for want, tenant := range map[string]string{imageaccess.RecordFound: "a", imageaccess.MustAuthenticate: "b"} {
		n.may(app, id, tags, secretOf(tenant))
		metrictest.Want(t, n.registry, map[string]float64{"kubelet_imagemanager_image_mustpull_checks_total{result=" + want + "}": 1})
	}
	metrictest.Want(t, n.registry, map[string]float64{"kubelet_imagemanager_image_mustpull_checks_total": 2})
}

// TestKubeletsFiles: a kubelet's records are used, of either version.
func TestKubeletsFiles(t *testing.T) {
	n := newNode(t)
	write := func(dir, of, text string) {
		if err := os.WriteFile(filepath.Join(dir, fileName(of)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const text = `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/VERSION","lastUpdatedTime":"2024-10-21T12:26:40Z","imageRef":"ID",` +
		`"credentialMapping":{"registry.example/team/app":{"kubernetesSecrets":[{"uid":"uid-a","namespace":"a","name":"pull","credentialHash":"hash-a"}]}}}`
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		write(n.pulled, version, strings.NewReplacer("VERSION", version, "ID", version).Replace(text))
		if !n.may(app, version, nil, secretOf("a")) || n.may(app, version, nil, secretOf("b")) || n.may(app, version, nil) {
			t.Errorf("%s: the record has no effect", version)
		}
	}
	write(n.pulling, app, `{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1alpha1","image":"`+app+`"}`)
	n.restart()
	if n.may(app, "sha256:new", []string{app}) {
		t.Error("the intent has no effect")
	}
	if n.log.Len() > 0 {
		t.Errorf("the log has\n%s", &n.log)
	}
}

// TestRestarts: who may use an image is the same after a restart.
func TestRestarts(t *testing.T) {
	n := newNode(t)
	n.pull(app, id, secretOf("a"))
	for range 2 {
		if !n.may(app, id, nil, secretOf("a")) || n.may(app, id, nil, secretOf("b")) || n.may(app, id, nil) {
			t.Error("the record has no effect")
		}
		n.restart()
	}
	n.pull(app, id, imageaccess.Login{})
	n.restart()
	if !n.may(app, id, nil) {
		t.Error("an image that was pulled without credentials needs some")
	}
}

// TestKilled: podexecd may be killed at any point of a pull: the image counts as pulled from when the runtime may have
// it, by each of its names, until it is pulled with credentials again.
func TestKilled(t *testing.T) {
	const digest = "registry.example/team/app@sha256:aaaabbbbccccddddaaaabbbbccccddddaaaabbbbccccddddaaaabbbbccccdddd"
	tags := []string{app, digest}
	for _, tc := range []struct {
		name string
		// until is how far the pull goes.
		until func(n *node)
	}{
		{"during the pull", func(n *node) { n.intend(app, "") }},
		{"the second of two pulls", func(n *node) {
			n.intend(app, "")
			if err := n.intend(app, "").Failed(); err != nil {
				n.t.Error(err)
			}
		}},
		{"before the record is replaced", func(n *node) {
			n.intend(app, "")
			if err := os.WriteFile(filepath.Join(n.pulled, "."+fileName(id)+"123"), []byte(`{"kind":`), 0o600); err != nil {
				n.t.Error(err)
			}
		}},
		{"before the intent is removed", func(n *node) {
			n.intend(app, "")
			if err := n.add(id, "registry.example/team/app", true, nil); err != nil {
				n.t.Error(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNode(t)
			tc.until(n)
			n.restart()
			for range 3 {
				for _, name := range []string{app, digest} {
					if n.may(name, id, tags) || n.may(name, id, tags, secretOf("a")) {
						t.Errorf("%s may be used", name)
					}
				}
				n.list(id+" "+app+" "+digest, "sha256:2222 registry.example/other:1")
			}
			n.wantFiles(0, 1)
			n.pull(app, id, secretOf("a"))
			if !n.may(app, id, tags, secretOf("a")) || n.may(app, id, tags) {
				t.Error("after a pull it isn't for the pod with the secret only")
			}
			if !n.may("registry.example/other:1", "sha256:2222", nil) {
				t.Error("another image, which was loaded, can't be used")
			}
		})
	}
}

// TestShortName: an intent concerns the image that the runtime names in full.
func TestShortName(t *testing.T) {
	n := newNode(t)
	n.intend("private", "")
	n.restart()
	tags := []string{"docker.io/library/private:latest"}
	for _, name := range []string{"private", "private:latest", "docker.io/private", "index.docker.io/library/private:latest"} {
		if n.may(name, id, tags) {
			t.Errorf("%s may be used", name)
		}
	}
	n.list(id + " docker.io/library/private:latest")
	n.wantFiles(0, 1)
}

// TestFailedPull: an image that was loaded before stays usable when a pull of its name is under way, fails, or is
// interrupted: else each pod could take it from the others.
func TestFailedPull(t *testing.T) {
	n := newNode(t)
	usable := func(when string) {
		t.Helper()
		if !n.may(app, id, []string{app}) {
			t.Errorf("%s it can't be used", when)
		}
	}
	i := n.intend(app, id)
	usable("during the pull")
	if n.may(app, "sha256:new", []string{app}) {
		t.Error("what the pull brings may be used")
	}
	if err := i.Failed(); err != nil {
		t.Fatal(err)
	}
	usable("after its failure")
	n.wantFiles(0, 0)
	n.intend(app, id).Interrupted()
	usable("after an interruption")
	n.list(id + " " + app)
	usable("at the next listing")
	n.wantFiles(1, 0)
	n.list(id + " " + app)
	usable("at the second listing")
	n.wantFiles(0, 0)
}

// TestInterrupted: an image that arrives after the pull's caller is gone counts as pulled.
func TestInterrupted(t *testing.T) {
	n := newNode(t)
	n.intend(app, "").Interrupted()
	n.list()
	if n.may(app, id, []string{app}) {
		t.Error("it may be used")
	}
	n.list(id + " " + app)
	n.wantFiles(0, 1)
	if n.may(app, id, []string{app}) {
		t.Error("it may be used when its intent is gone")
	}
}

// TestNoNameYet: a runtime may have an image without a name while it pulls.
func TestNoNameYet(t *testing.T) {
	n := newNode(t)
	i := n.intend(app, "")
	if n.may("registry.example/mirror:1", id, nil) {
		t.Error("it may be used by another name")
	}
	if !n.may("registry.example/loaded:1", "sha256:2222", []string{"registry.example/loaded:1"}) {
		t.Error("another image can't be used")
	}
	if err := i.Failed(); err != nil {
		t.Error(err)
	}
}
