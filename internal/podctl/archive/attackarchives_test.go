package archive

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// makesDevices reports whether this process may make devices.
func makesDevices(t *testing.T) bool {
	return unix.Mknod(filepath.Join(t.TempDir(), "null"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) == nil
}

// sparse returns an archive with one file of a size of which only the first bytes are in the archive: the form of GNU
// tar, version 1.0.
func sparse(t *testing.T, name string, size int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	content := "1\n0\n1\n" // One piece, of one byte.
	content += strings.Repeat("\x00", 512-len(content)) + "x"
	h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content)), Format: tar.FormatPAX, PAXRecords: map[string]string{
		"GNU_sparse.major": "1", "GNU_sparse.minor": "0", "GNU_sparse.name": name, "GNU_sparse.realsize": fmt.Sprint(size),
	}}
	if err := w.WriteHeader(h); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// The writer refuses records of these names.
	return bytes.ReplaceAll(b.Bytes(), []byte("GNU_sparse."), []byte("GNU.sparse."))
}

// headers are at least so many bytes of headers that each describe the entry after them.
func headers(t *testing.T, bytesOf int) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	h := &tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755, Format: tar.FormatPAX, PAXRecords: map[string]string{"X.note": strings.Repeat("x", 512<<10)}}
	if err := w.WriteHeader(h); err != nil {
		t.Fatal(err)
	}
	one := b.Bytes()[:b.Len()-512] // without the entry's own header
	return bytes.NewReader(bytes.Repeat(one, bytesOf/len(one)+1))
}
