package usage

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/podstream/podstream/test/rig"
)

// rotationsEnv is the number of rotations of TestKubectlLogsOverRotations, if it isn't 50.
const rotationsEnv = "PODSTREAM_ROTATIONS"

// kubectl logs -f has each line of a container once, in their order, while its log is rotated many times.
func TestKubectlLogsOverRotations(t *testing.T) {
	const logSize, lineSize = 64 << 10, 100 // Without the time and stream that the runtime writes before a line.
	rotations := 50
	if text := os.Getenv(rotationsEnv); text != "" {
		rotations = rig.Get(strconv.Atoi(text))(t)
	}
	n := newNode(t, "rotating", func(n *node) { n.Config += "containerLogMaxSize: 64Ki\n" })
	s := newSpace(t, n)
	s.applyPod(t, "writer", toolsImage, sample("count", "15000"), "restartPolicy: Never")
	pod := s.awaitReady(t, "writer")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	follow := s.site.command(ctx, "--namespace", s.name, "logs", "-f", "writer")
	output := rig.Get(follow.StdoutPipe())(t)
	follow.Stderr = t.Output()
	rig.Must(t, follow.Start())
	defer func() { _ = follow.Wait() }()
	first, last, end, rest := 0, 0, 0, false
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "last "); ok {
			end = rig.Get(strconv.Atoi(text))(t)
			continue
		}
		if first == 0 && !rest && len(lines.Text()) < lineSize-1 {
			rest = true // containerd may divide a line between two files.
			continue
		}
		number, err := strconv.Atoi(strings.TrimRight(lines.Text(), " "))
		if err != nil || first != 0 && number != last+1 {
			t.Fatalf("after line %d follows %q", last, lines.Text())
		}
		if first == 0 {
			first = number
		}
		if last = number; last == first+rotations*logSize/lineSize {
			files := rig.Get(os.ReadDir(filepath.Join(n.Path("log", "pods"), s.name+"_writer_"+string(pod.UID), "main")))(t)
			if len(files) < 2 {
				t.Errorf("the log has %d files; want rotated ones", len(files))
			}
			s.kubectl(t, "exec", "writer", "--", "sh", "-c", "kill 1")
		}
	}
	t.Logf("kubectl logs -f has the lines %d to %d, of %d", first, last, end)
	if end == 0 || last != end {
		t.Errorf("kubectl logs -f ends with line %d; the container wrote %d", last, end)
	}
}
