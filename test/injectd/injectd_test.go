package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/podconfigd"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/injectd/inject"
)

// TestInjectd runs injectd as a process. The tests share the node, of which they use only the binary and the
// directory.
func TestInjectd(t *testing.T) {
	node, err := devnode.Start(t.Context(), devnode.Config{Dir: t.TempDir(), Runtime: devnode.Sim, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, test := range []struct {
		name string
		run  func(*testing.T, *devnode.Node)
	}{
		{"life of an API pod", testLife}, {"conflict", testConflict}, {"held origin", testHeld}, {"source error", testSourceError},
		{"manifests", testManifests}, {"restart", testRestart},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, node) })
	}
}

// testLife checks an API pod from its creation to its removal, with consumers of each format.
func testLife(t *testing.T, node *devnode.Node) {
	d := start(t, node, []string{"api"})
	streams := map[podconfigv1.PodFormat]*stream{
		podconfigv1.PodFormat_POD_FORMAT_JSON: nil, podconfigv1.PodFormat_POD_FORMAT_PROTOBUF: nil, podconfigv1.PodFormat_POD_FORMAT_REFERENCE: nil,
	}
	for format := range streams {
		streams[format] = d.watch(format)
	}
	pod := apiPod("web", "u1")
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, "ADD api: web"},
		{func() { pod.Status.Phase, pod.Status.PodIP = v1.PodRunning, "10.0.0.7" }, "RECONCILE api: web"},
		{func() { pod.Labels["tier"] = "front" }, "UPDATE api: web"},
		{func() {
			at, grace := metav1.Unix(1_700_000_100, 0), int64(30)
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, &grace
		}, "DELETE api: web"},
		{func() { pod.Status.Phase = v1.PodSucceeded }, "RECONCILE api: web"},
	} {
		step.change()
		number := d.apply("api", pod)
		// This change isn't visible to consumers: it must not produce a revision between this one and the next.
		pod.ResourceVersion += "0"
		if again := d.apply("api", pod); again != number {
			t.Errorf("after %s: a new resourceVersion produces revision %d; want none after %d", step.want, again, number)
		}
		for format, s := range streams {
			ops, pods := s.next(number)
			if !slices.Equal(ops, []string{step.want}) {
				t.Fatalf("%v: revision %d is %v; want %s", format, number, ops, step.want)
			}
			checkPod(t, format, pods[0], pod)
		}
	}
	number := d.apply("api")
	for format, s := range streams {
		ops, pods := s.next(number)
		if !slices.Equal(ops, []string{"REMOVE api: web"}) || pods[0].GetContent() != nil {
			t.Errorf("%v: revision %d is %v, content %v; want REMOVE without content", format, number, ops, pods[0].GetContent())
		}
	}
}

// checkPod compares a pod of the stream with the one that was injected.
func checkPod(t *testing.T, format podconfigv1.PodFormat, got *podconfigv1.Pod, injected *v1.Pod) {
	t.Helper()
	spec, err := manifest.SpecDigest(injected)
	if err != nil {
		t.Fatal(err)
	}
	status, err := manifest.StatusDigest(injected)
	if err != nil {
		t.Fatal(err)
	}
	if got.GetRef().GetUid() != string(injected.UID) || got.GetSpecDigest() != spec || got.GetStatusDigest() != status {
		t.Errorf("%v: the pod is %v, with the digests %s and %s; want uid %s, %s and %s", format, got.GetRef(),
			got.GetSpecDigest(), got.GetStatusDigest(), injected.UID, spec, status)
	}
	pod, err := decode(got)
	if err != nil {
		t.Fatal(err)
	}
	if format == podconfigv1.PodFormat_POD_FORMAT_REFERENCE {
		if pod != nil {
			t.Errorf("%v: the pod has content", format)
		}
		return
	}
	if pod == nil || pod.Annotations[manifest.SourceAnnotation] != "api" || pod.Annotations[manifest.SeenAnnotation] == "" {
		t.Fatalf("%v: the pod is %v; want one with its source and first-seen time", format, pod)
	}
	// When the pod was sent, its resourceVersion was another one. The rest is as it was injected.
	want := injected.DeepCopy()
	want.TypeMeta, want.ResourceVersion, want.Annotations = pod.TypeMeta, pod.ResourceVersion, pod.Annotations
	if !equality.Semantic.DeepEqual(want, pod) {
		t.Errorf("%v (-want +got):\n%s", format, cmp.Diff(want, pod))
	}
}

// testConflict: of two pods with one name, the pod of the source that was given first is served. When it is
// removed, the other one is added.
func testConflict(t *testing.T, node *devnode.Node) {
	d := start(t, node, []string{"file:a", "api"})
	s := d.watch(podconfigv1.PodFormat_POD_FORMAT_REFERENCE)
	expect := func(number uint64, want ...string) {
		t.Helper()
		if ops, _ := s.next(number); !slices.Equal(ops, want) {
			t.Fatalf("revision %d is %v; want %v", number, ops, want)
		}
	}
	expect(d.apply("api", apiPod("web", "from-api")), "ADD api: web")
	expect(d.apply("file:a", apiPod("web", "from-file")), "REMOVE api: web", "ADD file:a: web")
	finding := d.sources()["api"].GetFindings()
	if len(finding) != 1 || finding[0].GetSeverity() != podconfigv1.FindingSeverity_FINDING_SEVERITY_CONFLICT ||
		finding[0].GetOrigin() != "shop/web" || !strings.Contains(finding[0].GetMessage(), "file:a") {
		t.Errorf("ListSources has the findings %v of api; want a conflict of shop/web that names file:a", finding)
	}
	expect(d.apply("file:a"), "REMOVE file:a: web", "ADD api: web")
	if finding := d.sources()["api"].GetFindings(); len(finding) > 0 {
		t.Errorf("ListSources still has the findings %v", finding)
	}
}

