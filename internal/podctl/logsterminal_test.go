package podctl

import (
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/term"

	"github.com/podstream/podstream/internal/hostiletext"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// hostileLogs is a node with a pod that writes the hostile corpus, and a colour.
func hostileLogs(t *testing.T) (n *node, text string) {
	t.Helper()
	n = newNode(t)
	text = "\x1b[32mgreen\x1b[0m\n" + strings.Join(hostiletext.Strings(), "\n") + "\n"
	n.busy(&busyPodexecd{
		pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web")},
		logs: func(_ *podexecv1.ReadLogsRequest, stream logStream) error {
			for rest := []byte(text); len(rest) > 0; rest = rest[min(7, len(rest)):] { // Characters are split.
				if err := stream.Send(&podexecv1.ReadLogsResponse{Data: rest[:min(7, len(rest))]}); err != nil {
					return err
				}
			}
			return nil
		},
	})
	return n, text
}

// At a terminal a container's output can't act on the terminal, but for colours; --raw, a file and a pipe get it as it is.
func TestLogsAtATerminal(t *testing.T) {
	const end = "the end of the log"
	for args, escaped := range map[string]bool{"logs web": true, "logs web --prefix": true, "logs web --raw": false} {
		n, text := hostileLogs(t)
		user, program := pseudoterminal(t)
		if _, err := term.MakeRaw(int(program.Fd())); err != nil { // It would change line ends.
			t.Fatal(err)
		}
		read := make(chan string, 1)
		go func() {
			got, buffer := "", make([]byte, 4096)
			for !strings.HasSuffix(got, end) {
				n, err := user.Read(buffer)
				if got += string(buffer[:n]); err != nil {
					break
				}
			}
			read <- strings.TrimSuffix(got, end)
		}()
		code := Run(t.Context(), Config{
			Args: append([]string{"--podexec-endpoint=unix://" + n.socket("podexecd")}, strings.Fields(args)...), Stdout: program, Stderr: n.stderr,
			Getenv: noVariables, Hostname: "node1",
		})
		if _, err := io.WriteString(program, end); err != nil {
			t.Fatal(err)
		}
		got := <-read
		if code != exitOK || n.stderr.String() != "" {
			t.Errorf("%s: exit code %d, stderr %q", args, code, n.stderr)
		}
		if !escaped {
			if got != text {
				t.Errorf("%s: %q", args, got)
			}
			continue
		}
		if !strings.Contains(got, "\x1b[32mgreen\x1b[0m\n") || !strings.Contains(got, "javascript:alert(1)\n") {
			t.Errorf("%s: a colour or a line is missing in %q", args, got)
		}
		for _, colour := range []string{"\x1b[32m", "\x1b[31m", "\x1b[30;40m", "\x1b[0m"} {
			got = strings.ReplaceAll(got, colour, "")
		}
		if r, at := hostiletext.Find(got, "\n\t"); at >= 0 {
			t.Errorf("%s: the terminal gets %U, after %q", args, r, got[max(0, at-100):at])
		}
	}
	n, text := hostileLogs(t)
	file, err := os.Create(n.socket("file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	code := Run(t.Context(), Config{
		Args: []string{"--podexec-endpoint=unix://" + n.socket("podexecd"), "logs", "web"}, Stdout: file, Stderr: n.stderr, Getenv: noVariables, Hostname: "node1",
	})
	if got, err := os.ReadFile(file.Name()); err != nil || code != exitOK || string(got) != text {
		t.Errorf("a file gets %q, error %v, exit code %d, stderr %q", got, err, code, n.stderr)
	}
}
