package redact_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/redact"
)

// inspected is the pod as an inspector may see it.
func inspected(p *v1.Pod) *v1.Pod { return redact.Audience{}.Pod(p).Object() }

// TestWhatIsRedacted fills every field of a pod, and compares the redacted texts with the list in
// testdata/redacted.txt. So a review shows each newly shown or newly redacted field with its path.
func TestWhatIsRedacted(t *testing.T) {
	before, after := map[string]string{}, map[string]string{}
	p := filledPod()
	flatten(t, p, before)
	flatten(t, inspected(p), after)
	var got []string
	for path, text := range before {
		now, there := after[path]
		switch {
		case !there:
			got = append(got, path+" is left out")
		case now != text:
			got = append(got, path+" = "+now)
		}
	}
	slices.Sort(got)
	golden, err := os.ReadFile("testdata/redacted.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(strings.TrimSpace(string(golden)), "\n"), got); diff != "" {
		t.Errorf("what is redacted differs from testdata/redacted.txt (-want +got):\n%s", diff)
	}
}

// TestArgumentIsUntouched: other code shares the pod.
func TestArgumentIsUntouched(t *testing.T) {
	p := filledPod()
	inspected(p)
	if diff := cmp.Diff(filledPod(), p); diff != "" {
		t.Errorf("redacting changed the pod itself (-before +after):\n%s", diff)
	}
}

// TestStillAPod: the copy can be encoded in each format and read again.
func TestStillAPod(t *testing.T) {
	p := inspected(filledPod())
	data, err := p.Marshal()
	if err != nil {
		t.Fatalf("the redacted pod can't be encoded: %v", err)
	}
	var again v1.Pod
	if err := again.Unmarshal(data); err != nil {
		t.Fatalf("the redacted pod can't be decoded: %v", err)
	}
	again.TypeMeta = p.TypeMeta // which the encoding leaves to its envelope
	if want, got := encoded(t, p), encoded(t, &again); want != got {
		t.Errorf("the pod has changed on the way (-want +got):\n%s", cmp.Diff(want, got))
	}
}

// TestNeverTooLarge: a pod of the maximum size stays within that limit, however many arguments it has.
func TestNeverTooLarge(t *testing.T) {
	const arguments = manifest.MaxPodSize / 4
	p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Args: make([]string, arguments)}}}}
	for i := range p.Spec.Containers[0].Args {
		p.Spec.Containers[0].Args[i] = strconv.Itoa(i % 10)
	}
	got := inspected(p)
	if got.Size() > p.Size() {
		t.Errorf("a pod of %d bytes has %d when it is redacted; want no more", p.Size(), got.Size())
	}
	args := got.Spec.Containers[0].Args
	if len(args) != arguments || slices.ContainsFunc(args, func(a string) bool { return a != "" }) {
		t.Errorf("%d arguments are left, or some are shown; want %d, all empty", len(args), arguments)
	}
}

func TestNil(t *testing.T) {
	if p := inspected(nil); p != nil {
		t.Errorf("the pod nil is %v; want nil", p)
	}
}

// TestEmptyStaysEmpty: an empty value gets no placeholder.
func TestEmptyStaysEmpty(t *testing.T) {
	p := &v1.Pod{Spec: v1.PodSpec{
		Containers: []v1.Container{{
			Name: "main",
			Env: []v1.EnvVar{{Name: "FROM", ValueFrom: &v1.EnvVarSource{
				FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"},
			}}},
			Command: []string{}, LivenessProbe: &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{}}},
		}},
		Volumes: []v1.Volume{
			{Name: "git", VolumeSource: v1.VolumeSource{GitRepo: &v1.GitRepoVolumeSource{}}},
			{Name: "rbd", VolumeSource: v1.VolumeSource{RBD: &v1.RBDVolumeSource{}}},
		},
	}}
	if diff := cmp.Diff(p, inspected(p)); diff != "" {
		t.Errorf("a pod without secrets has changed (-want +got):\n%s", diff)
	}
}

