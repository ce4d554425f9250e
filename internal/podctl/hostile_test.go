package podctl

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/hostiletext"
	"github.com/podstream/podstream/internal/podctl/hostiledaemon"
	"github.com/podstream/podstream/internal/podctl/render"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// TestHostileText: no view of any command lets a rune through on which a terminal acts, or which it doesn't show.
func TestHostileText(t *testing.T) {
	for _, command := range commands(newTool(Config{Getenv: noVariables}).command()) {
		views := hostileViews[command]
		if len(views) == 0 {
			t.Errorf("%s has no row in hostileViews: its output isn't checked with hostile text", command)
		}
		for _, v := range views {
			formats := v.formats
			if formats == nil {
				formats = []string{""}
			}
			for _, format := range formats {
				args := strings.Fields(v.args)
				if format != "" {
					args = append([]string{"-o", format}, args...)
				}
				t.Run(strings.Join(args, " "), func(t *testing.T) {
					t.Parallel()
					if got := v.run(t, args, v.refused, (*node).run); got != "" {
						t.Error(got)
					}
					if !v.outside && !v.refused {
						if got := v.run(t, args, true, (*node).run); got != "" {
							t.Errorf("daemons that refuse: %s", got)
						}
					}
				})
			}
		}
	}
}

// escapedText is a NUL, an escape character or an override of the corpus, as tables and documents show it.
var escapedText = regexp.MustCompile(`\\(0|x00|u0000|x1b|u001b|U0000001b|u202e|U0000202e)`)

// run runs the view by podctl, and returns what is wrong with its output; empty: nothing.
func (v hostileView) run(t *testing.T, args []string, failing bool, podctl func(*node, context.Context, ...string) int) string {
	t.Helper()
	n := newNode(t)
	for _, daemon := range []string{"podconfigd", "podexecd"} {
		d := &hostiledaemon.Daemon{Failing: failing, Only: v.only}
		if slices.Contains(strings.Fields(v.args), "web") {
			d.Pod = "web"
		}
		n.serveBy(daemon, d.Server())
	}
	if v.prepare != nil {
		args = append(args, v.prepare(t, n)...)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		podctl(n, ctx, args...)
	}()
	if v.until != "" {
		n.stderr.await(t, v.until)
		cancel()
	}
	<-ended
	cancel()
	// An expression's text has the line ends and the tabs of values.
	expression := slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "={") })
	allowed := "\n"
	if expression {
		allowed += "\t"
	}
	for _, out := range []struct{ name, text string }{{"stdout", n.stdout.String()}, {"stderr", n.stderr.String()}} {
		if r, at := hostiletext.Find(out.text, allowed); at >= 0 {
			return fmt.Sprintf("%s has %U, after %q", out.name, r, out.text[max(0, at-300):at])
		}
	}
	if v.noted && !failing && !escapedText.MatchString(n.stderr.String()) {
		return "doesn't print what the daemons send as a note:\n" + n.stderr.String()
	}
	quiet := failing || v.silent || v.noted
	switch {
	case !expression && strings.Contains("\n"+n.stdout.String()+"\n"+n.stderr.String(), "\ndefault     fake"):
		return "starts a line with what a daemon sends"
	case failing && n.stdout.String()+n.stderr.String() == "":
		return "prints no error"
	case !quiet && n.stdout.String() == "":
		return "prints nothing; stderr:\n" + n.stderr.String()
	case !quiet && !v.outside && !escapedText.MatchString(n.stdout.String()):
		return "doesn't print what the daemons send:\n" + n.stdout.String()
	}
	return ""
}

// commands returns the paths of the commands that a user can run, but those that cobra adds.
func commands(root *cobra.Command) []string {
	var out []string
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		if cmd.Runnable() {
			out = append(out, cmd.CommandPath())
		}
		out = append(out, commands(cmd)...)
	}
	return out
}

// TestHostileTextIsFound: a view that doesn't escape what a daemon sends, or what it refuses, fails the check.
func TestHostileTextIsFound(t *testing.T) {
	for name, tc := range map[string]struct {
		plant func(*node, *podexecv1.ListPodsResponse, error)
		want  string
		fails bool
	}{
		"a raw name": {plant: func(n *node, pods *podexecv1.ListPodsResponse, _ error) {
			for _, p := range pods.GetPods() {
				fmt.Fprintln(n.stdout, p.GetRef().GetName())
			}
		}, want: "stdout has U+0000"},
		"an error as it is": {plant: func(n *node, _ *podexecv1.ListPodsResponse, err error) { fmt.Fprintln(n.stderr, err) }, want: "stderr has U+0000",
			fails: true},
		"half of the characters": {plant: func(n *node, pods *podexecv1.ListPodsResponse, _ error) {
			for _, p := range pods.GetPods() {
				fmt.Fprintln(n.stdout, strings.Map(func(r rune) rune {
					if !unicode.IsPrint(r) {
						return -1
					}
					return r
				}, p.GetRef().GetName()))
			}
		}, want: "stdout has U+034F"},
		"a second line": {plant: func(n *node, pods *podexecv1.ListPodsResponse, _ error) {
			for _, p := range pods.GetPods() {
				for line := range strings.Lines(p.GetRef().GetName()) {
					fmt.Fprintln(n.stdout, render.Escape(strings.TrimSuffix(line, "\n")))
				}
			}
		}, want: "starts a line"},
		"nothing": {plant: func(*node, *podexecv1.ListPodsResponse, error) {}, want: "prints nothing"},
		"only a headline": {plant: func(n *node, _ *podexecv1.ListPodsResponse, _ error) { fmt.Fprintln(n.stdout, "NAME") },
			want: "doesn't print what the daemons send"},
	} {
		got := hostileView{}.run(t, nil, tc.fails, func(n *node, ctx context.Context, _ ...string) int {
			conn, err := daemon{name: "podexecd", endpoint: endpoint{path: n.socket("podexecd")}}.connect("test")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			pods, err := podexecv1.NewPodExecServiceClient(conn).ListPods(ctx, &podexecv1.ListPodsRequest{})
			tc.plant(n, pods, err)
			return exitOK
		})
		if !strings.Contains(got, tc.want) {
			t.Errorf("%s: the check reports %q, want %q", name, got, tc.want)
		}
	}
}
