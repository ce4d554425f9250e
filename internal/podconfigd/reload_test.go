package podconfigd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// kubeletFile and sourcesFile begin the two kinds of document.
const (
	kubeletFile = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	sourcesFile = "apiVersion: podstream.io/v1alpha1\nkind: PodSources\n"
)

// put writes a file whole, and makes its directory.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func podText(name string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {name: " + name + "}, spec: {containers: [{name: main, image: one}]}}"
}

// nextOps reads up to the next revision that changed a pod, and returns its ops.
func nextOps(t *testing.T, s podconfigv1.PodConfigService_WatchPodUpdatesClient) string {
	t.Helper()
	var ops []string
	for {
		m := recv(t, s)
		for _, p := range m.GetUpdate().GetPods() {
			op := strings.TrimPrefix(m.GetUpdate().GetOp().String(), "POD_OPERATION_")
			ops = append(ops, fmt.Sprintf("%s %s %s", op, m.GetUpdate().GetSource(), p.GetRef().GetName()))
		}
		if len(ops) > 0 && !m.GetContinued() {
			return strings.Join(ops, ", ")
		}
	}
}

func (r *running) sources() []*podconfigv1.Source {
	r.t.Helper()
	resp, err := r.api.ListSources(r.t.Context(), &podconfigv1.ListSourcesRequest{})
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.GetSources()
}

func names(list []*podconfigv1.Source) string {
	var out []string
	for _, s := range list {
		out = append(out, s.GetName())
	}
	return strings.Join(out, " ")
}

// TestReload takes one podconfigd, and one consumer on one stream, through the changes that its files can have: they
// are found by themselves.
func TestReload(t *testing.T) {
	dir := shortDir(t)
	in := func(path string) string { return filepath.Join(dir, path) }
	for _, name := range []string{"a", "b", "c"} {
		put(t, in(name+"/web.yaml"), podText(name))
	}
	put(t, in("config"), kubeletFile+"staticPodPath: a\nrunOnce: true\nmaxPods: 5\n")
	put(t, in("conf.d/readme"), "")
	log := newLog()
	// Nothing is read twice in the time that this takes.
	r := launchWith(t, dir, log, "--config", in("config"), "--config-dir", in("conf.d"), "--file-check-frequency=1h")
	s := r.watch(nil)
	_, first := untilReady(t, s)
	if got := strings.Join(first, ", "); got != "ADD a-node" {
		t.Fatalf("at the start came %q", got)
	}
	expect := func(what, want, sources string) {
		t.Helper()
		if got := nextOps(t, s); got != want {
			t.Fatalf("%s: came %q; want %q", what, got, want)
		}
		if got := names(r.sources()); got != sources {
			t.Fatalf("%s: the sources are %q; want %q", what, got, sources)
		}
	}

	put(t, in("conf.d/10.conf"), sourcesFile+"files: [{name: b, path: ../b}]\n")
	expect("a drop-in with a source appears", "ADD file:b b-node", "file file:b")
	put(t, in("conf.d/20.conf"), sourcesFile+"files: [{name: c, path: ../c}]\norder: ['file:c']\n")
	expect("another one, with an order", "ADD file:c c-node", "file:c file file:b")
	read := r.sources()

	put(t, in("conf.d/10.conf"), sourcesFile+"files: [{name: b, path: [}]\n")
	log.await(t, "the configuration has errors", 1)
	if now := r.sources(); names(now) != "file:c file file:b" || !proto.Equal(now[1].GetLastReadTime(), read[1].GetLastReadTime()) {
		t.Errorf("with a broken drop-in the sources are %v; want those of before, %v", now, read)
	}
	put(t, in("conf.d/10.conf"), sourcesFile+"files: [{name: b, path: ../c}]\norder: [file]\n")
	expect("a source's path changes to that of another", "REMOVE file:b b-node", "file:c file file:b")
	put(t, in("conf.d/10.conf"), sourcesFile+"files: [{name: b, path: ../b}]\norder: [file]\n")
	expect("and back", "ADD file:b b-node", "file:c file file:b")
	// Where nothing is to be read the pods stay: of this comes no op before that of the next change.
	put(t, in("conf.d/10.conf"), sourcesFile+"files: [{name: b, path: ../missing}]\norder: [file]\n")
	log.await(t, in("missing"), 1)
	if err := os.Remove(in("conf.d/20.conf")); err != nil {
		t.Fatal(err)
	}
	expect("a drop-in disappears", "REMOVE file:c c-node", "file file:b")
	put(t, in("config"), kubeletFile+"runOnce: true\n")
	expect("the kubelet's path goes", "REMOVE file a-node", "file:b")

	put(t, in("conf.d/10.conf"), sourcesFile)
	log.await(t, "there is no source of pods", 1)
	put(t, in("config"), kubeletFile+"staticPodPath: a\n")
	if got := nextOps(t, s); got != "ADD file a-node" {
		t.Errorf("the path is there again: came %q; want its pod", got)
	}
	expect("and then the other goes", "REMOVE file:b b-node", "file")

	text := log.String()
	for _, reported := range []string{"set in the configuration but not supported", "set in the configuration for podexecd"} {
		if strings.Count(text, reported) != 1 {
			t.Errorf("%q isn't told once:\n%s", reported, text)
		}
	}
	if n := strings.Count(text, "the configuration has errors"); n != 2 || !strings.Contains(text, "conf.d/10.conf:3: ") {
		t.Errorf("a broken configuration is told %d times; want 2, with file and line:\n%s", n, text)
	}
}

