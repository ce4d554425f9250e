package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/test/devnode"
	shared "github.com/podstream/podstream/test/rig"
)

// unmergedCommands are the commands of docs/podctl.md that podctl doesn't have yet. The test of internal/podctl fails for one that
// it has.
var unmergedCommands []string

// documentedResults has what commands of docs/podctl.md print, and those that may fail. Others must print something, and succeed.
var documentedResults = map[string]struct {
	// codes are the exit codes. Nil: 0.
	codes []int
	// stdout and stderr must contain these.
	stdout, stderr string
	// silent is set if nothing need be printed.
	silent bool
}{
	"get pods":               {stdout: "NAMESPACE   NAME"},
	"get pods -o wide":       {stdout: "IP"},
	"get pods -n shop":       {stdout: "RESTARTS   AGE\ncart-"},
	"get pods -l app=web":    {stdout: "web-"},
	"get pods --show-labels": {stdout: "app=web"},
	"get pods -o name":       {stdout: "pod/web-"},
	"get pod web -o yaml":    {stdout: "kind: Pod\n"},
	"get pods -o jsonpath={.items[*].status.podIP}":                   {stdout: "."},
	"get pods -o custom-columns=NAME:.metadata.name,IP:.status.podIP": {stdout: "NAME "},
	"pods":                       {stdout: "SOURCE"},
	"ps -q":                      {},
	"ps":                         {stdout: "CONTAINER ID"},
	"logs -p web":                {stdout: "hello"},
	"logs web":                   {stdout: "hello"},
	"restart web":                {stdout: "pod/web-"},
	"wait --for=condition=Ready": {stdout: "condition met"},
	"images pull":                {stdout: "sha256:"},
	"objects -n shop":            {stdout: "settings"},
	"top pods":                   {stdout: "CPU(cores)"},
	"config get-contexts":        {stdout: "node-2"},
	"completion bash":            {stdout: "podctl"},
	// Nothing is unused yet.
	"images prune": {stderr: "podctl: "},
	// The manifest has another image than the pod.
	"diff web.yaml": {codes: []int{1}, stdout: "image"},
	// What doctor finds depends on the machine.
	"doctor": {codes: []int{0, 1}, stdout: "CHECK"},
	// The simulated runtime runs commands without a stream.
	"exec -i": {codes: []int{1}, stderr: "neither standard input nor a terminal"},
	// The exit code is the command's.
	"exec web": {codes: []int{3}, silent: true},
}

// TestDocumentedCommands runs each podctl command of docs/podctl.md on a node with a few pods. An unknown command or flag fails the
// test, and so does another result than the documented one.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	tasks, err := podctltest.Documented("../../docs/podctl.md")
	check(t, err)
	r := newRig(t, startNode(t, devnode.Sim))
	web := labelled("web", "default", "web") + manifestContainers("app: print, hello", "side: sleep")
	r.write("web.yaml", web)
	r.write("db.yaml", labelled("db", "default", "db")+manifestContainers("db: sleep"))
	r.write("cart.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: shop}\ndata: {a: b}\n---\n"+
		labelled("cart", "shop", "cart")+manifestContainers("cart: sleep")+
		"    envFrom: [{configMapRef: {name: settings}}]\n")
	// Its back-off is a warning.
	r.write("bad.yaml", labelled("bad", "default", "bad")+manifestContainers("bad: exit, \"1\""))
	r.awaitRunning("web")
	r.awaitRunning("db")

	p := &documentedPodctl{t: t, dir: t.TempDir(), rig: r}
	p.prepare(strings.Replace(web, devnode.SampleImage, "localhost/other:1", 1))
	// After a restart there is a log before the last one. Each list below finds the events and the warning.
	p.run([]string{"restart", "web", "--wait"})
	p.run([]string{"wait", "--for=condition=Ready", "web", "db"})
	r.eventually("there are warnings and the pod in shop runs", func() error {
		return errors.Join(p.prints("Warning", "get", "events"), p.prints("Running", "get", "pods", "-n", "shop"))
	})
	done := 0
	for _, task := range tasks {
		ran := false
		for _, words := range task.Commands {
			if slices.Contains(unmergedCommands, words[0]) {
				continue
			}
			ran = true
			p.check(words)
		}
		if ran {
			done++
		}
	}
	if done < 40 {
		t.Errorf("%d of %d tasks of docs/podctl.md were run; want 40", done, len(tasks))
	}
	t.Logf("%d of %d tasks were run", done, len(tasks))
	for _, wrong := range [][]string{{"frobnicate"}, {"get", "pods", "--bogus"}} {
		if code, _, stderr := p.run(wrong); code != 2 || !isUnknown(stderr) {
			t.Errorf("podctl %s: exit code %d, %q; the test wouldn't find it", strings.Join(wrong, " "), code, stderr)
		}
	}
}

