package e2e

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/test/devnode"
)

// documentedResult is what a command of docs/podctl.md does.
type documentedResult struct {
	// codes are the exit codes. Nil: 0.
	codes []int
	// stdout and stderr must contain these.
	stdout, stderr string
	// silent is set if nothing need be printed.
	silent bool
	// before is a command that brings about what this one needs. Nil: none.
	before []string
	// stdin is the standard input.
	stdin string
	// leaves is a file of the working directory that the command writes, and a part of its content.
	leaves [2]string
	// shown is a command whose output contains shows afterwards. Nil: none.
	shown []string
	shows string
	// until is set for a command that goes on. Ctrl-C ends it once it has printed this.
	until string
}

// documentedResults has the results of the commands that begin with these words. Others must print something, and succeed.
var documentedResults = map[string]documentedResult{
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
	"pods -w":                    {until: "web-"},
	"ps -q":                      {},
	"ps":                         {stdout: "CONTAINER ID"},
	"logs -f":                    {until: "hello"},
	"logs -p web":                {stdout: "hello"},
	"logs web":                   {stdout: "hello"},
	"events -w":                  {until: "Warning"},
	"restart web":                {stdout: "pod/web-"},
	"wait --for=condition=Ready": {stdout: "condition met"},
	"images pull":                {stdout: "sha256:"},
	"objects -n shop":            {stdout: "settings"},
	"top pods":                   {stdout: "CPU(cores)"},
	"config get-contexts":        {stdout: "node-2"},
	"completion bash":            {stdout: "podctl"},
	// Nothing is removed without a terminal and without --yes.
	"images prune":  {codes: []int{1}, stdout: "library/nginx", stderr: "give --yes"},
	"diff web.yaml": {codes: []int{1}, stdout: "second"},
	// What doctor finds depends on the machine.
	"doctor": {codes: []int{0, 1}, stdout: "CHECK"},
	// The exit code of exec is the command's.
	"exec -it web -- sh":                    {codes: []int{3}, stdin: "echo typed\nexit 3\n", stdout: "typed"},
	"exec web -c app":                       {stdout: "today"},
	"exec -i db -- psql":                    {stdin: "select 1", stdout: "select 1"},
	"attach -it web":                        {stdin: "typed\n", until: "typed"},
	"cp web:/etc/app.conf":                  {silent: true, leaves: [2]string{"app.conf", "color"}},
	"cp -c app ./data":                      {silent: true, shown: []string{"exec", "web", "-c", "app", "--", "cat", "/srv/data/file"}, shows: "copied"},
	"volumes":                               {stdout: "data"},
	"volumes export data":                   {silent: true, leaves: [2]string{"data.tar", "./"}},
	"volumes import data":                   {stdout: "default/data imported", before: []string{"delete", "-f", "store.yaml", "--wait"}},
	"volumes rm data":                       {codes: []int{1}, silent: true, stderr: "--yes"},
	"port-forward web":                      {until: "Forwarding from 127.0.0.1:"},
	"apply -f web.yaml":                     {stdout: "pod/web configured"},
	"apply -f web.yaml --wait":              {stdout: "pod/web unchanged"},
	"apply --dry-run=server -f web.yaml":    {stdout: "pod/web unchanged (server dry run)"},
	"apply --prune --set shop -f shop/":     {stdout: "configmap/old"},
	"apply -f https://example.com/web.yaml": {stdout: "pod/web configured"},
	"delete web":                            {stdout: `pod "web" deleted from default namespace`},
	"delete -f web.yaml":                    {stdout: `pod "web" deleted from default namespace`, before: []string{"apply", "-f", "web.yaml"}},
	"edit web":                              {stdout: "+", before: []string{"apply", "-f", "web.yaml"}, shown: []string{"diff", "web.yaml"}, shows: "edited"},
}

