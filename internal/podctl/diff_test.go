package podctl

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func exampleDiff(t *testing.T) *podconfigv1.DiffManifestsResponse {
	t.Helper()
	many := podctltest.Pod("default", "many-node1")
	for _, name := range []string{"log", "proxy", "\x1b[2J"} {
		many.Spec.Containers = append(many.Spec.Containers, many.Spec.Containers[0])
		many.Spec.Containers[len(many.Spec.Containers)-1].Name = name
	}
	broken := podctltest.Ref("file", "default", "broken-node1")
	broken.Content = &podconfigv1.Pod_Protobuf{Protobuf: []byte("not a pod")}
	update := func(op podconfigv1.PodOperation, source string, pods ...*podconfigv1.Pod) *podconfigv1.PodUpdate {
		return &podconfigv1.PodUpdate{Op: op, Source: source, SourceReady: true, Pods: pods}
	}
	return &podconfigv1.DiffManifestsResponse{
		Updates: []*podconfigv1.PodUpdate{
			update(podconfigv1.PodOperation_POD_OPERATION_REMOVE, "file", podctltest.Ref("file", "default", "web-node1")),
			update(podconfigv1.PodOperation_POD_OPERATION_ADD, "file",
				podctltest.Desired(t, "file", podctltest.Pod("default", "web-node1")), podctltest.Desired(t, "file", many), broken),
			update(podconfigv1.PodOperation_POD_OPERATION_ADD, "http:central"),
		},
		Findings: []*podconfigv1.Finding{
			{Severity: podconfigv1.FindingSeverity_FINDING_SEVERITY_WARNING, Origin: "/etc/podstream/manifests/web.yaml", Document: 2,
				Field: "spec.nodename", Message: "unknown field"},
			{Severity: podconfigv1.FindingSeverity_FINDING_SEVERITY_CONFLICT, Origin: "/etc/podstream/manifests/web.yaml",
				Message: "default/db-node1 is also in http:central"},
		},
		Revision: 17,
	}
}

// diffNode has a podconfigd with a source of files, whose directory exists, and another directory.
type diffNode struct {
	*node
	asked chan *podconfigv1.DiffManifestsRequest
}

func newDiffNode(t *testing.T, diff *podconfigv1.DiffManifestsResponse, desired ...*podconfigv1.Pod) *diffNode {
	t.Helper()
	n := &diffNode{node: newNode(t), asked: make(chan *podconfigv1.DiffManifestsRequest, 10)}
	n.write("manifests/web.yaml", "web")
	n.write("mine/web.yaml", "my web")
	n.write("mine/db.json", "my db")
	n.write("mine/one.yml", "my one")
	n.write("mine/db.yaml~", "a backup")
	n.write("mine/.db.yaml", "hidden")
	n.write("mine/sub.yaml/x", "in a directory")
	n.ask(&askedPodconfigd{diff: diff, asked: n.asked, fakePodconfigd: &fakePodconfigd{pods: desired, sources: []*podconfigv1.Source{
		{Name: "file", Location: n.path("manifests")},
		{Name: "file:single", Location: n.path("manifests/web.yaml")},
		{Name: "file:unseen", Location: "/no/such/directory"},
		{Name: "http", Location: "https://example.org/pods"},
	}}})
	return n
}

func (n *diffNode) path(name string) string { return filepath.Join(n.dir, name) }