// labelled returns the beginning of a pod's manifest.
func labelled(name, namespace, label string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  namespace: %s\n  labels: {app: %s}\n", name, namespace, label)
}

// manifestContainers returns the rest of a manifest, which ends with its last container.
func manifestContainers(containers ...string) string {
	_, spec, _ := strings.Cut(manifest("x", containers...), "spec:\n")
	return "spec:\n" + spec
}

// documentedPodctl runs podctl for a rig.
type documentedPodctl struct {
	t   *testing.T
	dir string
	rig *rig
}

// prepare writes the files that the commands of docs/podctl.md name.
func (p *documentedPodctl) prepare(web string) {
	config := fmt.Sprintf("apiVersion: podstream.io/v1alpha1\nkind: PodctlConfig\ncontexts:\n- {name: node-2, podconfigEndpoint: %s, podexecEndpoint: %s}\n",
		p.rig.ConfigSocket(), p.rig.ExecSocket())
	for name, text := range map[string]string{"podctl.yaml": config, "web.yaml": web} {
		check(p.t, os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600))
	}
}

// check runs a command of docs/podctl.md and compares its result.
func (p *documentedPodctl) check(words []string) {
	p.t.Helper()
	line := strings.Join(words, " ")
	code, stdout, stderr := p.run(simulated(words))
	// The longest entry that the line begins with.
	key := ""
	for prefix := range documentedResults {
		if (line == prefix || strings.HasPrefix(line, prefix+" ")) && len(prefix) > len(key) {
			key = prefix
		}
	}
	if strings.HasPrefix(line, "exec -it ") {
		key = "exec -i"
	}
	want := documentedResults[key]
	switch {
	case isUnknown(stderr) || code == 2:
		p.t.Errorf("podctl %s: exit code %d, %s", line, code, stderr)
	case want.codes == nil && code != 0 || want.codes != nil && !slices.Contains(want.codes, code):
		p.t.Errorf("podctl %s: exit code %d; want %v; stdout:\n%s\nstderr:\n%s", line, code, want.codes, stdout, stderr)
	case !want.silent && want.stderr == "" && stdout == "", !strings.Contains(stdout, want.stdout), !strings.Contains(stderr, want.stderr):
		p.t.Errorf("podctl %s prints\n%s\nand as errors\n%s\nwant %q, and %q", line, stdout, stderr, want.stdout, want.stderr)
	}
}

// isUnknown reports whether podctl doesn't have the command or the flag.
func isUnknown(stderr string) bool {
	return strings.Contains(stderr, "unknown command") || strings.Contains(stderr, "unknown flag") || strings.Contains(stderr, "unknown shorthand")
}

// simulated returns the words with the programs and images that the simulated runtime has.
func simulated(words []string) []string {
	words = slices.Clone(words)
	if i := slices.Index(words, "--"); i >= 0 && words[0] == "exec" {
		words = append(words[:i+1], "/sample", "exit", "3")
	}
	for i, word := range words {
		if strings.HasPrefix(word, "docker.io/library/") {
			words[i] = strings.Replace(word, "docker.io/library/", "localhost/", 1)
		}
	}
	return words
}

// prints returns an error unless the command prints the text.
func (p *documentedPodctl) prints(text string, words ...string) error {
	if _, stdout, stderr := p.run(words); !strings.Contains(stdout, text) {
		return fmt.Errorf("podctl %s prints %q, %q", strings.Join(words, " "), stdout, stderr)
	}
	return nil
}

// run runs podctl and returns its exit code and what it printed. A command that follows is ended, as by Ctrl-C, once it has printed.
func (p *documentedPodctl) run(words []string) (code int, stdout, stderr string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), shared.Patience(patience))
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(nodes.BinDir, "podctl"), words...)
	cmd.Dir = p.dir
	cmd.Env = []string{
		"HOME=" + p.dir, "PODCTL_CONFIG=" + filepath.Join(p.dir, "podctl.yaml"),
		"PODSTREAM_PODCONFIG_ENDPOINT=unix://" + p.rig.ConfigSocket(), "PODSTREAM_PODEXEC_ENDPOINT=unix://" + p.rig.ExecSocket(),
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	check(p.t, err)
	check(p.t, cmd.Start())
	first := make([]byte, 4<<10)
	n, err := io.ReadAtLeast(out, first, 1)
	if follows := slices.Contains(words, "-w") || slices.Contains(words, "-f"); follows && err == nil {
		check(p.t, cmd.Process.Signal(os.Interrupt))
	}
	rest, _ := io.ReadAll(out) // The exit code is what counts.
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		p.t.Fatalf("podctl %s: %v", strings.Join(words, " "), err)
	}
	if ctx.Err() != nil {
		p.t.Errorf("podctl %s didn't end", strings.Join(words, " "))
	}
	return cmd.ProcessState.ExitCode(), string(first[:n]) + string(rest), errs.String()
}
