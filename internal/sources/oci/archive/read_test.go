package archive

import (
	"archive/tar"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// show lists the files and what is ignored.
func show(c *Content) string {
	var out []string
	for _, f := range c.Files {
		out = append(out, fmt.Sprintf("%s=%d", f.Name, len(f.Data)))
	}
	for _, name := range c.Ignored {
		out = append(out, "-"+name)
	}
	if c.More > 0 {
		out = append(out, fmt.Sprintf("-%d more", c.More))
	}
	return strings.Join(out, " ")
}

// TestTools: what each tool pushes is read.
func TestTools(t *testing.T) {
	archive := tarOf(t, entry{name: "./", kind: tar.TypeDir}, entry{name: "./b.yml", text: pod}, entry{name: "sub/", kind: tar.TypeDir},
		entry{name: "sub/a.json", text: "{}"}, entry{name: "README.md", text: "hello"}, entry{name: ".git/config.yaml", text: "x"},
		entry{name: "._b.yml", text: "x"})
	const want = "b.yml=98 sub/a.json=2 -README.md"
	file := []byte(pod)
	for _, tc := range []struct {
		name   string
		layers []Layer
		want   string
	}{
		{"flux push artifact", []Layer{layer(gzipped(t, archive))}, want},
		{"crane append", []Layer{{MediaType: "application/vnd.docker.image.rootfs.diff.tar.gzip", Data: gzipped(t, archive)}}, want},
		{"crane append --oci-empty-base", []Layer{{MediaType: "application/vnd.oci.image.layer.v1.tar+gzip", Data: gzipped(t, archive)}}, want},
		{"our own type", []Layer{{MediaType: "application/vnd.podstream.manifests.v1.tar+gzip", Data: gzipped(t, archive)}}, want},
		{"our own type, not compressed", []Layer{{MediaType: "application/vnd.podstream.manifests.v1.tar", Data: archive}}, want},
		{"a type that lies about the compression", []Layer{layer(archive)}, want},
		{"oras push DIRECTORY", []Layer{{
			MediaType: "application/vnd.oci.image.layer.v1.tar+gzip", Title: "manifests", Directory: true, Data: gzipped(t, archive),
		}}, want},
		{"oras push pods.tgz", []Layer{{MediaType: "application/vnd.oci.image.layer.v1.tar", Title: "pods.tgz", Data: gzipped(t, archive)}}, want},
		{"oras push FILES", []Layer{
			{MediaType: "application/vnd.oci.image.layer.v1.tar", Title: "web.yaml", Data: file},
			{MediaType: "application/yaml", Title: "sub/db.yaml", Data: file},
			{MediaType: "application/vnd.oci.image.layer.v1.tar", Title: "README.md", Data: []byte("hello")},
		}, "sub/db.yaml=98 web.yaml=98 -README.md"},
		{"oras push without files", []Layer{{MediaType: emptyType, Data: []byte("{}")}}, ""},
		{"git archive", []Layer{layer(gzipped(t, tarOf(t, entry{kind: tar.TypeXGlobalHeader, pax: map[string]string{"comment": "1"}},
			entry{name: "web.yaml", text: pod})))}, "web.yaml=98"},
		{"two layers", []Layer{layer(gzipped(t, tarOf(t, entry{name: "a.yaml", text: pod}))), layer(tarOf(t, entry{name: "b.yaml", text: pod}))},
			"a.yaml=98 b.yaml=98"},
		{"an empty archive", []Layer{layer(gzipped(t, tarOf(t)))}, ""},
	} {
		c, err := Read(tc.layers)
		if err != nil || show(c) != tc.want {
			t.Errorf("%s: %v, %v; want %q", tc.name, c, err, tc.want)
		}
	}
}

// TestIgnored: the names of other files are bounded.
func TestIgnored(t *testing.T) {
	var entries []entry
	for i := range 25 {
		entries = append(entries, entry{name: fmt.Sprintf("%02d.txt", i)})
	}
	c, err := Read([]Layer{layer(tarOf(t, entries...))})
	if err != nil || len(c.Ignored) != 20 || c.More != 5 || c.Ignored[0] != "00.txt" {
		t.Errorf("%v, %v; want 20 names, and 5 more", c, err)
	}
}

// TestHostile: an archive with anything that isn't harmless is refused as a whole.
func TestHostile(t *testing.T) {
	long := strings.Repeat("a/", 8) + strings.Repeat("b", 245) + ".yaml"
	of := func(entries ...entry) []Layer {
		return []Layer{layer(gzipped(t, tarOf(t, append(entries, entry{name: "web.yaml", text: pod})...)))}
	}
	whole := gzipped(t, tarOf(t, entry{name: "web.yaml", text: pod}))
	corrupt := slices.Clone(whole)
	corrupt[len(corrupt)-5] ^= 1 // A byte of the checksum.
	bomb := fileOf(t, "a.txt", make([]byte, 1<<20), 20)
	var many []Layer
	for range 3 {
		many = append(many, layer(tarOf(t, entry{name: "a.txt", text: strings.Repeat("\x01\x02\x03 ", 1<<20)})))
	}
	for _, tc := range []struct {
		name   string
		layers []Layer
		want   string
	}{
		{"symbolic link", of(entry{name: "a.yaml", kind: tar.TypeSymlink, link: "/etc/shadow"}), `"a.yaml" in it is a symbolic link`},
		{"hard link", of(entry{name: "a.yaml", kind: tar.TypeLink, link: "web.yaml"}), `"a.yaml" in it is a hard link`},
		{"character device", of(entry{name: "a.yaml", kind: tar.TypeChar}), `"a.yaml" in it is a device`},
		{"block device", of(entry{name: "a", kind: tar.TypeBlock}), `"a" in it is a device`},
		{"FIFO", of(entry{name: "a.yaml", kind: tar.TypeFifo}), `"a.yaml" in it is a named pipe`},
		{"an unknown type", of(entry{name: "a.yaml", kind: 'Z'}), `"a.yaml" in it is a file of an unknown type`},
		{"a sparse file", []Layer{layer(newSparse(t))}, `"a.yaml" in it is a sparse file`},
		{"a sparse file in the old format", []Layer{layer(oldSparse(t))}, `"a.yaml" in it is a sparse file`},
		{"dot dot", of(entry{name: "../../etc/a.yaml", text: pod}), `has a ".."`},
		{"dot dot inside", of(entry{name: "a/../a.yaml", text: pod}), `has a ".."`},
		{"dot dot of a directory", of(entry{name: "../a/", kind: tar.TypeDir}), `has a ".."`},
		{"dot dot of an ignored file", of(entry{name: "../a.txt"}), `has a ".."`},
		{"absolute", of(entry{name: "/etc/podstream/manifests/a.yaml", text: pod}), "isn't relative"},
		{"backslash", of(entry{name: `..\a.yaml`, text: pod}), `has a "\"`},
		{"number sign", of(entry{name: `x#default/web.yaml`, text: pod}), `a "#"`},
		{"escape sequence", of(entry{name: "a\x1b[31m.yaml", text: pod}), `the path "a?[31m.yaml" in it has characters`},
		{"bidi override", of(entry{name: "a\u202elmay.exe.yaml", text: pod}), "has characters that aren't printable"},
		{"too long", of(entry{name: long, text: pod}), "is too long"},
		{"too deep", of(entry{name: strings.Repeat("a/", 16) + "a.yaml", text: pod}), "is too deep"},
		{"twice", of(entry{name: "./web.yaml", text: pod}), `"web.yaml" is in it twice`},
		{"twice in two layers", []Layer{layer(whole), layer(whole)}, `"web.yaml" is in it twice`},
		{"whiteout", of(entry{name: ".wh.web.yaml"}), `".wh.web.yaml" in it removes a file`},
		{"title with dot dot", []Layer{{MediaType: "text/yaml", Title: "../web.yaml", Data: []byte(pod)}}, `has a ".."`},
		{"unknown type", []Layer{{MediaType: "application/vnd.cncf.helm.chart.content.v1.tar+gzip", Data: whole}}, "which isn't that of an archive"},
		{"no tar", []Layer{layer([]byte(pod))}, string(errNotTar)},
		{"no tar in gzip", []Layer{layer(gzipped(t, []byte(pod)))}, string(errNotTar)},
		{"cut", []Layer{layer(tarOf(t, entry{name: "web.yaml", text: pod})[:600])}, string(errNotTar)},
		{"cut gzip", []Layer{layer(whole[:len(whole)-20])}, string(errNotTar)},
		{"gzip with a wrong checksum", []Layer{layer(corrupt)}, string(errNotTar)},
		{"zstd", []Layer{layer([]byte("\x28\xb5\x2f\xfdxx"))}, "zstd"},
		{"bomb", []Layer{layer(bomb)}, string(errRatio)},
		{"bomb behind the end of tar", []Layer{layer(append(gzipped(t, tarOf(t)), bytes.Repeat(gzipped(t, make([]byte, 1<<20)), 20)...))}, string(errRatio)},
		{"too many packed bytes", []Layer{many[0], many[1], many[2]}, string(ErrPacked)},
		{"too many layers", make([]Layer, MaxLayers+1), string(ErrLayers)},
	} {
		if c, err := Read(tc.layers); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, %v; want %q", tc.name, c, err, tc.want)
		}
	}
}