// testHeld: a held origin keeps its pods. An origin that was never good keeps its source from becoming ready.
func testHeld(t *testing.T, node *devnode.Node) {
	d := start(t, node, []string{"http"})
	s := d.watch(podconfigv1.PodFormat_POD_FORMAT_PROTOBUF)
	held := inject.Set{Source: "http", Origins: []inject.Origin{{Name: "a", Held: true}, {Name: "b", Pods: []*v1.Pod{apiPod("b", "ub")}}}}
	steps := []struct {
		origin    inject.Origin
		want      string
		wantReady bool
	}{
		{held.Origins[0], "ADD http: b", false},
		{inject.Origin{Name: "a", Pods: []*v1.Pod{apiPod("a", "ua")}}, "ADD http: a", true},
		{inject.Origin{Name: "a", Held: true, Pods: []*v1.Pod{apiPod("a2", "ua2")}}, "ADD http: a2", true},
		{inject.Origin{Name: "a", Pods: []*v1.Pod{apiPod("a2", "ua2")}}, "REMOVE http: a", true},
	}
	for _, step := range steps {
		held.Origins[0] = step.origin
		number := d.applySet(held)
		if ops, _ := s.next(number); !slices.Equal(ops, []string{step.want}) {
			t.Fatalf("revision %d is %v; want %s", number, ops, step.want)
		}
		state := d.sources()["http"]
		if state.GetReady() != step.wantReady || (len(state.GetFindings()) > 0) != step.origin.Held {
			t.Errorf("after %s: ready %v, findings %v; want ready %v, and findings if and only if held (%v)",
				step.want, state.GetReady(), state.GetFindings(), step.wantReady, step.origin.Held)
		}
	}
}

// testSourceError: a source that can't be read reports it, and keeps its pods.
func testSourceError(t *testing.T, node *devnode.Node) {
	d := start(t, node, []string{"api"})
	if number := d.applySet(inject.Set{Source: "api", Error: "no route to host"}); number != 0 {
		t.Errorf("an error produces revision %d; want none", number)
	}
	if got := d.sources()["api"]; got.GetReady() || got.GetLastError() != "no route to host" || got.GetLastReadTime() == nil {
		t.Errorf("after an error at the start the source is %v; want it not ready, with the error", got)
	}
	number := d.apply("api", apiPod("web", "u1"))
	if again := d.applySet(inject.Set{Source: "api", Error: "timeout"}); again != number {
		t.Errorf("an error produces revision %d; want none after %d", again, number)
	}
	if got := d.sources()["api"]; !got.GetReady() || got.GetLastError() != "timeout" || got.GetPodCount() != 1 {
		t.Errorf("after an error later on the source is %v; want it ready, with its pod and the error", got)
	}
	if again := d.apply("api", apiPod("web", "u1")); again != number || d.sources()["api"].GetLastError() != "" {
		t.Errorf("after the recovery: revision %d, source %v; want revision %d and no error", again, d.sources()["api"], number)
	}
}

// testManifests: manifests are read only if --pod-manifest-path is given.
func testManifests(t *testing.T, node *devnode.Node) {
	d := start(t, node, []string{"api"})
	if got := d.sources(); len(got) != 1 || got["api"] == nil {
		t.Errorf("without --pod-manifest-path the sources are %v; want only api", got)
	}
	dir := t.TempDir()
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: own}\nspec: {containers: [{name: main, image: pause}]}\n"
	if err := os.WriteFile(filepath.Join(dir, "own.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d = start(t, node, []string{"api"}, "--pod-manifest-path", dir)
	if got := d.sources(); len(got) != 2 || got["file"].GetLocation() != dir {
		t.Errorf("with --pod-manifest-path the sources are %v; want api, and file at %s", got, dir)
	}
}

// TestFlags: missing and invalid flags are reported before anything starts.
func TestFlags(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, "--inject-source and --inject-listen"},
		{[]string{"--inject-source=api"}, "--inject-source and --inject-listen"},
		{[]string{"--inject-listen=unix:///s"}, "--inject-source and --inject-listen"},
		{[]string{"--inject-listen=unix:///s", "--inject-source="}, "the name is empty"},
		{[]string{"--inject-listen=unix:///s", "--inject-source=api", "--inject-source=api"}, "two sources of the name api"},
		{[]string{"--inject-listen=unix:///s", "--inject-source=file", "--pod-manifest-path=/m"}, "two sources of the name file"},
	} {
		var stderr bytes.Buffer
		code := podconfigd.Program(&injected{}).Run(t.Context(), tc.args, t.Output(), &stderr)
		if code != 2 || !strings.Contains(stderr.String(), tc.want) {
			t.Errorf("%v: exit code %d, output %q; want 2 and %q", tc.args, code, stderr.String(), tc.want)
		}
	}
}
