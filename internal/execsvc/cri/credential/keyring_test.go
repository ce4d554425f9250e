package credential

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/objects"
)

// secrets are Secrets by source and name, all of the namespace default. Nil: it hasn't arrived yet.
type secrets map[string]*v1.Secret

func (s secrets) Secret(source, namespace, name string) (*v1.Secret, error) {
	secret, ok := s[source+"/"+name]
	switch {
	case !ok || namespace != "default":
		return nil, objects.ErrMissing
	case secret == nil:
		return nil, objects.ErrUnknown
	}
	return secret, nil
}

// dockerConfig returns a config.json of "REGISTRY=USER" each.
func dockerConfig(entries ...string) string {
	var auths []string
	for _, entry := range entries {
		registry, user, _ := strings.Cut(entry, "=")
		auths = append(auths, `"`+registry+`":{"auth":"`+base64.StdEncoding.EncodeToString([]byte(user+":secret"))+`"}`)
	}
	return `{"auths":{` + strings.Join(auths, ",") + `}}`
}

func pullSecret(config string) *v1.Secret {
	return &v1.Secret{Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(config)}}
}

func pod(pullSecrets ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		UID: "1", Namespace: "default", Name: "web", Annotations: map[string]string{"kubernetes.io/config.source": "file"},
	}}
	for _, name := range pullSecrets {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: name})
	}
	return p
}

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func users(k *Keyring, p *v1.Pod, repository string) string {
	var names []string
	for _, login := range k.Lookup(context.Background(), p, repository) {
		names = append(names, login.Username)
	}
	return strings.Join(names, " ")
}

