package podctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// runAlone runs podctl with nothing to talk to.
func runAlone(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Run(context.Background(), Config{Args: args, Stdout: &out, Stderr: &errs, Version: "v1.2.3", Getenv: noVariables})
	return code, out.String(), errs.String()
}

func TestUsageErrors(t *testing.T) {
	for args, want := range map[string]string{
		"frobnicate":                              `unknown command "frobnicate" for "podctl"; run`,
		"list pods -A":                            `unknown command "list" for "podctl": did you mean podctl pods?; run`,
		"-o json list ev":                         "did you mean podctl events?",
		"show cm/web":                             "did you mean podctl objects?",
		"get":                                     "want a type: pods, events, sources or consumers",
		"get cm/web":                              "podctl objects shows the ConfigMaps and Secrets",
		"get pvc":                                 "podctl volumes shows the volumes of static pods' claims",
		"get nodes":                               "podctl doctor shows the state of this node",
		"get things":                              `there is no type "things": want pods, events, sources, consumers`,
		"get pod/a source/b":                      `want TYPE/NAME of one type; there is "source/b"`,
		"get pod/":                                `want TYPE/NAME of one type; there is "pod/"`,
		"get pods -w --sort-by=.metadata.name":    "--sort-by sorts a list",
		"pods --sort-by={.a":                      "the closing brace is missing",
		"pods -l a=b=c":                           "found '=', expected: ','",
		"get pods --field-selector=a":             "invalid selector",
		"pods -o jsonpath":                        "want jsonpath=..., with the expression",
		"pods -o jsonpath={.a":                    "unclosed action",
		"pods -o go-template={{":                  "no Go templates: use jsonpath=",
		"pods -o custom-columns=A":                "want NAME:PATH",
		"describe web -l a=b":                     "give the name of a pod, or --selector",
		"logs web -l a=b":                         "give the name of a pod, or --selector",
		"logs web -c a --all-containers":          "--container and --all-containers: give one of them",
		"logs web -f --max-log-requests=0":        "--max-log-requests: want a number from 1",
		"debug web":                               "kubectl has",
		"wach":                                    `unknown command "wach" for "podctl": did you mean wait or watch?; run`,
		"describe web -o json":                    "podctl describe prints text only: it has no --output",
		"-o yaml logs web":                        "podctl logs prints text only",
		"logs web -n a,b":                         "want one namespace",
		"pods -n A":                               `"A" can't be the name of a namespace`,
		"watch -n a/b":                            `"a/b" can't be the name of a namespace`,
		"pods --bogus":                            "unknown flag: --bogus",
		"sources extra":                           `podctl sources takes flags only, and no argument such as "extra"; run`,
		"watch extra":                             `podctl watch takes flags only`,
		"record a b":                              "want one file; there are 2 arguments",
		"replay":                                  "want one file; there are 0 arguments",
		"diff":                                    "want a file, a directory, or -",
		"pods -o xml":                             "want table, wide, json, yaml or name, or an expression after jsonpath=",
		"watch --format=xml":                      "want auto, json, protobuf or reference",
		"watch --format=":                         "want auto, json, protobuf or reference",
		"watch --mode=":                           "want incremental, snapshot-and-updates or snapshot",
		"watch --heartbeat-interval=-1s":          "--heartbeat-interval: want a time from 0",
		"record x --heartbeat-interval=-1s":       "--heartbeat-interval: want a time from 0",
		"record x --format=auto":                  "want json, protobuf or reference",
		"logs":                                    "want the name of a pod",
		"logs a b":                                "want one pod; there are 2 names",
		"logs a --tail=-2":                        "--tail: want a number from 0, or -1 for all",
		"logs a --limit-bytes=-1":                 "--limit-bytes: want a number from 0",
		"logs a --since=-1s":                      "--since: want a time from 0",
		"logs a --since-time=noon":                "--since-time:",
		"logs a --since=1s --since-time=x":        "--since and --since-time: give one of them",
		"exec a sh":                               "the command comes after two dashes",
		"exec -- sh":                              "want one pod before the dashes; there are 0 arguments",
		"exec a b -- sh":                          "want one pod before the dashes; there are 2 arguments",
		"exec a --":                               "want a command after the dashes",
		"attach":                                  "want the name of a pod",
		"attach a -- sh":                          "want one pod; there are 2 names",
		"cp a:/b":                                 "want a source and a destination; there are 1 arguments",
		"cp a b":                                  "must be in a container",
		"cp a:/b c:/d":                            "must be a path on this machine",
		"cp a:/b c --max-bytes=0":                 "want a size above 0",
		"cp a:/b c --max-entries=0":               "--max-entries: want a number from 1",
		"port-forward web":                        "want a pod and at least one port",
		"port-forward web x:80":                   "the local port isn't a number from 0 to 65535",
		"port-forward web 80 --address=a.b":       `"a.b" is neither an IP address nor localhost`,
		"describe":                                "want the name of a pod",
		"events a b":                              "want one pod; there are 2 names",
		"rollout restart pod/web":                 "did you mean podctl restart?",
		"restart":                                 "want the name of a pod",
		"restart a b":                             "want one pod; there are 2 names",
		"restart a --timeout=soon":                "invalid duration",
		"restart a -o json":                       "podctl restart prints text only",
		"wait --for=delete":                       "want the names of pods",
		"wait pod --for=delete":                   "want the names of pods",
		"wait web":                                "want --for: want condition=NAME[=VALUE]",
		"wait web --for=Ready":                    "want condition=NAME[=VALUE], jsonpath=",
		"wait web --for=condition=":               "want condition=NAME[=VALUE]",
		"wait web --for=jsonpath=":                "want condition=NAME[=VALUE]",
		"wait web --for=jsonpath={.spec}=x":       "podexecd reports a pod's .status",
		"wait web --for=jsonpath={.status}x":      "want condition=NAME[=VALUE]",
		"wait web --for=jsonpath={.status.a}=":    "the value after jsonpath's expression is empty",
		"wait web --for=jsonpath={.status[}":      "jsonpath {.status[}: ",
		"wait web --for=delete -o name":           "podctl wait prints text only",
		"pods --version":                          "unknown flag: --version",
		"pods --request-timeout=soon":             "invalid duration",
		"pods --podconfig-endpoint=localhost:9":   "want a socket's path, unix:///PATH or tcp://HOST:PORT",
		"pods --podconfig-endpoint=http://a/b":    "want a socket's path, unix:///PATH or tcp://HOST:PORT",
		"pods --podexec-endpoint=tcp://localhost": "after tcp:// come a host and a port",
		"pods --podexec-endpoint=unix:":           "want a socket's path",
		"pods --podexec-endpoint=":                "want a socket's path",
		"pods --podexec-endpoint=unix://run/x":    "after unix:// comes an absolute path",
		"apply":                                   "want manifests: give -f",
		"apply web.yaml":                          `podctl apply takes flags only, and no argument such as "web.yaml"`,
		"apply -f a --allow-empty":                "--allow-empty is for --prune",
		"apply -f a --dry-run=maybe":              "want none or server",
		"delete":                                  "want the names of pods, or -f",
		"delete web -f web.yaml":                  "want the names of pods, or -f",
		"edit":                                    "want the name of a pod",
		"edit web -o json":                        "podctl edit prints text only",
		"create -f web.yaml":                      "did you mean podctl apply?",
		"rm web":                                  "did you mean podctl delete?",
		"scale web":                               "put a manifest into the directory of a source",
		"pods --podexec-endpoint=unix-abstract:name": "want a socket's path",
	} {
		code, stdout, stderr := runAlone(strings.Fields(args)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) || !strings.Contains(stderr, "--help' for usage") || strings.Contains(stderr, `\n`) {
			t.Errorf("podctl %s: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"help"}, {"watch", "-h"}} {
		code, stdout, stderr := runAlone(args...)
		if code != exitOK || !strings.Contains(stdout, "Usage:") || stderr != "" {
			t.Errorf("podctl %v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
		if !strings.Contains(stdout, "unix:///run/podstream/podconfigd.sock") {
			t.Errorf("podctl %v doesn't tell the default socket:\n%s", args, stdout)
		}
	}
}

// A command's help lists the flags that it uses; it accepts all global ones.
func TestHelpOfIgnoredFlags(t *testing.T) {
	for command, ignored := range ignoredFlags {
		_, stdout, _ := runAlone(append([]string{"help"}, strings.Fields(command)...)...)
		for _, global := range slices.Concat(podconfigFlags, podexecFlags, tlsFlags, outputFlags, timeoutFlags) {
			if got, want := strings.Contains(stdout, "--"+global+" "), !slices.Contains(ignored, global); got != want {
				t.Errorf("help %s tells of --%s: %v; want %v", command, global, got, want)
			}
		}
		// pflag counts bytes: anything but ASCII shifts a column.
		if strings.ContainsFunc(stdout, func(r rune) bool { return r > unicode.MaxASCII }) {
			t.Errorf("help %s isn't ASCII:\n%s", command, stdout)
		}
	}
	if _, stdout, _ := runAlone("help", "pods"); !strings.Contains(stdout, "--podexec-endpoint ") {
		t.Errorf("help pods doesn't tell of --podexec-endpoint:\n%s", stdout)
	}
}

func TestEndpoint(t *testing.T) {
	for in, want := range map[string]endpoint{
		"unix:///run/x.sock": {path: "/run/x.sock"}, "unix:/run/x.sock": {path: "/run/x.sock"}, "unix:x.sock": {path: "x.sock"},
		"/run/x.sock": {path: "/run/x.sock"}, "./x.sock": {path: "./x.sock"}, "run/x.sock": {path: "run/x.sock"},
		"tcp://localhost:1": {address: "localhost:1"}, "tcp://[::1]:https": {address: "[::1]:https"},
	} {
		var e, again endpoint
		if err := e.Set(in); err != nil || e != want {
			t.Errorf("%s: %+v, error %v", in, e, err)
		}
		if err := again.Set(e.String()); err != nil || again != e {
			t.Errorf("%s reads back as %+v, error %v", &e, again, err)
		}
	}
}

func TestVersionFlag(t *testing.T) {
	want := fmt.Sprintf("podctl v1.2.3 (%s, %s/%s)\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if code, stdout, stderr := runAlone("--version"); code != exitOK || stdout != want || stderr != "" {
		t.Errorf("exit code %d, stdout %q, stderr %q; want %q", code, stdout, stderr, want)
	}
}

// The error of a failed connection names the endpoint and the next check.
func TestUnreachable(t *testing.T) {
	for _, command := range []string{"sources", "watch"} {
		n := newNode(t)
		check := func(want string) {
			t.Helper()
			n.stderr = newScreen()
			if code := n.run(t.Context(), command); code != exitFailed || n.stdout.String() != "" {
				t.Errorf("%s: exit code %d, stdout:\n%s", command, code, n.stdout)
			}
			got := n.stderr.String()
			if !strings.HasPrefix(got, "podctl: can't reach podconfigd at unix://"+n.socket("podconfigd")+": "+want) || strings.Count(got, "\n") != 1 {
				t.Errorf("%s: stderr:\n%s", command, got)
			}
		}
		check("there is no such socket: is podconfigd running?")
		if err := os.WriteFile(n.socket("podconfigd"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		check("no process listens on the socket: is podconfigd running?")
	}
}

// Ctrl-C ends a list that hangs, and is no success.
func TestInterrupted(t *testing.T) {
	n := newNode(t)
	n.podexecd(&fakePodexecd{hang: true})
	n.podconfigd(&fakePodconfigd{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code := n.run(ctx, "pods"); code != exitFailed || n.stderr.String() != "podctl: interrupted\n" {
		t.Errorf("exit code %d, stderr %q", code, n.stderr)
	}
}

type brokenPipe struct{}

var errPipe = errors.New("broken pipe")

func (brokenPipe) Write([]byte) (int, error) { return 0, errPipe }

// A command that can't print fails; watch doesn't reconnect for it.
func TestStdoutBroken(t *testing.T) {
	for _, args := range []string{"pods", "sources", "watch", "version"} {
		for _, output := range []string{"table", "json", "yaml"} {
			n := newNode(t)
			config, exec := examples(t)
			config.sources = exampleSources()
			config.scripts = [][]*message{{syncedAt(4)}}
			n.podconfigd(config)
			n.podexecd(exec)
			code := Run(t.Context(), Config{
				Args: []string{args, "-o", output, "--podconfig-endpoint=unix://" + n.socket("podconfigd"),
					"--podexec-endpoint=unix://" + n.socket("podexecd")},
				Stdout: brokenPipe{}, Stderr: n.stderr,
			})
			if code != exitFailed || n.stderr.String() != "podctl: print: broken pipe\n" {
				t.Errorf("%s -o %s: exit code %d, stderr %q", args, output, code, n.stderr)
			}
		}
	}
}
