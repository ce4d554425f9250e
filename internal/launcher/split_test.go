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
	const store, root, certs = "--root-dir=/var/lib/kubelet/podconfigd", "--root-dir=/var/lib/kubelet", "--cert-dir=/var/lib/kubelet/pki"
	const dir, adopt = "--kubelet-dir=/var/lib/kubelet", "--adopt-kubelet-pods=true"
	for name, test := range map[string]struct {
		args                 []string
		podconfigd, podexecd []string
		err                  string
	}{
		"each daemon gets its flags": {
			args:       []string{"--kubeconfig=/k", "--config", "/c", "--pod-manifest-path=/m", "--max-pods=50", "--v=2", "--node-labels="},
			podconfigd: []string{store, "--kubeconfig=/k", "--config=/c", "--pod-manifest-path=/m", "--v=2"},
			podexecd:   []string{root, dir, adopt, certs, "--kubeconfig=/k", "--config=/c", "--max-pods=50", "--v=2", "--node-labels="},
		},
		"a directory with a link's slash, and certificates elsewhere": {
			args:       []string{"--root_dir", "data/kubelet/", "--config=/c", "--cert-dir=/p"},
			podconfigd: []string{"--root-dir=/srv/data/kubelet/podconfigd", "--config=/c"},
			podexecd:   []string{"--root-dir=/srv/data/kubelet", "--kubelet-dir=/srv/data/kubelet", adopt, "--config=/c", "--cert-dir=/p"},
		},
		"an absolute directory with a slash": {
			args:       []string{"--root-dir=/data/kubelet/", "--config=/c"},
			podconfigd: []string{"--root-dir=/data/kubelet/podconfigd", "--config=/c"},
			podexecd:   []string{"--root-dir=/data/kubelet", "--kubelet-dir=/data/kubelet", adopt, certs, "--config=/c"},
		},
		"the format of the log": {
			args:       []string{"--logging-format=json", "--manifest-url=http://127.0.0.1/"},
			podconfigd: []string{store, "--log-format=json", "--manifest-url=http://127.0.0.1/"},
			podexecd:   []string{root, dir, adopt, certs, "--logging-format=json"},
		},
		"a boolean flag takes no argument": {
			args:       []string{"--rotate-certificates", "--fail-swap-on=false", "--kubeconfig", "/k", "-v4"},
			podconfigd: []string{store, "--kubeconfig=/k", "--v=4"},
			podexecd:   []string{root, dir, adopt, certs, "--rotate-certificates=true", "--fail-swap-on=false", "--kubeconfig=/k", "--v=4"},
		},
		"the last one of a flag with one value counts": {
			args:       []string{"--pod-manifest-path=/a", "--manifest-url=http://a", "--manifest-url-header=a:b", "--pod-manifest-path=x=y", "--manifest-url=http://b", "--manifest-url-header=c:d"},
			podconfigd: []string{store, "--manifest-url-header=a:b", "--pod-manifest-path=/srv/x=y", "--manifest-url=http://b", "--manifest-url-header=c:d"},
			podexecd:   []string{root, dir, adopt, certs},
		},
		"no source": {
			args:       []string{"--kubeconfig="},
			podconfigd: []string{store, "--kubeconfig=", "--pod-manifest-path="},
			podexecd:   []string{root, dir, adopt, certs, "--kubeconfig="},
		},
		"a flag of a source of podconfigd's own": {
			args:       []string{"--relay-from=unix:///r", "--config=/c"},
			podconfigd: []string{store, "--relay-from=unix:///r", "--config=/c"},
			podexecd:   []string{root, dir, adopt, certs, "--config=/c"},
		},
		"unknown":            {args: []string{"--cloud-config=/x"}, err: "unknown flag: --cloud-config"},
		"no flag":            {args: []string{"run"}, err: `unknown command "run"`},
		"no value":           {args: []string{"--config"}, err: "flag needs an argument: --config"},
		"sockets":            {args: []string{"--listen=unix:///x"}, err: "podconfigd and podexecd each have one"},
		"an empty directory": {args: []string{"--root-dir="}, err: "--root-dir must not be empty"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Split(test.args, "/srv")
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v; want %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.podconfigd, got.Podconfigd); diff != "" {
				t.Errorf("podconfigd's (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.podexecd, got.Podexecd); diff != "" {
				t.Errorf("podexecd's (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := Split([]string{"--help"}, "/"); !errors.Is(err, pflag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
}

// exampleOf are values of flags of each type in the kubelet's help; "" is a boolean's.
var exampleOf = map[string]string{
	"": "true", "Level": "2", "RuntimeDefault": "true", "[]v1.Taint": "", "colonSeparatedMultimapStringString": "", "duration": "1m", "int": "7", "int32": "7",
	"ip": "127.0.0.1", "mapStringBool": "", "mapStringString": "", "pattern=N,...": "a=1", "quantity": "1Mi", "string": "x", "strings": "x",
	"reserved-memory": "0:memory=1Gi",
}

// TestSplitAllFlags: each flag of the kubelet goes to a daemon that has it, and a value of another type is refused with the
// flag's name.
func TestSplitAllFlags(t *testing.T) {
	file, err := os.Open("../podexecd/testdata/kubelet-flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	seen := 0
	for lines := bufio.NewScanner(file); lines.Scan(); seen++ {
		name, kind, _ := strings.Cut(lines.Text(), " ")
		value, ok := exampleOf[kind]
		switch {
		case !ok:
			t.Fatalf("no example of %s, a %s", name, kind)
		case name == "root-dir", name == versionFlag, name == "help":
			continue
		case name == "pod-manifest-path", name == "tls-min-version":
			value = "/m"
		}
		c, err := Split([]string{"--" + name + "=" + value}, "/")
		if name == "tls-min-version" || name == "seccomp-default" && err != nil {
			continue // Their values are checked with the files.
		}
		if err != nil {
			t.Errorf("--%s=%s: %v", name, value, err)
			continue
		}
		arg := "--" + name + "=" + value
		if name == "logging-format" {
			arg = "--log-format=" + value
		}
		ofBoth := slices.Contains(forBoth, name)
		toPodconfigd, toPodexecd := slices.Contains(c.Podconfigd, arg), slices.Contains(c.Podexecd, "--"+name+"="+value)
		if !toPodconfigd && !toPodexecd || ofBoth && !(toPodconfigd && toPodexecd) {
			t.Errorf("--%s: podconfigd gets %q, podexecd %q", name, c.Podconfigd, c.Podexecd)
		}
		if kind == "int32" || kind == "duration" || kind == "" {
			if _, err := Split([]string{"--" + name + "=?"}, "/"); !isDiscarded(name) && (err == nil || !strings.Contains(err.Error(), "--"+name)) {
				t.Errorf("--%s=?: %v; want an error with the flag's name", name, err)
			}
		}
	}
	if seen < 140 {
		t.Errorf("the list has %d flags", seen)
	}
}

// isDiscarded reports whether no daemon reads the flag's value.
func isDiscarded(name string) bool {
	f := newFlagSet()
	return !f.ofPodconfigd[name] && f.set.Lookup(name).Hidden
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", maxLine+10)
	var out strings.Builder
	in := "time=1 msg=a\n{\"time\":\"1\"}\npanic: x\n" + long + "\nlast"
	if err := (&lines{daemon: "podexecd", to: &out}).copy(strings.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	want := "daemon=podexecd time=1 msg=a\n{\"daemon\":\"podexecd\",\"time\":\"1\"}\ndaemon=podexecd panic: x\n" +
		"daemon=podexecd " + long[:maxLine] + "\ndaemon=podexecd " + long[maxLine:] + "\ndaemon=podexecd last\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// TestEnvironment: daemons get the launcher's environment, without what is the launcher's alone and what may have credentials.
func TestEnvironment(t *testing.T) {
	got, more := environment([]string{
		"HTTPS_PROXY=http://p", "NOTIFY_SOCKET=/n", "WATCHDOG_USEC=1", "KUBELET_EXTRA_ARGS=--manifest-url-header=Authorization:x",
		"KUBELET_ANY_ARGS=--manifest-url-header=Authorization:x", "DAEMON_ARGS=--v=2", "KUBE_FEATURE_WatchListClient=false",
		"PODCONFIGD_FLAGS=--strict-manifests  --max-consumers=7", "PODEXECD_FLAGS=--metrics-address=127.0.0.1:1",
	})
	if diff := cmp.Diff([]string{"HTTPS_PROXY=http://p", "KUBE_FEATURE_WatchListClient=false"}, got); diff != "" {
		t.Error(diff)
	}
	// A nil environment of a command is that of its parent.
	if got, _ := environment([]string{"KUBELET_EXTRA_ARGS=--v=2"}); got == nil {
		t.Error("without other variables, the environment is nil")
	}
	want := extra{[]string{"--strict-manifests", "--max-consumers=7"}, []string{"--metrics-address=127.0.0.1:1"}}
	if diff := cmp.Diff(want, more, cmp.AllowUnexported(extra{})); diff != "" {
		t.Error(diff)
	}
}
