package kubeletconfig

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// piped is the shell's <(command) of a command that writes the text, and ends unless it is to go on.
func piped(t *testing.T, text string, goesOn bool) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
		// The next pipe may have the same descriptor.
		given.pipes = nil
	})
	if _, err := w.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if !goesOn {
		w.Close()
	}
	return fmt.Sprintf("/dev/fd/%d", r.Fd())
}

// TestConfigFromAPipe: the main file may be a pipe if the program's own command line names it. Its content is kept
// for later readings.
func TestConfigFromAPipe(t *testing.T) {
	path := piped(t, "kind: KubeletConfiguration\n", false)
	for _, when := range []string{"at start", "read again"} {
		files, err := Load(Paths{Config: path, Given: true})
		if err != nil || len(files) != 1 || string(files[0].Data) != "kind: KubeletConfiguration\n" {
			t.Errorf("%s: %v, %v", when, files, err)
		}
	}
	if _, err := Load(Paths{Config: piped(t, "kind: X\n", false)}); err == nil {
		t.Error("a pipe is read that another program's command line names")
	}
}

func TestConfigFromAPipeIsBounded(t *testing.T) {
	before := pipeTimeout
	pipeTimeout = 50 * time.Millisecond
	defer func() { pipeTimeout = before }()
	if _, err := Load(Paths{Config: piped(t, "kind: ", true), Given: true}); err == nil || !strings.Contains(err.Error(), "its writer hasn't ended") {
		t.Errorf("%v; want that the writer hasn't ended", err)
	}
}
