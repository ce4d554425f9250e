package oci

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/sources/oci/archive"
	"github.com/podstream/podstream/internal/sources/oci/ocitest"
)

const configMap = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: b}}\n"

// TestUpdates: a tag that moves to another artifact changes what differs, and nothing else. The registry is asked for the
// digest only, unless it is another one.
func TestUpdates(t *testing.T) {
	hub := ocitest.New(t, ocitest.Config{})
	files := pods("web", "v1", "db", "v1")
	files["settings.yml"], files["README.md"] = configMap, "hello"
	hub.Push("pods", "prod", at(1), files)
	n := newNode(t, Config{Reference: hub.Addr + "/pods:prod"})
	first := n.expect("db.yaml=v1", "settings.yml object", "web.yaml=v1", "README.md noted")
	if name := first.Origins[0].Name; name != "oci://"+hub.Addr+"/pods#db.yaml" {
		t.Errorf("an origin is named %s", name)
	}
	if p := first.Origins[0].Pods[0]; p.Name != "db-node" || p.Spec.NodeName != "node" || len(p.Spec.Tolerations) != 1 {
		t.Errorf("the pod is %+v; want one as of a file", p.Pod)
	}
	if n.serves() != 2 || !n.ready() {
		t.Errorf("%d pods are served, ready: %v", n.serves(), n.ready())
	}
	hub.Requests()
	again := n.expect("db.yaml=v1", "settings.yml object", "web.yaml=v1", "README.md noted")
	if got := ocitest.Paths(hub.Requests()); got != "HEAD /v2/pods/manifests/prod" {
		t.Errorf("the requests of an unchanged artifact are %q", got)
	}
	if !slices.Equal(first.Origins, again.Origins) {
		t.Error("unchanged manifests have other origins")
	}

	files["web.yaml"] = ocitest.Pod("web", "v2")
	delete(files, "settings.yml")
	hub.Push("pods", "prod", at(2), files)
	next := n.expect("db.yaml=v1", "web.yaml=v2", "README.md noted")
	if next.Origins[0] != first.Origins[0] || next.Origins[2] != first.Origins[3] {
		t.Error("unchanged manifests of another artifact have other origins")
	}
	if n.log.Count("Artifact is used") != 2 || n.log.Count("File isn't read", "README.md") != 1 || n.log.Count("level=WARN") != 0 {
		t.Errorf("the log is\n%s", n.log)
	}
	// Another tag of the repository makes no other pod.
	hub.Push("pods", "next", at(2), files)
	other := newNode(t, Config{Reference: hub.Addr + "/pods:next"}).expect("db.yaml=v1", "web.yaml=v2", "README.md noted")
	if other.Origins[0].Pods[0].UID != first.Origins[0].Pods[0].UID {
		t.Error("with another tag the pod has another UID")
	}
}

// TestHeld: a manifest that can't be used holds its own pods; the others of the artifact are used.
func TestHeld(t *testing.T) {
	hub := ocitest.New(t, ocitest.Config{})
	hub.Push("pods", "prod", at(1), pods("web", "v1", "db", "v1"))
	n := newNode(t, Config{Reference: hub.Addr + "/pods:prod"})
	n.expect("db.yaml=v1", "web.yaml=v1")
	bad := pods("db", "v2")
	bad["web.yaml"] = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: hunter2}}"
	hub.Push("pods", "prod", at(2), bad)
	n.expect("db.yaml=v2", "web.yaml held")
	if n.serves() != 2 || n.log.Count("level=WARN", "Manifest can't be used", "#web.yaml", "spec.containers") != 1 || strings.Contains(n.log.String(), "hunter2") {
		t.Errorf("%d pods are served; the log is\n%s", n.serves(), n.log)
	}
	n.restart()
	n.expect("db.yaml=v2", "web.yaml held")
	if n.serves() != 2 {
		t.Errorf("after a restart, %d pods are served", n.serves())
	}
	hub.Push("pods", "prod", at(3), pods("db", "v2"))
	n.expect("db.yaml=v2")
	if n.serves() != 1 {
		t.Errorf("%d pods are served; want that web is gone", n.serves())
	}
	unknown := map[string]string{"db.yaml": strings.Replace(ocitest.Pod("db", "v3"), "spec: {", "spec: {unknown: 1, ", 1)}
	hub.Push("pods", "prod", at(4), unknown)
	n.expect("db.yaml=v3 noted")
	n.cfg.Strict = true
	n.restart()
	n.expect("db.yaml held")
}

