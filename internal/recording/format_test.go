package recording_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/podstream/podstream/internal/recording"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// A recording that is read is equal to the written one.
func TestRoundTrip(t *testing.T) {
	for _, name := range []string{"r.jsonl", "r.jsonl.gz"} {
		path := filepath.Join(t.TempDir(), name)
		w, err := recording.Create(recording.FileConfig{Path: path, Header: header()})
		if err != nil {
			t.Fatal(err)
		}
		write(t, w, example())
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o600 {
			t.Errorf("%s: mode %v; want one for the owner only", name, info.Mode())
		}
		if got, want := w.Stats(), (recording.Stats{Messages: 8, Revisions: 4, Bytes: info.Size()}); got != want {
			t.Errorf("%s: stats %+v; want %+v", name, got, want)
		}
		r, err := recording.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if d := diff(header(), r.Header()); d != "" {
			t.Errorf("%s: the header (-want +got):\n%s", name, d)
		}
		got, err := readAll(r)
		if d := diff(example(), got); d != "" || err != nil || r.CutOff() {
			t.Errorf("%s: error %v, cut off %t; the entries (-want +got):\n%s", name, err, r.CutOff(), d)
		}
		if _, err := r.Read(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: Read after the end: %v; want io.EOF", name, err)
		}
	}
}

// All later versions can read recordings of this version: the files in testdata are never written again.
func TestFormatStays(t *testing.T) {
	for _, path := range []string{"testdata/v1.jsonl", "testdata/v1.jsonl.gz"} {
		r, err := recording.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if d := diff(header(), r.Header()); d != "" {
			t.Errorf("%s: the header (-want +got):\n%s", path, d)
		}
		if got, err := readAll(r); err != nil || diff(example(), got) != "" {
			t.Errorf("%s: error %v; the entries (-want +got):\n%s", path, err, diff(example(), got))
		}
	}
	want, err := os.ReadFile("testdata/v1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(string(want), string(recorded(t, false, example()))); d != "" {
		t.Errorf("the recording as written now (-want +got):\n%s", d)
	}
}

func TestCreateDoesNotOverwrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	if err := os.WriteFile(path, []byte(strings.Repeat("precious", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := recording.Create(recording.FileConfig{Path: path, Header: header()}); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("Create on a file: %v; want fs.ErrExist", err)
	}
	w, err := recording.Create(recording.FileConfig{Path: path, Header: header(), Overwrite: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := recording.Summarize(path); err != nil || s.Messages != 0 || s.CutOff {
		t.Errorf("the file that was overwritten: %+v, error %v; want an empty recording", s, err)
	}
}

// Each revision is flushed as soon as it is complete. A part of a revision needn't be.
func TestFlushedByRevision(t *testing.T) {
	for _, compress := range []bool{false, true} {
		var b bytes.Buffer
		w, err := recording.NewWriter(recording.WriterConfig{Out: &b, Header: header(), Compress: compress})
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range example() {
			write(t, w, []recording.Entry{e})
			if e.Message.GetCursor() == nil {
				continue
			}
			r, err := recording.NewReader("killed", bytes.NewReader(b.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := readAll(r); err != nil || len(got) != i+1 {
				t.Errorf("compressed %t: killed after message %d, %d can be read, error %v", compress, i+1, len(got), err)
			}
			// Compressed data without its end counts as cut off, though no message is missing.
			if r.CutOff() != compress {
				t.Errorf("compressed %t: CutOff is %t", compress, r.CutOff())
			}
		}
	}
}

// Wherever a file is cut off, the whole lines before that point can be read.
func TestCutOff(t *testing.T) {
	text := recorded(t, false, example())
	headerEnd := bytes.IndexByte(text, '\n')
	for n := headerEnd; n <= len(text); n++ {
		r, err := recording.NewReader("cut", bytes.NewReader(text[:n]))
		if err != nil {
			t.Fatalf("cut off after %d bytes: %v", n, err)
		}
		got, err := readAll(r)
		// A line that lacks only its line end is whole.
		whole := max(bytes.Count(append(text[:n:n], text[n:min(n+1, len(text))]...), []byte("\n"))-1, 0)
		if err != nil || len(got) != whole || diff(example()[:whole], got) != "" {
			t.Fatalf("cut off after %d bytes: %d messages, error %v; want %d", n, len(got), err, whole)
		}
		inLine := n > headerEnd+1 && text[n-1] != '\n' && n < len(text) && text[n] != '\n'
		if r.CutOff() != inLine {
			t.Fatalf("cut off after %d bytes: CutOff is %t; want %t", n, r.CutOff(), inLine)
		}
	}
	zipped := recorded(t, true, example())
	read := 0
	for n := range zipped {
		r, err := recording.NewReader("cut", bytes.NewReader(zipped[:n]))
		if err != nil {
			continue // before the end of the header
		}
		got, err := readAll(r)
		if err != nil || len(got) < read || !r.CutOff() || diff(example()[:len(got)], got) != "" {
			t.Fatalf("compressed, cut off after %d bytes: %d messages after %d with a byte less, error %v, cut off %t",
				n, len(got), read, err, r.CutOff())
		}
		read = len(got)
	}
	if read != len(example()) {
		t.Errorf("without its last byte only %d messages of a compressed file can be read", read)
	}
}

// A later version of podconfig.v1 has fields and enum values that are unknown here.
func TestUnknownFields(t *testing.T) {
	text := string(recorded(t, false, nil)) +
		`{"seconds":1,"later":[1],"message":{"later":{"x":1},"update":{"op":"POD_OPERATION_LATER","source":"file"}}}` + "\n"
	r, err := recording.NewReader("later", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	got, err := readAll(r)
	if err != nil || len(got) != 1 || got[0].Message.GetUpdate().GetSource() != "file" {
		t.Errorf("%v, error %v", got, err)
	}
}

// A recording contains only printable ASCII, so that it is harmless on a terminal, and its content is unchanged.
func TestPrintableASCII(t *testing.T) {
	m := op(1, opAdd, "\x1b[2J\u009b\u202e\x7f<é😀>")
	text := recorded(t, false, entries(m))
	for _, b := range text {
		if b != '\n' && (b < ' ' || b > '~') {
			t.Errorf("byte %#x in the recording", b)
		}
	}
	r, err := recording.NewReader("r", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(r); err != nil || diff(entries(m), got) != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff(entries(m), got))
	}
}

// A message beyond a Reader's limit is rejected. The recording continues without it.
func TestWriterRefuses(t *testing.T) {
	var b bytes.Buffer
	w, err := recording.NewWriter(recording.WriterConfig{Out: &b, Header: header()})
	if err != nil {
		t.Fatal(err)
	}
	huge := op(1, opAdd, strings.Repeat("\x01", 2<<20))
	const want = "encode message 1 of the recording: the line is longer than 8 MiB"
	if err := w.Write(0, huge); err == nil || err.Error() != want {
		t.Errorf("a message of more than 8 MiB: %v", err)
	}
	bad := op(1, opAdd, "web")
	bad.GetUpdate().GetPods()[0].Content = &podconfigv1.Pod_Json{Json: &structpb.Struct{Fields: map[string]*structpb.Value{"x": {}}}}
	if err := w.Write(0, bad); err == nil {
		t.Error("a message that has no JSON is written; want an error")
	}
	write(t, w, example())
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), recorded(t, false, example())) {
		t.Error("the recording contains a part of the rejected messages")
	}
}

var errFull = errors.New("no space left on device")

// fullDisk accepts the given number of bytes.
type fullDisk struct{ left int }

func (d *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.left)
	if d.left -= n; n < len(p) {
		return n, errFull
	}
	return n, nil
}

func TestDiskFull(t *testing.T) {
	for _, compress := range []bool{false, true} {
		_, err := recording.NewWriter(recording.WriterConfig{Out: &fullDisk{}, Header: header(), Compress: compress})
		if !errors.Is(err, errFull) {
			t.Errorf("compressed %t: the header on a full disk: %v; want errFull", compress, err)
		}
		w, err := recording.NewWriter(recording.WriterConfig{Out: &fullDisk{left: 400}, Header: header(), Compress: compress})
		if err != nil {
			t.Fatal(err)
		}
		for n := uint64(1); err == nil && n < 1000; n++ {
			err = w.Write(0, op(n, opAdd, "web"))
		}
		if !errors.Is(err, errFull) || !errors.Is(w.Close(), errFull) {
			t.Errorf("compressed %t: a message on a full disk: %v, Close: %v; want errFull from both", compress, err, w.Close())
		}
	}
}
