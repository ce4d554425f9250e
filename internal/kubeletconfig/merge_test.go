package kubeletconfig

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/kubeletconfig/document"
)

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// merge makes a Config of a main file and drop-ins.
func merge(t *testing.T, main string, dropIns ...string) (*Config, error) {
	t.Helper()
	files := []File{{Path: "/etc/kubelet.yaml", Data: []byte(main)}}
	for i, text := range dropIns {
		files = append(files, File{Path: "/etc/kubelet.d/" + string(rune('a'+i)) + ".conf", Data: []byte(text), DropIn: true})
	}
	docs, err := Parse(files)
	if err != nil {
		return nil, err
	}
	return Merge(docs)
}

func TestMerge(t *testing.T) {
	cfg, err := merge(t, head+`staticPodPath: manifests
staticPodURL: http://main/
staticPodURLHeader: {A: [one], B: [two]}
fileCheckFrequency: 30s
evictionHard: {memory.available: 5%}
runOnce: yes
`, head+`staticPodURLHeader: {B: null, C: [three, four]}
httpCheckFrequency: 1m
`, `{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "staticPodPath": "../other", "staticPodURL": null}`)
	if err != nil {
		t.Fatal(err)
	}
	header := cfg.StaticPodURLHeader
	if cfg.StaticPodPath != "/etc/other" || cfg.StaticPodURL != "" || !cfg.RunOnce ||
		cfg.FileCheckFrequency.Duration != 30*time.Second || cfg.HTTPCheckFrequency.Duration != time.Minute ||
		len(header) != 2 || !slices.Equal(header["A"], []string{"one"}) || !slices.Equal(header["C"], []string{"three", "four"}) {
		t.Errorf("the files together are %+v", cfg.KubeletConfiguration)
	}
	want := []string{"staticPodPath", "fileCheckFrequency", "httpCheckFrequency", "staticPodURLHeader", "runOnce", "evictionHard"}
	if got := cfg.Set(); !slices.Equal(got, want) {
		t.Errorf("set are %q; want %q", got, want)
	}
	if got := cfg.Ignored(); !slices.Equal(got, []string{"runOnce"}) {
		t.Errorf("ignored is %q; want runOnce", got)
	}
	if err := cfg.Mistake(document.Field{"fileCheckFrequency"}, "no"); err.Error() != "/etc/kubelet.yaml:6: fileCheckFrequency: no" {
		t.Errorf("a complaint about a field is %q; want its file and line", err)
	}
	if err := cfg.Mistake(document.Field{"maxPods"}, "no"); err.Error() != "maxPods: no" {
		t.Errorf("a complaint about a field that isn't given is %q", err)
	}
}

// TestWrittenOut: a file in which a tool has written every field, most of them empty, sets only the others.
func TestWrittenOut(t *testing.T) {
	cfg, err := merge(t, head+`authentication: {anonymous: {enabled: false}, webhook: {cacheTTL: 0s}, x509: {}}
authorization: {mode: "", webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}}
cpuManagerReconcilePeriod: 0s
logging: {flushFrequency: 0, options: {json: {infoBufferSize: "0"}, text: {infoBufferSize: "0"}}, verbosity: 0}
memorySwap: {}
registryPullQPS: 0
staticPodPath: /etc/kubernetes/manifests
featureGates: null
`)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := cfg.Set(), []string{"staticPodPath", "authentication", "registryPullQPS"}; !slices.Equal(got, want) {
		t.Errorf("set are %q; want %q", got, want)
	}
}

// TestWarnings: fields about which the kubelet is lenient are warnings, with their place.
func TestWarnings(t *testing.T) {
	cfg, err := merge(t, head+"staticPodPath: /a\nfuture: {x: 1}\nstaticPodPath: /b\n", head+"authentication:\n  future: 1\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"/etc/kubelet.yaml:5: staticPodPath: it is given already in line 3", "/etc/kubelet.yaml:4: future: there is no such field",
		"/etc/kubelet.d/a.conf:4: authentication.future: there is no such field",
	}
	if !slices.Equal(cfg.Warnings, want) || cfg.StaticPodPath != "/b" {
		t.Errorf("warnings %q, path %s; want %q, and the last path", cfg.Warnings, cfg.StaticPodPath, want)
	}
}