func (n *diffNode) write(name, text string) {
	n.t.Helper()
	if err := os.MkdirAll(filepath.Dir(n.path(name)), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(n.path(name), []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func TestDiff(t *testing.T) {
	for output, format := range map[string]podconfigv1.PodFormat{
		"table": podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, "wide": podconfigv1.PodFormat_POD_FORMAT_PROTOBUF,
		"json": podconfigv1.PodFormat_POD_FORMAT_JSON, "yaml": podconfigv1.PodFormat_POD_FORMAT_JSON,
	} {
		t.Run(output, func(t *testing.T) {
			n := newDiffNode(t, exampleDiff(t))
			if code := n.run(t.Context(), "diff", n.path("manifests/web.yaml"), "-o", output); code != exitDiffers || n.stderr.String() != "" {
				t.Errorf("exit code %d, stderr:\n%s", code, n.stderr)
			}
			n.golden("diff."+output, n.stdout.String())
			want := &podconfigv1.DiffManifestsRequest{Source: "file", Format: format, Manifests: []*podconfigv1.ManifestInput{
				{Origin: n.path("manifests/web.yaml"), Content: []byte("web")},
			}}
			if d := cmp.Diff(want, <-n.asked, protocmp.Transform()); d != "" {
				t.Errorf("the request (-want +got):\n%s", d)
			}
		})
	}
}

// The exit codes are kubectl diff's; a rejected manifest isn't one without changes.
func TestDiffExitCodes(t *testing.T) {
	change := exampleDiff(t).Updates[:1]
	finding := func(s podconfigv1.FindingSeverity) []*podconfigv1.Finding {
		return []*podconfigv1.Finding{{Severity: s, Origin: "/web.yaml", Message: "hm"}}
	}
	rejected := finding(podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR)
	warned := finding(podconfigv1.FindingSeverity_FINDING_SEVERITY_WARNING)
	const same = "nothing would change\n"
	const problem = "\nSEVERITY"
	for name, tc := range map[string]struct {
		diff   *podconfigv1.DiffManifestsResponse
		code   int
		starts string
	}{
		"nothing":           {&podconfigv1.DiffManifestsResponse{}, exitSame, same},
		"warned":            {&podconfigv1.DiffManifestsResponse{Findings: warned}, exitSame, same + problem},
		"a change":          {&podconfigv1.DiffManifestsResponse{Updates: change}, exitDiffers, "OP "},
		"rejected":          {&podconfigv1.DiffManifestsResponse{Findings: rejected}, exitTrouble, same + problem},
		"some are rejected": {&podconfigv1.DiffManifestsResponse{Updates: change, Findings: rejected}, exitTrouble, "OP "},
	} {
		n := newDiffNode(t, tc.diff)
		if code := n.run(t.Context(), "diff", n.path("manifests/web.yaml")); code != tc.code || n.stderr.String() != "" ||
			!strings.HasPrefix(n.stdout.String(), tc.starts) {
			t.Errorf("%s: exit code %d, stdout:\n%s\nstderr:\n%s", name, code, n.stdout, n.stderr)
		}
	}
}

// The paths that the manifests are compared at, and the notes about them.
func TestDiffOrigins(t *testing.T) {
	for _, tc := range []struct{ args, want, notes string }{
		{"DIR/manifests/web.yaml", "DIR/manifests/web.yaml=web", ""},
		{"DIR/mine/../manifests/web.yaml", "DIR/manifests/web.yaml=web", ""},
		{"DIR/link/web.yaml", "DIR/manifests/web.yaml=web", ""},
		{"DIR/manifests", "DIR/manifests/web.yaml=web", ""},
		{"DIR/mine/web.yaml", "DIR/manifests/web.yaml=my web",
			"podctl: DIR/mine/web.yaml is compared as if it were copied to DIR/manifests/web.yaml\n"},
		{"DIR/mine", "DIR/manifests/db.json=my db DIR/manifests/one.yml=my one DIR/manifests/web.yaml=my web",
			"podctl: DIR/mine/db.json is compared as if it were copied to DIR/manifests/db.json\n" +
				"podctl: DIR/mine/one.yml is compared as if it were copied to DIR/manifests/one.yml\n" +
				"podctl: DIR/mine/web.yaml is compared as if it were copied to DIR/manifests/web.yaml\n"},
		{"DIR/mine/web.yaml --at /else/./x.yaml", "/else/x.yaml=my web", ""},
		{"- --at /else/x.yaml", "/else/x.yaml=typed", ""},
		{"- --at /else/x.yaml --remove", "/else/x.yaml removed", ""},
		{"DIR/manifests --remove", "DIR/manifests/web.yaml removed", ""},
		{"DIR/manifests/gone.yaml --remove", "DIR/manifests/gone.yaml removed", ""},
		{"DIR/manifests/web.yaml --source=file:single", "DIR/manifests/web.yaml=web", ""},
		{"DIR/mine/one.yml --source=file:single", "DIR/manifests/web.yaml=my one",
			"podctl: DIR/mine/one.yml is compared as if it were copied to DIR/manifests/web.yaml\n"},
		{"DIR/mine/one.yml --source=file:unseen", "/no/such/directory/one.yml=my one",
			"podctl: DIR/mine/one.yml is compared as if it were copied to /no/such/directory/one.yml\n"},
	} {
		n := newDiffNode(t, &podconfigv1.DiffManifestsResponse{})
		if err := os.Symlink("manifests", n.path("link")); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"diff", "--podconfig-endpoint=unix://" + n.socket("podconfigd")},
			strings.Fields(strings.ReplaceAll(tc.args, "DIR", n.dir))...)
		code := Run(t.Context(), Config{Args: args, Stdin: strings.NewReader("typed"), Stdout: n.stdout, Stderr: n.stderr})
		if code != exitSame {
			t.Errorf("diff %s: exit code %d, stderr:\n%s", tc.args, code, n.stderr)
			continue
		}
		var got []string
		for _, m := range (<-n.asked).GetManifests() {
			text := m.GetOrigin() + "=" + string(m.GetContent())
			if m.GetRemove() && m.GetContent() == nil {
				text = m.GetOrigin() + " removed"
			}
			got = append(got, text)
		}
		if got := strings.ReplaceAll(strings.Join(got, " "), n.dir, "DIR"); got != tc.want {
			t.Errorf("diff %s asks for\n%s\nwant\n%s", tc.args, got, tc.want)
		}
		if notes := strings.ReplaceAll(n.stderr.String(), n.dir, "DIR"); notes != tc.notes {
			t.Errorf("diff %s: stderr\n%s\nwant\n%s", tc.args, notes, tc.notes)
		}
	}
}

// Every failure to compare has an exit code that no script takes for an answer.
func TestDiffTrouble(t *testing.T) {
	n := newDiffNode(t, nil)
	n.write("large.yaml", strings.Repeat("#", 2<<20))
	n.write("larger.yaml", strings.Repeat("#", 2<<20))
	if err := os.Mkdir(n.path("empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"":                                   "want a file, a directory, or -",
		"-":                                  `"-" needs --at`,
		"- x --at /x":                        "--at is for one MANIFEST only",
		"- --at x":                           "--at: want an absolute path",
		"DIR/mine --at /x":                   "mine is a directory; --at is for one manifest",
		"DIR/nothing":                        "no such file",
		"DIR/empty":                          "empty has no .yaml, .yml or .json files",
		"DIR/large.yaml DIR/larger.yaml":     "the manifests with DIR/larger.yaml are larger than 3 MiB",
		"DIR/mine/web.yaml DIR/manifests":    "would both be DIR/manifests/web.yaml: compare them one by one",
		"DIR/mine --source=file:single":      "would both be DIR/manifests/web.yaml",
		"DIR/mine --source=http":             "podconfigd has no source http that reads files; it has file, file:single, file:unseen",
		"DIR/manifests":                      "NotFound: no such source",
		"DIR/manifests --podconfig-endpoint": "flag needs an argument",
	} {
		n.stderr = newScreen()
		code := n.run(t.Context(), append([]string{"diff"}, strings.Fields(strings.ReplaceAll(args, "DIR", n.dir))...)...)
		if got := strings.ReplaceAll(n.stderr.String(), n.dir, "DIR"); code != exitTrouble || !strings.Contains(got, want) {
			t.Errorf("diff %s: exit code %d, stderr %q; want %d and %q", args, code, got, exitTrouble, want)
		}
	}
	if got := n.stdout.String(); got != "" {
		t.Errorf("stdout:\n%s", got)
	}
	alone := newNode(t)
	code := alone.run(t.Context(), "diff", n.path("manifests"))
	if got := alone.stderr.String(); code != exitTrouble || !strings.Contains(got, "can't reach podconfigd") {
		t.Errorf("without podconfigd: exit code %d, stderr %q", code, got)
	}
	alone.ask(&askedPodconfigd{})
	alone.stderr = newScreen()
	code = alone.run(t.Context(), "diff", n.path("manifests"))
	if got := alone.stderr.String(); code != exitTrouble || !strings.Contains(got, "no source of files") {
		t.Errorf("without sources: exit code %d, stderr %q", code, got)
	}
}

func TestDiffStdoutBroken(t *testing.T) {
	for _, output := range []string{"table", "json"} {
		for _, diff := range []*podconfigv1.DiffManifestsResponse{exampleDiff(t), {}} {
			n := newDiffNode(t, diff)
			code := Run(t.Context(), Config{
				Args:   []string{"diff", n.path("manifests"), "-o", output, "--podconfig-endpoint=unix://" + n.socket("podconfigd")},
				Stdout: brokenPipe{}, Stderr: n.stderr,
			})
			if code != exitTrouble || n.stderr.String() != "podctl: print: broken pipe\n" {
				t.Errorf("-o %s: exit code %d, stderr %q", output, code, n.stderr)
			}
		}
	}
}

// Ctrl-C ends diff also while it waits for typed input.
func TestDiffInterrupted(t *testing.T) {
	n := newDiffNode(t, nil)
	stdin, typing := io.Pipe()
	defer typing.Close()
	ctx, cancel := context.WithCancel(t.Context())
	reading := &firstRead{Reader: stdin, then: cancel}
	code := Run(ctx, Config{Args: []string{"diff", "-", "--at=/x.yaml"}, Stdin: reading, Stderr: n.stderr})
	if code != exitTrouble || n.stderr.String() != "podctl: interrupted\n" {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
}

// firstRead does something once it is read.
type firstRead struct {
	io.Reader
	then func()
}

func (r *firstRead) Read(p []byte) (int, error) {
	r.then()
	return r.Reader.Read(p)
}
