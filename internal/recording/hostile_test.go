package recording_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/recording"
)

// The error for a text that isn't a recording names the line.
func TestHostile(t *testing.T) {
	good := string(recorded(t, false, nil))
	zip := func(s string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, s)
		_ = w.Close()
		return b.String()
	}
	long := strings.Repeat("x", recording.MaxLine)
	damaged := []byte(zip(good + long))
	damaged[len(damaged)/2] ^= 0xff
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":              {"", "evil: not a recording: it is empty"},
		"nothing, compressed":  {zip(""), "evil: not a recording: it is empty"},
		"cut-off compression":  {zip(good)[:5], "evil: not a recording: its compression"},
		"garbage":              {"\x00\x01\x02\n", "evil:1: not the header of a recording: "},
		"garbage in one line":  {"\x7fELF", "evil:1: the file is cut off in this line"},
		"other JSON":           {`{"version":1}` + "\n", `evil:1: not the header of a recording: the stream is ""`},
		"a later version":      {strings.Replace(good, `"version":1`, `"version":2`, 1), "evil:1: the recording has version 2"},
		"a bad request":        {strings.Replace(good, `"request":{`, `"request":{"mode":{},`, 1), "evil:1: the recorded request: "},
		"a garbage line":       {good + "{}}\n", "evil:2: not a line of a recording: "},
		"an empty line":        {good + "\n", "evil:2: not a line of a recording: "},
		"no message":           {good + "{}\n", "evil:2: the line has no message"},
		"a message of null":    {good + `{"message":null}` + "\n", "evil:2: the message: "},
		"not a message":        {good + `{"message":{"update":7}}` + "\n", "evil:2: the message: "},
		"a whole last line":    {good + `{"message":{"update":7}}`, "evil:2: the message: "},
		"time before start":    {good + `{"seconds":-1,"message":{}}` + "\n", "evil:2: -1 seconds is no time"},
		"time without end":     {good + `{"seconds":1e300,"message":{}}` + "\n", "evil:2: 1e+300 seconds is no time"},
		"time goes back":       {good + `{"seconds":2,"message":{}}` + "\n" + `{"seconds":1,"message":{}}`, "evil:3: the message is of 1s"},
		"a long header":        {long + "\n", "evil:1: the line is longer than 8 MiB"},
		"a long line":          {good + long + "\n", "evil:2: the line is longer than 8 MiB"},
		"an endless line":      {good + long + long, "evil:2: the line is longer than 8 MiB"},
		"a compression bomb":   {zip(good + long + long), "evil:2: the line is longer than 8 MiB"},
		"damaged compression":  {string(damaged), "evil:2: "},
		"nested without end":   {good + `{"message":` + strings.Repeat(`{"a":`, 1<<20) + "\n", "evil:2: not a line of a recording: "},
		"a pod without bottom": {good + deepPod() + "\n", "evil:2: "},
	} {
		r, err := recording.NewReader("evil", strings.NewReader(tc.text))
		if err == nil {
			_, err = readAll(r)
			if _, again := r.Read(); err != nil && !errors.Is(again, err) {
				t.Errorf("%s: the next Read returns %v; want the same error", name, again)
			}
		}
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: error %v; want %s", name, err, tc.want)
		}
	}
}

// deepPod returns a line whose pod is nested deeper than protobuf's JSON decoder allows.
func deepPod() string {
	const depth = 20_000
	return `{"message":{"update":{"pods":[{"json":{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}}]}}}`
}

// FuzzReader: no input makes a Reader panic, and messages that were read can be written and read again.
func FuzzReader(f *testing.F) {
	for _, path := range []string{"testdata/v1.jsonl", "testdata/v1.jsonl.gz"} {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add(text[:len(text)*2/3])
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := recording.NewReader("fuzz", bytes.NewReader(text))
		if err != nil {
			return
		}
		first, _ := readAll(r)
		var b bytes.Buffer
		w, err := recording.NewWriter(recording.WriterConfig{Out: &b, Header: r.Header()})
		if err != nil {
			t.Fatalf("the header that was read can't be written: %v", err)
		}
		write(t, w, first)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := recording.NewReader("again", &b)
		if err != nil {
			t.Fatal(err)
		}
		second, err := readAll(again)
		if d := diff(first, second); err != nil || d != "" {
			t.Errorf("read again: error %v (-first +second):\n%s", err, d)
		}
	})
}