// TestDocumentedCommands runs each podctl command of docs/podctl.md on a node with a few pods. An unknown command or flag fails the
// test, and so does another result than the documented one.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	tasks, err := podctltest.Documented("../../docs/podctl.md")
	check(t, err)
	r := newRig(t, startNode(t, devnode.Containerd2))
	r.podconfigdWith("--applied")
	p := newDocumentedPodctl(t, r)
	p.applyPods()
	for name, args := range map[string]string{"db": "sleep", "bad": `exit, "1"`} { // The back-off of bad is a warning.
		r.write(name+".yaml", documentedPod{name: name, container: "main", args: args}.manifest())
	}
	r.awaitRunning("web")
	r.awaitRunning("db")
	r.awaitRunning("store")
	// After a restart there is a log before the last one. Each list below finds the events and the warning.
	p.run([]string{"restart", "web", "--wait"}, documentedResult{})
	p.run([]string{"wait", "--for=condition=Ready", "web", "db"}, documentedResult{})
	r.eventually("there are warnings and the pod in shop runs", func() error {
		return errors.Join(p.prints("Warning", "get", "events"), p.prints("Running", "get", "pods", "-n", "shop"))
	})
	for _, task := range tasks {
		for _, words := range task.Commands {
			p.check(words)
		}
	}
	if len(tasks) < 60 {
		t.Errorf("docs/podctl.md has %d tasks with a podctl command; want 60", len(tasks))
	}
	for key := range documentedResults {
		if !p.used[key] {
			t.Errorf("no command of docs/podctl.md begins with %q", key)
		}
	}
	for _, wrong := range [][]string{{"frobnicate"}, {"get", "pods", "--bogus"}} {
		if code, _, stderr := p.run(wrong, documentedResult{}); code != 2 || !isUnknown(stderr) {
			t.Errorf("podctl %s: exit code %d, %q; the test wouldn't find it", strings.Join(wrong, " "), code, stderr)
		}
	}
}

// check runs a command of docs/podctl.md and compares its result.
func (p *documentedPodctl) check(words []string) {
	p.t.Helper()
	line := strings.Join(words, " ")
	// The longest entry that the line begins with.
	key := ""
	for prefix := range documentedResults {
		if (line == prefix || strings.HasPrefix(line, prefix+" ")) && len(prefix) > len(key) {
			key = prefix
		}
	}
	p.used[key] = true
	want := documentedResults[key]
	if want.before != nil {
		if code, stdout, stderr := p.run(want.before, documentedResult{}); code != 0 {
			p.t.Errorf("podctl %s: exit code %d, %s%s", strings.Join(want.before, " "), code, stdout, stderr)
		}
	}
	code, stdout, stderr := p.run(p.runnable(words), want)
	switch {
	case isUnknown(stderr) || code == 2:
		p.t.Errorf("podctl %s: exit code %d, %s", line, code, stderr)
	case want.codes == nil && code != 0 || want.codes != nil && !slices.Contains(want.codes, code):
		p.t.Errorf("podctl %s: exit code %d; want %v; stdout:\n%s\nstderr:\n%s", line, code, want.codes, stdout, stderr)
	case !want.silent && stdout == "", !strings.Contains(stdout, want.stdout+want.until), !strings.Contains(stderr, want.stderr):
		p.t.Errorf("podctl %s prints\n%s\nand as errors\n%s\nwant %q, and %q", line, stdout, stderr, want.stdout+want.until, want.stderr)
	}
	if name := want.leaves[0]; name != "" {
		if content, err := os.ReadFile(p.path(name)); err != nil || !strings.Contains(string(content), want.leaves[1]) {
			p.t.Errorf("podctl %s leaves %s with %q, %v; want %q", line, name, content, err, want.leaves[1])
		}
	}
	if want.shown != nil {
		if err := p.prints(want.shows, want.shown...); err != nil {
			p.t.Errorf("after podctl %s: %v; want %q", line, err, want.shows)
		}
	}
}

// isUnknown reports whether podctl doesn't have the command or the flag.
func isUnknown(stderr string) bool {
	return strings.Contains(stderr, "unknown command") || strings.Contains(stderr, "unknown flag") || strings.Contains(stderr, "unknown shorthand")
}

// prints returns an error unless the command prints the text.
func (p *documentedPodctl) prints(text string, words ...string) error {
	if _, stdout, stderr := p.run(words, documentedResult{}); !strings.Contains(stdout, text) {
		return fmt.Errorf("podctl %s prints %q, %q", strings.Join(words, " "), stdout, stderr)
	}
	return nil
}