// entriesOf returns an archive of empty files.
func entriesOf(t *testing.T, n int, name func(i int) string) []Layer {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := range n {
		if err := w.WriteHeader(&tar.Header{Name: name(i), Typeflag: tar.TypeReg, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return []Layer{layer(out.Bytes())}
}

// TestMillionEntries: a million entries, which are 512 MB, are refused by their number, in bounded memory.
func TestMillionEntries(t *testing.T) {
	var block bytes.Buffer
	w := tar.NewWriter(&block)
	for i := range 1000 {
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%x.txt", i*7919), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
	}
	// A thousand parts of gzip are one stream. None of them ends the archive.
	data := bytes.Repeat(gzipped(t, block.Bytes()), 1000)
	if len(data) > MaxPacked {
		data = data[:MaxPacked] // The rest is never reached.
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Read([]Layer{layer(data)})
	runtime.ReadMemStats(&after)
	if !errors.Is(err, errEntries) {
		t.Errorf("%v; want %q", err, errEntries)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
		t.Errorf("%d MiB were allocated", grown>>20)
	}
}

// TestCounts: the limits of entries and manifests are exact.
func TestCounts(t *testing.T) {
	for _, tc := range []struct {
		n    int
		name string
		want string
	}{
		{maxFiles, "%d.yaml", ""}, {maxFiles + 1, "%d.yaml", string(errFiles)},
		{maxEntries, "%d.txt", ""}, {maxEntries + 1, "%d.txt", string(errEntries)},
	} {
		layers := entriesOf(t, tc.n, func(i int) string { return fmt.Sprintf(tc.name, i) })
		_, err := Read(layers)
		if got := fmt.Sprint(err); err == nil && tc.want != "" || err != nil && got != tc.want {
			t.Errorf("%d entries %s: %v; want %q", tc.n, tc.name, err, tc.want)
		}
	}
	// Digits at random compress to half of their size.
	random := make([]byte, 1<<19)
	if _, err := rand.NewChaCha8([32]byte{}).Read(random); err != nil {
		t.Fatal(err)
	}
	text := []byte(hex.EncodeToString(random))
	for n, want := range map[int]error{maxManifest >> 20: nil, maxManifest>>20 + 1: errLargeFile} {
		if _, err := Read([]Layer{layer(fileOf(t, "a.yaml", text, n))}); !errors.Is(err, want) {
			t.Errorf("a manifest of %d MiB: %v; want %v", n, err, want)
		}
	}
	if _, err := Read([]Layer{layer(fileOf(t, "a.yaml", bytes.Repeat([]byte("# "), 1<<19), 9))}); !errors.Is(err, errRatio) {
		t.Errorf("a repeated manifest: %v", err)
	}
}