// TestLookup: which credentials are tried for an image, in which order, and the events for secrets that are none.
func TestLookup(t *testing.T) {
	home := t.TempDir()
	files := []string{
		write(t, filepath.Join(home, "config.json"), dockerConfig("quay.io=node", "quay.io/team=nodeteam", "https://index.docker.io/v1/=hub"), 0o600),
		write(t, filepath.Join(home, ".dockercfg"), `{"old.io":{"username":"old","password":"secret"}}`, 0o600),
		filepath.Join(home, "absent.json"),
		write(t, filepath.Join(home, "broken.json"), "{", 0o600),
	}
	held := secrets{
		"file/quay":   pullSecret(dockerConfig("quay.io=pod", "quay.io/team=podteam", "*.io=glob")),
		"file/again":  pullSecret(dockerConfig("quay.io=second", "quay.io/team=node")),
		"api/other":   pullSecret(dockerConfig("quay.io=foreign")),
		"file/broken": pullSecret(`{"auths":{"quay.io":{"auth":"aHVudGVyMg=="}}}`),
		"file/opaque": {Type: v1.SecretTypeOpaque, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(dockerConfig("quay.io=opaque"))}},
		"file/cfg": {Type: v1.SecretTypeDockercfg, Data: map[string][]byte{
			v1.DockerConfigKey: []byte(`{"quay.io":{"username":"cfg","password":"secret"}}`),
		}},
	}
	for _, tc := range []struct {
		name       string
		pod        *v1.Pod
		repository string
		want       string
		events     []string
	}{
		{"the node's", pod(), "quay.io/me/app", "node", nil},
		{"the node's, by path", pod(), "quay.io/team/app", "nodeteam node", nil},
		{"docker's own registry", pod(), "docker.io/library/busybox", "hub", nil},
		{"the older form", pod(), "old.io/app", "old", nil},
		{"none", pod(), "example.com/app", "", nil},
		{"the pod's come first", pod("quay"), "quay.io/team/app", "podteam pod glob nodeteam node", nil},
		{"two secrets, by path first", pod("quay", "again"), "quay.io/team/app", "podteam node pod second glob nodeteam node", nil},
		{"the older form of a secret", pod("cfg"), "quay.io/app", "cfg node", nil},
		{"secrets that aren't there", pod("quay", "gone", "other", ""), "quay.io/app", "pod glob node", nil},
		{"secrets that are none", pod("broken", "opaque"), "quay.io/app", "node", []string{
			`Image pull secret "broken" can't be used: it is no docker config: auth of quay.io: it has no colon between name and password`,
			`Image pull secret "opaque" can't be used: its type is "Opaque"; kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg would do`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			recorder := events.New(events.Config{})
			k, err := New(Config{Secrets: held, Files: files, Events: recorder})
			if err != nil {
				t.Fatal(err)
			}
			if got := users(k, tc.pod, tc.repository); got != tc.want {
				t.Errorf("%s is pulled as %q; want %q", tc.repository, got, tc.want)
			}
			var reported []string
			list, _, _ := recorder.After(0)
			for _, e := range list {
				if e.Type != events.Warning || e.Reason != events.FailedPullSecret {
					t.Errorf("an event %s %s", e.Type, e.Reason)
				}
				reported = append(reported, e.Message)
			}
			if diff := cmp.Diff(tc.events, reported); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLacking: which pull secrets can't be retrieved, and whether one may still arrive.
func TestLacking(t *testing.T) {
	k, err := New(Config{Secrets: secrets{"file/quay": pullSecret("{}"), "api/other": pullSecret("{}"), "file/later": nil}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		pod     *v1.Pod
		want    []string
		awaited bool
	}{
		{pod(), nil, false},
		{pod("", "quay"), nil, false},
		{pod("quay", "gone", "other"), []string{"gone", "other"}, false},
		{pod("later", "gone"), []string{"later", "gone"}, true},
	} {
		got, awaited := k.Lacking(tc.pod)
		if diff := cmp.Diff(tc.want, got); diff != "" || awaited != tc.awaited {
			t.Errorf("%v: awaited is %v (-want +got):\n%s", tc.pod.Spec.ImagePullSecrets, awaited, diff)
		}
	}
}

// TestFilesAreReadAgain: a change of the node's docker config needs no restart.
func TestFilesAreReadAgain(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	root := t.TempDir()
	k, err := New(Config{Files: DefaultFiles(root)})
	if err != nil {
		t.Fatal(err)
	}
	if got := users(k, pod(), "quay.io/app"); got != "" {
		t.Errorf("without files: %q", got)
	}
	docker := filepath.Join(os.Getenv("HOME"), ".docker")
	if err := os.Mkdir(docker, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(docker, "config.json"), dockerConfig("quay.io=home"), 0o600)
	write(t, filepath.Join(root, "config.json"), dockerConfig("quay.io=root"), 0o600)
	if got := users(k, pod(), "quay.io/app"); got != "root home" {
		t.Errorf("with files: %q", got)
	}
}

// TestVersion: the version changes with each part of the pod's pull secrets, and with nothing else.
func TestVersion(t *testing.T) {
	held := secrets{}
	k, err := New(Config{Secrets: held})
	if err != nil {
		t.Fatal(err)
	}
	if got := k.Version(pod()); got != "" {
		t.Errorf("without secrets: %q", got)
	}
	seen := map[string]string{}
	check := func(what string, p *v1.Pod) {
		t.Helper()
		version := k.Version(p)
		if before, ok := seen[version]; ok {
			t.Errorf("%s is the same as %s", what, before)
		}
		if strings.Contains(version, "hunter2") || version != k.Version(p) {
			t.Errorf("%s: %q", what, version)
		}
		seen[version] = what
	}
	check("a missing secret", pod("a"))
	check("two missing secrets", pod("a", "b"))
	held["file/a"] = pullSecret("hunter2")
	check("a secret", pod("a"))
	held["file/a"] = pullSecret("hunter3")
	check("another value", pod("a"))
	held["file/a"].Data["more"] = nil
	check("another key", pod("a"))
	held["file/b"] = held["file/a"]
	check("another secret", pod("b"))
}