// TestContainers shows a container as an inspector sees it, in each of its three kinds.
func TestContainers(t *testing.T) {
	c := v1.EphemeralContainerCommon{
		Name: "main", Image: "db:1", Command: []string{"/bin/sh", "-c", "PASSWORD=x exec db"}, Args: []string{"--password", "x", ""},
		Env:           []v1.EnvVar{{Name: "PASSWORD", Value: "x"}, {Name: "EMPTY"}},
		LivenessProbe: &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"db-cli", "-a", "x"}}}},
		Lifecycle:     &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"drain"}}}},
	}
	want := c
	want.Command = []string{"/bin/sh", "(redacted)", "(redacted)"}
	want.Args = []string{"(redacted)", "(redacted)", "(redacted)"}
	want.Env = []v1.EnvVar{{Name: "PASSWORD", Value: "(redacted)"}, {Name: "EMPTY"}}
	want.LivenessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{
		Command: []string{"db-cli", "(redacted)", "(redacted)"},
	}}}
	pod := func(c v1.EphemeralContainerCommon) *v1.Pod {
		return &v1.Pod{Spec: v1.PodSpec{
			Containers: []v1.Container{v1.Container(c)}, InitContainers: []v1.Container{v1.Container(c)},
			EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: c, TargetContainerName: "main"}},
		}}
	}
	if diff := cmp.Diff(pod(want), inspected(pod(c))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestURLs(t *testing.T) {
	for path, want := range map[string]string{
		"/healthz":                              "/healthz",
		"/users/@me":                            "/users/@me",
		"/healthz?token=x":                      "/healthz?(redacted)",
		"/healthz?":                             "/healthz?",
		"/a b?token=x":                          "/a b?(redacted)",
		"/healthz#x":                            "/healthz?(redacted)",
		"/healthz?a#x":                          "/healthz?(redacted)",
		"healthz":                               "healthz",
		"https://git.example/a.git":             "https://git.example/a.git",
		"https://user:x@git.example/a.git":      "https://(redacted)@git.example/a.git",
		"https://x@git.example:443/a?b":         "https://(redacted)@git.example:443/a?(redacted)",
		"https://user:x@git.example?b":          "https://(redacted)@git.example?(redacted)",
		"https://disk.example/a.vhd?sig=x":      "https://disk.example/a.vhd?(redacted)",
		"//user:x@other/healthz":                "//(redacted)@other/healthz",
		"git@git.example:a.git":                 "(redacted)",
		"user:x@git.example/a":                  "(redacted)",
		"https://user:x/y@git.example/a":        "(redacted)",
		"https://user:12/y@git.example/a":       "(redacted)",
		"https://user:12?y@git.example/a":       "(redacted)",
		"https://user:12#y@git.example/a":       "(redacted)",
		"https://u@x.example:12/y@git.example":  "(redacted)",
		"https://git.example:12/a?b":            "https://git.example:12/a?(redacted)",
		"https:/x@git.example/a":                "(redacted)",
		"https://user:x%@git.example/a":         "(redacted)",
		"/healthz%zz?token=x":                   "(redacted)",
		"https://git.example/\x7f?token=secret": "(redacted)",
		"/healthz;token=x":                      "/healthz?(redacted)",
		"https://git.example/a;x#y":             "https://git.example/a?(redacted)",
		"https://u;v:x@git.example/a;b":         "https://(redacted)@git.example/a?(redacted)",
		"https:/user:x@git.example/a":           "(redacted)",
		"/a/user:x@git.example":                 "(redacted)",
	} {
		p := &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{{
			VolumeSource: v1.VolumeSource{GitRepo: &v1.GitRepoVolumeSource{Repository: path}},
		}}}}
		if got := inspected(p).Spec.Volumes[0].GitRepo.Repository; got != want {
			t.Errorf("%q is shown as %q; want %q", path, got, want)
		}
	}
}

func TestProbeHost(t *testing.T) {
	for host, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "fd00::1": "fd00::1", "user:x@y@other": "(redacted)@other",
	} {
		p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{ReadinessProbe: &v1.Probe{
			ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Host: host}},
		}}}}}
		if got := inspected(p).Spec.Containers[0].ReadinessProbe.HTTPGet.Host; got != want {
			t.Errorf("host %q is shown as %q; want %q", host, got, want)
		}
	}
}

func TestAnnotations(t *testing.T) {
	const long = 256
	for text, shown := range map[string]bool{
		"":                               true,
		"file":                           true,
		"2026-01-02T03:04:05.000000006Z": true,
		"9090":                           true,
		"true":                           true,
		"*":                              true,
		"@every 5m":                      true,
		"https://example.com/a":          true,
		"runtime/default":                true,
		"a sentence, and no more":        true,
		strings.Repeat("x", long):        true,
		strings.Repeat("x", long+1):      false,
		`{"kind":"Pod"}`:                 false,
		` [1, 2] `:                       false,
		`{"kind":"Pod"`:                  false,
		"password: x":                    false,
		"- x":                            false,
		"one\ntwo":                       false,
		"x\n---\npassword: x":            false,
		"one line\n":                     true,
		"{{ template }}":                 false,
	} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"k": text}}}
		want := text
		if !shown {
			want = "(redacted)"
		}
		if got := inspected(p).Annotations["k"]; got != want {
			t.Errorf("the annotation %q is shown as %q; want %q", text, got, want)
		}
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1.LastAppliedConfigAnnotation: "short"}}}
	if got := inspected(p).Annotations[v1.LastAppliedConfigAnnotation]; got != "(redacted)" {
		t.Errorf("last-applied-configuration is shown as %q; want it redacted whatever it holds", got)
	}
}