// TestNoManifests: an artifact without manifests is a mistake, unless its type says that it is one of manifests.
func TestNoManifests(t *testing.T) {
	hub := ocitest.New(t, ocitest.Config{})
	hub.Push("pods", "prod", at(1), pods("web", "v1"))
	n := newNode(t, Config{Reference: hub.Addr + "/pods:prod"})
	n.expect("web.yaml=v1")
	empty := ocitest.Manifest{MediaType: ocitest.ManifestType, Config: &ocitest.Descriptor{Digest: hub.PutBlob("pods", []byte("{}")), Size: 2}}
	for name, m := range map[string][]byte{
		"no layer":     empty.Encode(t),
		"other files":  hub.ManifestOf("pods", ocitest.Archive(t, map[string]string{"README.md": "x"}), at(2)),
		"hidden files": hub.ManifestOf("pods", ocitest.Archive(t, map[string]string{".web.yaml": "x"}), at(2)),
	} {
		digest := hub.PutManifest("pods", "prod", ocitest.ManifestType, m)
		if n.refuses(digest, "it has no manifest"); n.serves() != 1 {
			t.Errorf("%s: %d pods are served", name, n.serves())
		}
	}
	empty.ArtifactType = ArtifactType
	hub.PutManifest("pods", "prod", ocitest.ManifestType, empty.Encode(t))
	n.expect()
	if n.serves() != 0 {
		t.Errorf("%d pods are served; want none", n.serves())
	}
}

// TestIndex: an index stands for the one image for this platform.
func TestIndex(t *testing.T) {
	hub := ocitest.New(t, ocitest.Config{})
	hub.Push("pods", "prod", at(1), pods("web", "v1"))
	n := newNode(t, Config{Reference: hub.Addr + "/pods:prod"})
	n.expect("web.yaml=v1")
	image := func(version string, platform map[string]string) ocitest.Descriptor {
		m := hub.ManifestOf("pods", ocitest.Archive(t, pods("web", version)), at(1))
		return ocitest.Descriptor{
			MediaType: ocitest.ManifestType, Digest: hub.PutManifest("pods", ocitest.Digest(m), ocitest.ManifestType, m), Size: int64(len(m)), Platform: platform,
		}
	}
	index := func(list ...ocitest.Descriptor) []byte {
		return ocitest.Manifest{MediaType: ocitest.IndexType, Manifests: list}.Encode(t)
	}
	own, other := map[string]string{"os": "linux", "architecture": runtime.GOARCH}, map[string]string{"os": "linux", "architecture": "other"}
	unknown := map[string]string{"os": "unknown", "architecture": "unknown"}
	nested := index(image("v5", own))
	nestedEntry := ocitest.Descriptor{MediaType: ocitest.IndexType, Digest: hub.PutManifest("pods", ocitest.Digest(nested), ocitest.IndexType, nested), Size: int64(len(nested))}
	var many []ocitest.Descriptor
	for range maxIndex + 1 {
		many = append(many, image("v1", other))
	}
	for _, tc := range []struct {
		name, want string
		index      []byte
	}{
		{"one image", "web.yaml=v2", index(image("v2", nil))},
		{"by platform", "web.yaml=v3", index(image("v2", other), image("v3", own), image("v4", unknown))},
		{"of another platform", string(errPlatform), index(image("v4", other))},
		{"none", string(errPlatform), index()},
		{"two", string(errPlatform), index(image("v4", own), image("v5", own))},
		{"nested", string(errNested), index(nestedEntry)},
		{"too many", string(errManyIndex), index(many...)},
		{"both an index and an image", string(errManifest), ocitest.Manifest{
			MediaType: ocitest.IndexType, Manifests: []ocitest.Descriptor{image("v4", own)}, Layers: []ocitest.Descriptor{{}},
		}.Encode(t)},
		{"an image with manifests", string(errManifest), ocitest.Manifest{
			MediaType: ocitest.ManifestType, Manifests: []ocitest.Descriptor{image("v4", own)}, Layers: []ocitest.Descriptor{{}},
		}.Encode(t)},
	} {
		digest := hub.PutManifest("pods", "prod", ocitest.IndexType, tc.index)
		if strings.HasPrefix(tc.want, "web") {
			n.expect(tc.want)
		} else {
			n.refuses(digest, tc.want)
		}
	}
	if n.serves() != 1 {
		t.Errorf("%d pods are served", n.serves())
	}
}