func TestMistakes(t *testing.T) {
	for want, files := range map[string][]string{
		"/etc/kubelet.yaml: it is empty":                                                         {"# nothing\n---\n"},
		"/etc/kubelet.yaml:3: apiVersion is missing":                                             {"\n\nkind: KubeletConfiguration\n"},
		"/etc/kubelet.yaml:1: want a mapping with apiVersion and kind":                           {"[a]"},
		"/etc/kubelet.yaml:3: staticPodPath: want a string, not a number":                        {head + "staticPodPath: 3"},
		"/etc/kubelet.yaml:4: staticPodURLHeader.A: want a list":                                 {head + "staticPodURLHeader:\n  A: b"},
		"/etc/kubelet.yaml:5: staticPodURLHeader.A[1]: want a string, not a bool":                {head + "staticPodURLHeader:\n  A: [b,\n    true]"},
		"/etc/kubelet.yaml:3: rotateCertificates: want true or false, not a string":              {head + "rotateCertificates: 'no'"},
		"/etc/kubelet.yaml:3: port: want a whole number, not a number 1.5":                       {head + "port: 1.5"},
		"/etc/kubelet.yaml:3: fileCheckFrequency: it must not be less than zero":                 {head + "fileCheckFrequency: -1s"},
		"/etc/kubelet.yaml:3: fileCheckFrequency: want a time with its unit":                     {head + "fileCheckFrequency: soon"},
		"/etc/kubelet.yaml:4: staticPodURLHeader: a header has no value":                         {head + "staticPodURLHeader:\n  A:"},
		"/etc/kubelet.yaml:4: this isn't valid YAML: mapping values are not allowed":             {head + "a: b\nc: d: e"},
		"/etc/kubelet.yaml:3: there are bytes that aren't UTF-8 text":                            {head + "staticPodPath: \xff"},
		"/etc/kubelet.d/a.conf:4: staticPodPath: it is given already in line 3":                  {head, head + "staticPodPath: a\nstaticPodPath: b"},
		"/etc/kubelet.d/a.conf:3: authentication: want a mapping":                                {head, head + "authentication: 1"},
		"/etc/kubelet.yaml:3: evictionHard: want a mapping\n/etc/kubelet.d/b.conf:3: port: want": {head + "evictionHard: x", head, head + "port: x"},
	} {
		cfg, err := merge(t, files[0], files[1:]...)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q gives %v, %v; want %s", files, cfg, err, want)
		}
	}
}

// TestAliases: anchors work as far as they don't blow up the file.
func TestAliases(t *testing.T) {
	cfg, err := merge(t, head+"staticPodPath: &p /m\npodLogsDir: *p\n")
	if err != nil || cfg.PodLogsDir != "/m" {
		t.Errorf("with an alias: %v, %v; want the value that it stands for", cfg, err)
	}
	bomb := head + "a: &a [xxxxxxxxxxxxxxxxxxxxxxxx]\n"
	for c := 'b'; c < 'j'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 10) + "]\n"
	}
	if _, err := merge(t, bomb); err == nil || !strings.Contains(err.Error(), "expand to too much") {
		t.Errorf("a file whose aliases expand to gigabytes gives %v; want an error that says so", err)
	}
}

// TestLoad: the main file first, then the drop-ins, in lexical order.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{
		"main.yaml", "d/20.conf", "d/10.conf", "d/15/x.conf", "d/readme", "d/30.conf.bak", "d/.hidden.conf", "d/..2026/10.conf", "d/30.conf~",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("d", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	files, err := Load(Paths{Config: filepath.Join(dir, "main.yaml"), Dir: filepath.Join(dir, "link")})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		if f.DropIn != strings.HasPrefix(f.Path, filepath.Join(dir, "link")) {
			t.Errorf("%s: DropIn is %v", f.Path, f.DropIn)
		}
		got = append(got, string(f.Data))
	}
	if want := []string{"main.yaml", "d/10.conf", "d/15/x.conf", "d/20.conf"}; !slices.Equal(got, want) {
		t.Errorf("the files are %q; want %q", got, want)
	}
	if files, err := Load(Paths{}); len(files) != 0 || err != nil {
		t.Errorf("without paths: %v, %v; want nothing", files, err)
	}
	for flag, paths := range map[string]Paths{
		"--config":             {Config: filepath.Join(dir, "missing")},
		"--config-dir":         {Dir: filepath.Join(dir, "missing")},
		"isn't a regular file": {Config: dir},
	} {
		if _, err := Load(paths); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%+v gives %v; want an error with %q", paths, err, flag)
		}
	}
}

// TestHeadersTakenBack: in a drop-in null removes a header, if it can have that meaning.
func TestHeadersTakenBack(t *testing.T) {
	cfg, err := merge(t, head+"staticPodURLHeader: {A: [b]}\n", head+"staticPodURLHeader: {A: null}\n")
	if err != nil || len(cfg.StaticPodURLHeader) > 0 {
		t.Errorf("with a header taken back: %v, %v; want none", cfg, err)
	}
	_, err = merge(t, head, head+"staticPodURLHeader: {Authorization:Bearer TOPSECRET}\n")
	if err == nil || err.Error() != "/etc/kubelet.d/a.conf:3: staticPodURLHeader: a header has no value; want Name: [value]" {
		t.Errorf("a header without the space behind its colon gives %v; want an error without its text", err)
	}
}

// TestReadFile: anything but a regular file is an error at once, and so is a large one.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "isn't a regular file", "/dev/zero": "isn't a regular file", file: "has more than 4 bytes"} {
		if _, err := ReadFile(path, 4); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v; want that it %s", path, err, want)
		}
	}
	if data, err := ReadFile(file, 5); err != nil || string(data) != "12345" {
		t.Errorf("a small file gives %q, %v; want its text", data, err)
	}
}

// TestPodexecd: podexecd's fields are listed apart from unused ones.
func TestPodexecd(t *testing.T) {
	cfg, err := merge(t, head+"staticPodPath: /m\nmaxPods: 5\nrunOnce: true\nclusterDomain: x\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Podexecd(); !slices.Equal(got, []string{"clusterDomain", "maxPods"}) {
		t.Errorf("podexecd's are %q; want clusterDomain and maxPods", got)
	}
}