// TestReloadSwap: a configuration behind a link that is swapped, as a mounted ConfigMap is, is found.
func TestReloadSwap(t *testing.T) {
	dir := shortDir(t)
	in := func(path string) string { return filepath.Join(dir, path) }
	put(t, in("a/web.yaml"), podText("a"))
	put(t, in("b/web.yaml"), podText("b"))
	put(t, in("cm/..1/config"), kubeletFile+"staticPodPath: "+in("a")+"\n")
	put(t, in("cm/..2/config"), kubeletFile+"staticPodPath: "+in("b")+"\n")
	for link, to := range map[string]string{"cm/..data": "..1", "cm/config": "..data/config"} {
		if err := os.Symlink(to, in(link)); err != nil {
			t.Fatal(err)
		}
	}
	r := launchWith(t, dir, t.Output(), "--config", in("cm/config"))
	s := r.watch(nil)
	untilReady(t, s)
	if err := os.Symlink("..2", in("cm/..new")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(in("cm/..new"), in("cm/..data")); err != nil {
		t.Fatal(err)
	}
	if got := nextOps(t, s); got != "REMOVE file a-node, ADD file b-node" {
		t.Errorf("after the swap came %q; want the pod of the other path in place of the one before", got)
	}
}

// TestReloadStrict: DiffManifests reads a manifest as the sources would that are in force.
func TestReloadStrict(t *testing.T) {
	dir := shortDir(t)
	put(t, filepath.Join(dir, "config"), kubeletFile+"staticPodPath: manifests\n")
	log := newLog()
	r := launchWith(t, dir, log, "--config", filepath.Join(dir, "config"))
	untilReady(t, r.watch(nil))
	updates := func() int {
		resp, err := r.api.DiffManifests(t.Context(), &podconfigv1.DiffManifestsRequest{Manifests: []*podconfigv1.ManifestInput{{
			Origin:  filepath.Join(dir, "manifests", "new.yaml"),
			Content: []byte(strings.Replace(podText("new"), "spec: {", "spec: {unknown: 1, ", 1)),
		}}})
		if err != nil {
			t.Fatal(err)
		}
		return len(resp.GetUpdates())
	}
	if got := updates(); got != 1 {
		t.Errorf("a manifest with an unknown field makes %d updates; want 1", got)
	}
	put(t, filepath.Join(dir, "config"), kubeletFile+"staticPodPath: manifests\n---\n"+sourcesFile+"strictManifests: true\n")
	log.await(t, "the configuration was read again", 1)
	if got := updates(); got != 0 {
		t.Errorf("with strict manifests it makes %d updates; want none", got)
	}
}