// TestBadArtifacts: what isn't an artifact of manifests, or isn't harmless, is refused. It is requested once.
func TestBadArtifacts(t *testing.T) {
	hub := ocitest.New(t, ocitest.Config{})
	hub.Push("pods", "prod", at(1), pods("web", "v1"))
	n := newNode(t, Config{Reference: hub.Addr + "/pods:prod"})
	n.expect("web.yaml=v1")
	layer := ocitest.Archive(t, pods("web", "v2"))
	manifestOf := func(change func(m *ocitest.Manifest)) []byte {
		m := ocitest.Manifest{
			MediaType: ocitest.ManifestType, Config: &ocitest.Descriptor{Digest: hub.PutBlob("pods", []byte("{}")), Size: 2},
			Layers: []ocitest.Descriptor{{MediaType: ocitest.FluxType, Digest: hub.PutBlob("pods", layer), Size: int64(len(layer))}},
		}
		change(&m)
		return m.Encode(t)
	}
	var many []ocitest.Descriptor
	for range archive.MaxLayers + 1 {
		many = append(many, ocitest.Descriptor{MediaType: ocitest.FluxType, Digest: hub.PutBlob("pods", layer), Size: int64(len(layer))})
	}
	for name, tc := range map[string]struct {
		manifest []byte
		want     string
	}{
		"no JSON":         {[]byte("hello"), string(errManifest)},
		"an object":       {[]byte("{}"), string(errManifest)},
		"a list":          {[]byte("[]"), string(errManifest)},
		"a negative size": {manifestOf(func(m *ocitest.Manifest) { m.Layers[0].Size = -1 }), string(errSize)},
		"a huge size":     {manifestOf(func(m *ocitest.Manifest) { m.Layers[0].Size = 1 << 62 }), string(archive.ErrPacked)},
		"sizes that wrap": {manifestOf(func(m *ocitest.Manifest) { m.Layers[0].Size = 1<<63 - 1; m.Layers = append(m.Layers, m.Layers[0]) }), string(archive.ErrPacked)},
		"a smaller size":  {manifestOf(func(m *ocitest.Manifest) { m.Layers[0].Size-- }), "too large"},
		"a larger size":   {manifestOf(func(m *ocitest.Manifest) { m.Layers[0].Size++ }), "another number of bytes"},
		"too many layers": {manifestOf(func(m *ocitest.Manifest) { m.Layers = many }), string(archive.ErrLayers)},
		"a missing layer": {manifestOf(func(m *ocitest.Manifest) { m.Layers[0].Digest = ocitest.Digest(nil) }), "status 404"},
		"no digest":       {manifestOf(func(m *ocitest.Manifest) { m.Layers[0].Digest = "../../x" }), "isn't one of SHA-256"},
		"a Helm chart": {manifestOf(func(m *ocitest.Manifest) {
			m.Layers[0].MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
		}), "isn't that of an archive"},
		"an archive with ..": {hub.ManifestOf("pods", ocitest.Archive(t, map[string]string{"../web.yaml": "x"}), at(1)), `has a ".."`},
	} {
		digest := hub.PutManifest("pods", "prod", ocitest.ManifestType, tc.manifest)
		if err := n.refuses(digest, tc.want); n.serves() != 1 {
			t.Errorf("%s: %d pods are served; %v", name, n.serves(), err)
		}
	}
	digest := hub.PutManifest("pods", "prod", ocitest.ManifestType, hub.ManifestOf("pods", ocitest.Archive(t, map[string]string{"/web.yaml": "x"}), at(2)))
	n.refuses(digest, "isn't relative")
	hub.Requests()
	n.refuses(digest, "isn't relative")
	if got := ocitest.Paths(hub.Requests()); strings.Contains(got, "blobs") {
		t.Errorf("bad layers are requested again: %s", got)
	}
	if lines := n.log.Count("level=WARN", "isn't relative"); lines != 1 {
		t.Errorf("a lasting error was logged %d times:\n%s", lines, n.log)
	}
	hub.Push("pods", "prod", at(2), pods("web", "v3"))
	n.expect("web.yaml=v3")
	if n.log.Count("Artifact can be used again") != 1 {
		t.Errorf("the log is\n%s", n.log)
	}
}

// TestManyFindings: the findings that are logged are bounded.
func TestManyFindings(t *testing.T) {
	hub := ocitest.New(t, ocitest.Config{})
	files, want := map[string]string{}, []string{}
	for i := range 2 * maxLogged {
		files[fmt.Sprintf("%03d.yaml", i)] = "hello"
		want = append(want, fmt.Sprintf("%03d.yaml held", i))
	}
	hub.Push("pods", "prod", at(1), files)
	n := newNode(t, Config{Reference: hub.Addr + "/pods:prod"})
	n.expect(want...)
	if lines := n.log.Count("Manifest can't be used"); lines != maxLogged || n.log.Count("More manifests have findings", fmt.Sprint("items=", maxLogged)) != 1 {
		t.Errorf("%d lines are logged", lines)
	}
}
