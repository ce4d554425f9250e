package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"testing"
)

const pod = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: main, image: app}]}}"

// entry is one entry of an archive.
type entry struct {
	name, text string
	kind       byte
	link       string
	pax        map[string]string
}

// tarOf returns an archive of the entries.
func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644, Typeflag: e.kind, Linkname: e.link, PAXRecords: e.pax}
		if e.kind == tar.TypeXGlobalHeader {
			h = &tar.Header{Typeflag: e.kind, PAXRecords: e.pax}
		}
		if e.kind == 0 {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(e.text))
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatalf("entry %q: %v", e.name, err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(e.text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// layer is one of the type that flux pushes.
func layer(data []byte) Layer {
	return Layer{MediaType: "application/vnd.cncf.flux.content.v1.tar+gzip", Data: data}
}

// oldSparse returns an archive with one file in GNU's old format of sparse files.
func oldSparse(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Name: "a.yaml", Typeflag: tar.TypeReg, Format: tar.FormatGNU}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	header := out.Bytes()[:512]
	header[156] = tar.TypeGNUSparse
	copy(header[483:], "00000000000")
	copy(header[148:156], "        ")
	sum := 0
	for _, b := range header {
		sum += int(b)
	}
	copy(header[148:], fmt.Sprintf("%06o\x00 ", sum))
	return out.Bytes()
}

// newSparse returns one with a file in the format of PAX.
func newSparse(t testing.TB) []byte {
	t.Helper()
	archive := tarOf(t, entry{name: "a.yaml", text: pod, pax: map[string]string{"PAX.sparse.name": "b.yaml"}})
	return bytes.Replace(archive, []byte("PAX.sparse"), []byte("GNU.sparse"), 1)
}

// fileOf returns an archive with gzip that has one file, the same text n times. A stream of gzip may have parts, so the text,
// whose length is a multiple of 512, is compressed once. The archive has no end of its own.
func fileOf(t testing.TB, name string, text []byte, n int) []byte {
	t.Helper()
	var header bytes.Buffer
	if err := tar.NewWriter(&header).WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(n * len(text))}); err != nil {
		t.Fatal(err)
	}
	return append(gzipped(t, header.Bytes()), bytes.Repeat(gzipped(t, text), n)...)
}
