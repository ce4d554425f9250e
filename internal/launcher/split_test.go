package launcher

import (
	"bufio"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestSplit(t *testing.T) {
	for name, test := range map[string]struct {
		args                 []string
		podconfigd, podexecd []string
		version, err         string
	}{
		"each program gets its flags": {
			args: []string{"--kubeconfig=/k", "--config", "/c", "--pod-manifest-path=/m", "--max-pods=50", "--v=2", "--node-labels="},
			podconfigd: []string{
				"--kubeconfig=/k", "--config=/c", "--pod-manifest-path=/m", "--v=2", "--root-dir=/var/lib/kubelet/podconfigd",
			},
			podexecd: []string{"--kubeconfig=/k", "--config=/c", "--max-pods=50", "--v=2", "--node-labels=", "--root-dir=/var/lib/kubelet"},
		},
		"a directory": {
			args:       []string{"--root_dir", "/data/kubelet/", "--config=/c"},
			podconfigd: []string{"--config=/c", "--root-dir=/data/kubelet/podconfigd"},
			podexecd:   []string{"--config=/c", "--root-dir=/data/kubelet"},
		},
		"the format of the log": {
			args:       []string{"--logging-format=json", "--manifest-url=http://127.0.0.1/"},
			podconfigd: []string{"--log-format=json", "--manifest-url=http://127.0.0.1/", "--root-dir=/var/lib/kubelet/podconfigd"},
			podexecd:   []string{"--logging-format=json", "--root-dir=/var/lib/kubelet"},
		},
		"a boolean flag takes no argument": {
			args:       []string{"--rotate-certificates", "--fail-swap-on=false", "--kubeconfig", "/k", "-v4"},
			podconfigd: []string{"--kubeconfig=/k", "--v=4", "--root-dir=/var/lib/kubelet/podconfigd"},
			podexecd:   []string{"--rotate-certificates=true", "--fail-swap-on=false", "--kubeconfig=/k", "--v=4", "--root-dir=/var/lib/kubelet"},
		},
		"no source": {
			args:       []string{"--kubeconfig="},
			podconfigd: []string{"--kubeconfig=", "--root-dir=/var/lib/kubelet/podconfigd", "--pod-manifest-path="},
			podexecd:   []string{"--kubeconfig=", "--root-dir=/var/lib/kubelet"},
		},
		"its version":        {args: []string{"--version", "--config=/c"}, version: "true"},
		"a version's value":  {args: []string{"--version=raw", "--config=/c"}, version: "raw"},
		"unknown":            {args: []string{"--cloud-config=/x"}, err: "unknown flag: --cloud-config"},
		"no flag":            {args: []string{"run"}, err: `unknown command "run"`},
		"no value":           {args: []string{"--config"}, err: "flag needs an argument: --config"},
		"sockets":            {args: []string{"--listen=unix:///x"}, err: "--listen: podconfigd and podexecd each have one"},
		"an empty directory": {args: []string{"--root-dir="}, err: "--root-dir must not be empty"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Split(test.args)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v; want %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Version != test.version {
				t.Errorf("version %q; want %q", got.Version, test.version)
			}
			if test.version != "" {
				return
			}
			if diff := cmp.Diff(test.podconfigd, got.Podconfigd); diff != "" {
				t.Errorf("podconfigd's (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.podexecd, got.Podexecd); diff != "" {
				t.Errorf("podexecd's (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := Split([]string{"--help"}); !errors.Is(err, pflag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
}

// lines returns the lines of a file.
func lines(t *testing.T, path string) (out []string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		out = append(out, scanner.Text())
	}
	return out
}

// TestSplitAllFlags: each flag of the kubelet, and of both programs, goes to a program that has it.
func TestSplitAllFlags(t *testing.T) {
	for _, line := range lines(t, "../podexecd/testdata/kubelet-flags.txt") {
		name, _, _ := strings.Cut(line, " ")
		if name == "help" || name == "version" {
			continue
		}
		if _, err := Split([]string{"--" + name + "=1"}); err != nil {
			t.Errorf("the kubelet's --%s: %v", name, err)
		}
	}
	program, flags := "", map[string][]string{}
	for _, line := range lines(t, "../../docs/flags.md") {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			program = title
		}
		_, name, ok := strings.Cut(line, "--")
		if !ok || !strings.HasPrefix(line, "- `") {
			continue
		}
		flags[program] = append(flags[program], name[:strings.IndexAny(name, " `")])
	}
	for program, of := range map[string]func(Commands) []string{
		"podconfigd": func(c Commands) []string { return c.Podconfigd },
		"podexecd":   func(c Commands) []string { return c.Podexecd },
	} {
		if len(flags[program]) < 30 {
			t.Fatalf("docs/flags.md has only the flags %v of %s", flags[program], program)
		}
		for _, name := range flags[program] {
			if slices.Contains(append([]string{"version", "root-dir", "check-config"}, ownOfEach...), name) {
				continue
			}
			// These are the node API's in podexecd, and podconfigd serves only a socket here.
			if program == "podconfigd" && slices.Contains([]string{"tls-cert-file", "tls-private-key-file", "client-ca-file"}, name) {
				continue
			}
			got, err := Split([]string{"--" + name + "=1"})
			if err != nil || !slices.Contains(of(got), "--"+name+"=1") {
				t.Errorf("--%s: %s gets %q, error %v", name, program, of(got), err)
			}
		}
	}
}
